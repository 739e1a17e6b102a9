#include "api/refusals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/testing/hand_clock.h"
#include "base/testing/recording_log.h"

namespace deliverd::api {
namespace {

using testing::HasSubstr;

class RefusalsTest : public testing::Test {
protected:
    Duration note(const std::string& address, std::string path = "/secret", std::string_view reason = "token") {
        return refusals_.note({"GET", std::move(path), "", {}, "", address}, reason);
    }
    [[nodiscard]] int lines() { return static_cast<int>(log_.events().size()); }

    HandClock clock_;
    RecordingLog log_;
    metrics::Metrics metrics_;
    Refusals refusals_{log_, &metrics_, clock_};
};

TEST_F(RefusalsTest, SaysWhoWhereAndWhyAndCounts) {
    note("192.0.2.1", "/api\n/v1", "role");
    note("192.0.2.2", "/" + std::string(10000, 'x'), "host");
    for (const auto* word : {"192.0.2.1", "/api /v1", "role", "192.0.2.2", "host"}) {
        EXPECT_THAT(log_.text(), HasSubstr(word));
    }
    EXPECT_LT(log_.text().size(), 1000U);
    EXPECT_THAT(metrics_.text(), HasSubstr("api_refused_total{reason=\"host\"} 1"));
}

TEST_F(RefusalsTest, AFloodIsLoggedInPart) {
    for (int i = 0; i < 1000; ++i) note("192.0.2.1");
    EXPECT_EQ(lines(), kMaxRefusalLinesPerSecond);
    clock_.advance(std::chrono::seconds(1));
    note("192.0.2.1");
    EXPECT_EQ(lines(), kMaxRefusalLinesPerSecond + 1);
    EXPECT_THAT(metrics_.text(), HasSubstr("api_refused_total{reason=\"token\"} 1001"));
}

TEST_F(RefusalsTest, AnAddressThatGoesOnIsSlowedDown) {
    for (int i = 0; i < kFreeRefusals; ++i) EXPECT_EQ(note("192.0.2.1"), Duration::zero()) << i;
    EXPECT_EQ(note("192.0.2.1"), kRefusalInterval);
    EXPECT_EQ(note("192.0.2.1"), 2 * kRefusalInterval);
    for (int i = 0; i < 1000; ++i) EXPECT_LE(note("192.0.2.1"), kMaxRefusalDelay);
    EXPECT_EQ(note("192.0.2.1"), kMaxRefusalDelay);
    EXPECT_EQ(note("192.0.2.2"), Duration::zero()) << "another one";
    clock_.advance(kMaxRefusalDelay + kFreeRefusals * kRefusalInterval);
    EXPECT_EQ(note("192.0.2.1"), Duration::zero()) << "after a pause";
}

TEST_F(RefusalsTest, RemembersSoManyAddresses) {
    for (int i = 0; i < 100; ++i) note("192.0.2.1");
    for (std::size_t i = 0; i < 3 * kMaxRefusedAddresses; ++i) note(std::to_string(i));
    EXPECT_EQ(refusals_.addresses(), kMaxRefusedAddresses);
    EXPECT_GT(note("192.0.2.1"), Duration::zero()) << "the worst is not the one that is forgotten";
    clock_.advance(std::chrono::minutes(1));
    note("192.0.2.3");
    EXPECT_EQ(refusals_.addresses(), 1U);
}

}  // namespace
}  // namespace deliverd::api
