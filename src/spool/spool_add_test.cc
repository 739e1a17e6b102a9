// What may be added, up to each limit, and the line and the file that an entry makes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>

#include "spool/testing/faulty_files.h"
#include "spool/testing/power_cut_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

using testing::HasSubstr;

class SpoolAddTest : public SpoolFixture {
protected:
    /// "added", or the error's message.
    std::string outcome(const NewSpoolEntry& entry) {
        const auto added = spool_->add(entry);
        return added ? "added" : added.error().message;
    }
    static std::string endpoint_of(std::size_t bytes) {
        const std::string begin = "http://e/";
        return begin + std::string(bytes - begin.size(), 'x');
    }
};

TEST_F(SpoolAddTest, TextsHaveALongestLength) {
    EXPECT_EQ(outcome({.endpoint = endpoint_of(kMaxEndpointBytes)}), "added");
    EXPECT_THAT(outcome({.endpoint = endpoint_of(kMaxEndpointBytes + 1)}), HasSubstr("endpoint is longer than"));
    EXPECT_EQ(outcome({.endpoint = "http://e/", .job_id = std::string(kMaxJobIdBytes, 'x')}), "added");
    EXPECT_THAT(outcome({.endpoint = "http://e/", .job_id = std::string(kMaxJobIdBytes + 1, 'x')}),
                HasSubstr("job id is longer than"));
}

TEST_F(SpoolAddTest, TextsMustBeUtf8AndAnEndpointAnUrl) {
    EXPECT_EQ(outcome({.endpoint = "https://e/"}), "added");
    EXPECT_THAT(outcome({.endpoint = "e"}), HasSubstr("http://"));
    EXPECT_THAT(outcome({.endpoint = "http://e/\xff"}), HasSubstr("must be UTF-8"));
    EXPECT_THAT(outcome({.endpoint = "http://e/", .job_id = "\xff"}), HasSubstr("must be UTF-8"));
}

/// It would be a member of the line: here the endpoint.
TEST_F(SpoolAddTest, APayloadIsOneJsonValue) {
    EXPECT_THAT(outcome({.endpoint = "http://e/", .payload = R"(1,"endpoint":"http://other/")"}),
                HasSubstr("payload is not JSON"));
    EXPECT_FALSE(exists(""));
}

TEST_F(SpoolAddTest, EachEntryIsALine) {
    std::string expected;
    for (int n = 0; n < 3; ++n) expected += add().json + "\n";
    EXPECT_EQ(text_of(path_), expected);
    put("x");
    const std::string json = add().json;
    EXPECT_EQ(text_of(path_), "x\n" + json + "\n");
}

TEST_F(SpoolAddTest, WhatIsNoFileIsNotOpened) {
    std::filesystem::create_directory(path_);
    EXPECT_THAT(outcome({.endpoint = "http://e/"}), HasSubstr("cannot open " + path_));
}

/// A full disk, and a machine that goes off: at that call, and at all behind it.
TEST_F(SpoolAddTest, OnlyAnEntryThatMayBeThereIsInDoubt) {
    const std::string before = line("a", "pending", 1, 1);
    const auto folder = std::filesystem::path(path_).parent_path().string();
    int in_doubt = 0;
    for (int nth = 1; nth < 20; ++nth) {
        put(before);
        FaultyFiles full(Fault::full, nth);
        const auto refused = SpoolFile(options(), full, clock_, random_).add({.endpoint = "http://e/"});
        if (!refused) {
            EXPECT_EQ(refused.error().error_class, ErrorClass::retryable);
            EXPECT_EQ(text_of(path_), before);
        }
        PowerCutFiles off(folder, nth);
        const auto lost = SpoolFile(options(), off, clock_, random_).add({.endpoint = "http://e/"});
        if (lost) continue;
        const bool may_be_there = text_of(path_) != before;
        const bool is_in_doubt = lost.error().error_class == ErrorClass::ambiguous;
        EXPECT_TRUE(is_in_doubt || !may_be_there);
        in_doubt += is_in_doubt ? 1 : 0;
    }
    EXPECT_EQ(in_doubt, 2) << "where the write fails, or the fsync, and then the undoing";
}

TEST_F(SpoolAddTest, AttemptsAreCountedFromZeroUpToAtLeastOne) {
    EXPECT_THAT(outcome({.endpoint = "http://e/", .attempts_made = -1}), HasSubstr("attempts must be"));
    EXPECT_THAT(outcome({.endpoint = "http://e/", .max_attempts = 0}), HasSubstr("attempts must be"));
    EXPECT_EQ(must(spool_->add({.endpoint = "http://e/", .max_attempts = 1})).state, SpoolState::exhausted);
    EXPECT_EQ(must(spool_->add({.endpoint = "http://e/", .max_attempts = 2})).state, SpoolState::pending);
    constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
    const SpoolEntry last = must(spool_->add({.endpoint = "http://e/", .attempts_made = kMost}));
    EXPECT_EQ(last.attempts_made, std::int64_t{kMost} + 1);
    EXPECT_EQ(last.state, SpoolState::exhausted);
}

TEST_F(SpoolAddTest, TheWaitFollowsTheNumberOfAttempts) {
    for (const auto& [before, seconds] : {std::pair(0, 60), std::pair(1, 120), std::pair(3, 480)}) {
        const SpoolEntry entry =
            must(spool_->add({.endpoint = "http://e/", .attempts_made = before, .max_attempts = 9}));
        EXPECT_EQ(entry.attempts_made, before + 1);
        EXPECT_EQ(entry.timestamp_ms, clock_.now_ms);
        EXPECT_GE(entry.next_retry_ms - clock_.now_ms, (seconds - 30) * 1000);
        EXPECT_LE(entry.next_retry_ms - clock_.now_ms, (seconds + 30) * 1000);
    }
}

TEST_F(SpoolAddTest, ALineHasRoomToGrow) {
    const auto add_payload = [this](std::size_t bytes) {
        return spool_->add({.endpoint = "http://e/", .payload = "\"" + std::string(bytes, 'x') + "\"", .job_id = "a"});
    };
    const std::size_t other = must(add_payload(0)).json.size();
    const std::size_t most = kMaxSpoolLineBytes - kSpoolLineRoom - other;
    EXPECT_EQ(must(add_payload(most)).json.size(), kMaxSpoolLineBytes - kSpoolLineRoom);
    const auto refused = add_payload(most + 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "payload_too_large");
    EXPECT_THAT(refused.error().message,
                HasSubstr("at most " + std::to_string(kMaxSpoolLineBytes - kSpoolLineRoom) + " are taken"));
}

TEST_F(SpoolAddTest, ANewFileIsForItsOwnerAlone) {
    const mode_t before = ::umask(0);
    add();
    ::umask(before);
    struct stat status = {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST_F(SpoolAddTest, AnAppendWaitsForTheLock) {
    const File lock = must(take_lock(*files_, must(find_place(*files_, path_)), ".lock", 0, "nobody"));
    SpoolOptions hasty = options();
    hasty.lock_wait_seconds = 0;
    const auto added = SpoolFile(hasty, *files_, clock_, random_).add({.endpoint = "http://e/"});
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, "spool_busy");
    EXPECT_FALSE(exists(""));
}

}  // namespace
}  // namespace deliverd::spool
