#include "daemon/jwks_refresh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "api/testing/token_maker.h"
#include "base/testing/recording_log.h"

namespace deliverd::daemon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Duration kPatience = std::chrono::seconds(20);
constexpr Duration kLong = std::chrono::hours(1);
constexpr Duration kShort = std::chrono::milliseconds(1);

class JwksRefreshTest : public testing::Test {
protected:
    static std::string key_set(const std::string& id) {
        return api::jwks_of({api::jwk_of(SigningKey(SignatureKind::ed25519), id)});
    }

    void answer_with(Result<std::string> answer) {
        const std::lock_guard lock(mutex_);
        answer_ = std::move(answer);
    }

    std::unique_ptr<JwksRefresh> refresh(JwksTimes times) {
        const auto load = [this](const std::atomic<bool>&) {
            const std::lock_guard lock(mutex_);
            ++looks_;
            looked_.notify_all();
            return answer_;
        };
        return std::make_unique<JwksRefresh>(std::make_shared<JwksReader>(load, "the source", keys_, log_), times);
    }

    bool wait_for_looks(int count, Duration patience = kPatience) {
        std::unique_lock lock(mutex_);
        return looked_.wait_for(lock, patience, [&] { return looks_ >= count; });
    }

    /// Until an answer given before was made something of.
    bool wait_for_next_look() {
        int looks = 0;
        {
            const std::lock_guard lock(mutex_);
            looks = looks_;
        }
        return wait_for_looks(looks + 2);  // the second begins when the first has ended
    }

    std::vector<std::string> known() const {
        std::vector<std::string> ids;
        for (const auto& key : keys_->get()->keys) ids.push_back(key.id);
        return ids;
    }

    int lines_with(std::string_view words) {
        return static_cast<int>(std::ranges::count_if(
            log_.events(), [words](const std::string& event) { return event.find(words) != std::string::npos; }));
    }

    RecordingLog log_;
    const std::shared_ptr<api::JwtKeys> keys_ = std::make_shared<api::JwtKeys>(api::JwtKeySet{});
    std::mutex mutex_;
    std::condition_variable looked_;
    int looks_ = 0;
    Result<std::string> answer_ = key_set("a");
};

TEST_F(JwksRefreshTest, KeysComeAndGoWithTheirSource) {
    const auto running = refresh({kShort, kShort, kShort});
    ASSERT_TRUE(wait_for_next_look());
    EXPECT_THAT(known(), ElementsAre("a"));
    answer_with(key_set("b"));
    ASSERT_TRUE(wait_for_next_look());
    EXPECT_THAT(known(), ElementsAre("b"));
    answer_with(R"({"keys":[]})");
    ASSERT_TRUE(wait_for_next_look());
    EXPECT_THAT(known(), IsEmpty());
    EXPECT_EQ(lines_with("were read"), 3) << "not for each look";
}

TEST_F(JwksRefreshTest, WhatCannotBeHadOrReadLeavesTheKeysAsTheyAre) {
    const auto running = refresh({kShort, kShort, kShort});
    ASSERT_TRUE(wait_for_next_look());
    answer_with(retryable("http_get", "HTTP 503"));
    ASSERT_TRUE(wait_for_next_look());
    ASSERT_TRUE(wait_for_next_look());
    answer_with("<html>");
    ASSERT_TRUE(wait_for_next_look());
    EXPECT_THAT(known(), ElementsAre("a"));
    EXPECT_EQ(lines_with("cannot read the keys"), 2) << "one for each cause";
    EXPECT_THAT(log_.text(), HasSubstr("HTTP 503"));
    EXPECT_THAT(log_.text(), HasSubstr("the key set is not JSON"));
    answer_with(key_set("b"));
    ASSERT_TRUE(wait_for_next_look());
    EXPECT_THAT(known(), ElementsAre("b"));
}

TEST_F(JwksRefreshTest, LooksAgainSoonerWhereItFailedOrIsAskedTo) {
    answer_with(retryable("http_get", "HTTP 503"));
    const auto running = refresh({kLong, kShort, kShort});
    ASSERT_TRUE(wait_for_next_look()) << "after a failure";
    answer_with(key_set("a"));
    ASSERT_TRUE(wait_for_looks(3));
    running->hurry();
    ASSERT_TRUE(wait_for_looks(4));
}

TEST_F(JwksRefreshTest, IsNotHurriedMoreOftenThanSo) {
    const auto running = refresh({2 * kLong, 2 * kLong, kLong});
    ASSERT_TRUE(wait_for_looks(1));
    for (int i = 0; i < 100; ++i) running->hurry();
    EXPECT_FALSE(wait_for_looks(2, std::chrono::milliseconds(100)));
}

TEST_F(JwksRefreshTest, AFileIsReadAsItIs) {
    config::JwksSource source;
    source.file = "/no/such/file";
    const std::atomic<bool> stopped = false;
    EXPECT_THAT(load_jwks(source, stopped).error().message, HasSubstr("/no/such/file: No such file"));
    source = {};
    source.url = "http://127.0.0.1:1/keys";
    EXPECT_THAT(load_jwks(source, stopped).error().message, HasSubstr("http://127.0.0.1:1/keys: "));
}

TEST_F(JwksRefreshTest, CredentialsInTheUrlReachNoMessage) {
    config::JwksSource source;
    source.url = "http://reader:hunter2@127.0.0.1:1/keys?code=s3cret";
    const std::atomic<bool> stopped = false;
    const std::string message = load_jwks(source, stopped).error().message;
    EXPECT_THAT(message, HasSubstr("127.0.0.1:1/keys"));
    for (const std::string& shown : {message, source.name()}) {
        EXPECT_THAT(shown, Not(HasSubstr("hunter2")));
        EXPECT_THAT(shown, Not(HasSubstr("s3cret")));
    }
}

}  // namespace
}  // namespace deliverd::daemon
