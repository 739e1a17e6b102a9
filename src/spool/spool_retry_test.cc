// Which entries a run sends, in which order, and what becomes of each answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>

#include "message/retry_after.h"
#include "spool/testing/faulty_files.h"
#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

class SpoolRetryTest : public SpoolFixture {
protected:
    std::string pending(const std::string& id, std::int64_t next_retry) {
        return line(id, "pending", clock_.now_ms, next_retry);
    }
    std::vector<std::string> due(std::int64_t limit) {
        std::vector<std::string> all;
        for (const SpoolEntry& entry : must(spool_->due(limit))) all.push_back(entry.job_id);
        return all;
    }
    /// Sends one entry; the wait before the next attempt, in milliseconds.
    std::int64_t wait_after(double asked_seconds) {
        put(pending("a", 0));
        EXPECT_EQ(must(spool_->retry([&](const SpoolPost&) { return SpoolAnswer{.wait_seconds = asked_seconds}; }, {}))
                      .failed,
                  1);
        return entries().at(0).next_retry_ms - clock_.now_ms;
    }
};

TEST_F(SpoolRetryTest, TheEarliestAreChosenWhateverTheirOrder) {
    put(pending("e", 5) + pending("b", 2) + "garbage\n" + pending("d", 4) + pending("a", 1) + pending("c", 3));
    EXPECT_THAT(due(3), ElementsAre("a", "b", "c"));
    EXPECT_THAT(due(1), ElementsAre("a"));
    EXPECT_THAT(due(5), ElementsAre("a", "b", "c", "d", "e"));
    EXPECT_THAT(due(9), SizeIs(5));
    EXPECT_THAT(due(0), IsEmpty());
    EXPECT_THAT(due(-3), IsEmpty());
}

TEST_F(SpoolRetryTest, TheEarliestAreFoundInEveryOrder) {
    std::vector<std::int64_t> times = {1, 2, 3, 4, 5, 6};
    do {
        std::string text;
        for (const std::int64_t time : times) text += pending(std::to_string(time), time);
        put(text);
        ASSERT_THAT(due(4), ElementsAre("1", "2", "3", "4"));
    } while (std::ranges::next_permutation(times).found);
}

TEST_F(SpoolRetryTest, WhereNothingIsDueTheFileStays) {
    put(" \n\n" + pending("future", clock_.now_ms + kDay) + line("b", "resolved", 1, 1));
    const std::string before = text_of(path_);
    struct stat first = {};
    ASSERT_EQ(::stat(path_.c_str(), &first), 0);
    EXPECT_EQ(must(spool_->retry(yes, {})).total, 0);
    struct stat second = {};
    ASSERT_EQ(::stat(path_.c_str(), &second), 0);
    EXPECT_EQ(second.st_ino, first.st_ino);
    EXPECT_EQ(text_of(path_), before);
}

TEST_F(SpoolRetryTest, OfEqualTimesTheFirstInTheFileGoesFirst) {
    put(pending("a", 1) + pending("b", 1) + pending("c", 1));
    EXPECT_THAT(due(2), ElementsAre("a", "b"));
    EXPECT_THAT(due(3), ElementsAre("a", "b", "c"));
}

TEST_F(SpoolRetryTest, ARunSaysWhetherItsLimitLeftSomething) {
    const std::string text = pending("a", 1) + pending("b", 2) + pending("future", clock_.now_ms + kDay);
    for (const auto& [limit, more] : {std::pair(1, true), std::pair(2, false), std::pair(3, false)}) {
        put(text);
        const SpoolSummary summary = must(spool_->retry(yes, {.limit = limit}));
        EXPECT_EQ(summary.more_due, more) << limit;
        EXPECT_EQ(summary.total, std::min(limit, 2));
        EXPECT_EQ(summary.resolved, summary.total);
    }
}

TEST_F(SpoolRetryTest, ProgressIsToldAfterEachAttempt) {
    put(pending("a", 1) + pending("b", 2) + line("c", "pending", 1, 3, 4));
    std::vector<std::pair<std::int64_t, std::int64_t>> told;
    const SpoolSummary summary = must(spool_->retry(no, {.progress = [&](const SpoolSummary& so_far, std::int64_t of) {
                                                        told.emplace_back(so_far.failed + so_far.exhausted, of);
                                                    }}));
    EXPECT_THAT(told, ElementsAre(Pair(1, 3), Pair(2, 3), Pair(3, 3)));
    EXPECT_EQ(summary.failed, 2);
    EXPECT_EQ(summary.exhausted, 1);
}

TEST_F(SpoolRetryTest, ARunThatIsStoppedAtOnceChangesNothing) {
    put("garbage\n" + pending("a", 1));
    const SpoolSummary moved = must(spool_->retry(yes, {.should_stop = [] { return true; }}));
    EXPECT_EQ(moved.total, 0);
    EXPECT_EQ(moved.rejected, 1);
    EXPECT_FALSE(exists(".journal"));
    const std::string before = text_of(path_);
    EXPECT_EQ(must(spool_->retry(yes, {.should_stop = [] { return true; }})).total, 0);
    EXPECT_EQ(text_of(path_), before);
    EXPECT_FALSE(exists(".journal"));
    EXPECT_FALSE(must(spool_->retry(yes, {.limit = 0})).rejected);
}

TEST_F(SpoolRetryTest, AReceiverMayAskForALongerWaitButNotForAShorterOne) {
    constexpr std::int64_t kLeast = 90'000;  // before the third attempt: 120 s, less the jitter
    constexpr std::int64_t kMost = 150'000;
    for (const double little : {-5.0, 0.0, 89.0}) {
        const std::int64_t wait = wait_after(little);
        EXPECT_GE(wait, kLeast);
        EXPECT_LE(wait, kMost);
    }
    EXPECT_EQ(wait_after(200), 200'000);
    const auto longest = std::chrono::duration_cast<std::chrono::milliseconds>(kLongestRetryAfter).count();
    EXPECT_EQ(wait_after(1e12), longest);
}

TEST_F(SpoolRetryTest, WhateverASenderThrowsIsAFailedAttempt) {
    put(pending("a", 1) + pending("b", 2));
    const SpoolSummary summary = must(spool_->retry(
        [](const SpoolPost& post) -> SpoolAnswer {
            if (post.job_id == "a") throw 5;  // NOLINT(hicpp-exception-baseclass): a sender of somebody else
            throw std::runtime_error("oh");
        },
        {}));
    EXPECT_EQ(summary.failed, 2);
    EXPECT_EQ(must(spool_->find("a"))->error.code, "EXCEPTION");
    EXPECT_EQ(must(spool_->find("b"))->error.code, "EXCEPTION");
    EXPECT_EQ(must(spool_->find("b"))->error.message, "oh");
}

TEST_F(SpoolRetryTest, WhatIsExhaustedAndNotHandedOverIsCounted) {
    put(line("x", "exhausted", 1, 1, 5) + line("a", "pending", 1, 1, 4) + pending("b", 1) + pending("c", 1));
    const SpoolSummary summary =
        must(spool_->retry([](const SpoolPost& post) { return SpoolAnswer{.delivered = post.job_id == "b"}; }, {}));
    EXPECT_EQ(summary.unmarked, 2);
    EXPECT_EQ(summary.exhausted, 1);
    EXPECT_EQ(summary.resolved, 1);
    EXPECT_EQ(summary.failed, 1);
}

}  // namespace
}  // namespace deliverd::spool
