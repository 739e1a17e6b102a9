// The ten tests 50 to 59 of the document the spool comes from, under their own names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "spool/testing/spool_fixture.h"

namespace deliverd::spool {
namespace {

using testing::SizeIs;

class Seed : public SpoolFixture {};

TEST_F(Seed, test_writeToDLQ_creates_entry) {
    const SpoolEntry entry = add(R"({"text":"hook"})");
    ASSERT_THAT(lines_of(path_), SizeIs(1));
    EXPECT_EQ(text_of(path_), entry.json + "\n");
    EXPECT_EQ(entry.state, SpoolState::pending);
    EXPECT_EQ(entry.json,
              R"({"jobId":")" + entry.job_id +
                  R"(","data":{"hook":{"text":"hook"},"endpoint":"https://example.com/hooks"},"attemptsMade":1,)" +
                  R"("maxAttempts":5,"timestamp":1770000000000,"nextRetry":)" + std::to_string(entry.next_retry_ms) +
                  R"(,"error":{"message":"service unavailable","code":"503"},"state":"pending"})");
    EXPECT_THAT(entry.job_id, testing::MatchesRegex("hook-1770000000000-[0-9a-z]{6}"));
    EXPECT_GE(entry.next_retry_ms, 1'770'000'030'000);
    EXPECT_LE(entry.next_retry_ms, 1'770'000'090'000);
}

TEST_F(Seed, test_writeToDLQ_exhausted_on_max) {
    EXPECT_EQ(add("{}", 4).state, SpoolState::exhausted);
    EXPECT_EQ(add("{}", 3).state, SpoolState::pending);
}

TEST_F(Seed, test_calcDelay_exponential) {
    for (const auto& [attempt, seconds] : {std::pair(1, 60), std::pair(2, 120), std::pair(3, 240)}) {
        EXPECT_EQ(spool_delay_ms(attempt, 0), seconds * 1000);
        EXPECT_EQ(spool_delay_ms(attempt, -1), (seconds - 30) * 1000);
        EXPECT_EQ(spool_delay_ms(attempt, 1), (seconds + 30) * 1000);
    }
}

TEST_F(Seed, test_calcDelay_max_cap) {
    for (const double jitter : {-1.0, 0.0, 1.0}) EXPECT_EQ(spool_delay_ms(20, jitter), 3'600'000);
}

TEST_F(Seed, test_readRetryable_filters) {
    const std::int64_t now = clock_.now_ms;
    put(line("a", "pending", now, now - 2) + line("b", "exhausted", now, now - 2, 5) +
        line("c", "resolved", now, now - 2) + line("d", "pending", now, now - 1));
    EXPECT_THAT(must(spool_->due(10)), SizeIs(2));
}

TEST_F(Seed, test_readRetryable_respects_nextRetry) {
    put(line("a", "pending", clock_.now_ms, clock_.now_ms + 1));
    EXPECT_THAT(must(spool_->due(10)), SizeIs(0));
    clock_.now_ms += 1;
    EXPECT_THAT(must(spool_->due(10)), SizeIs(1));
}

TEST_F(Seed, test_retryDLQ_success) {
    const SpoolEntry entry = add();
    clock_.now_ms += 90'000;
    EXPECT_EQ(must(spool_->retry(yes, {})).resolved, 1);
    ASSERT_THAT(entries(), SizeIs(1));
    EXPECT_EQ(entries()[0].state, SpoolState::resolved);
    EXPECT_EQ(entries()[0].resolved_at_ms, clock_.now_ms);
}

TEST_F(Seed, test_retryDLQ_fail_again) {
    // The seed adds a second entry here, with a new id, which is what made duplicates: the same one counts up instead.
    const SpoolEntry entry = add();
    clock_.now_ms += 90'000;
    const SpoolSummary summary = must(spool_->retry(no, {}));
    EXPECT_EQ(summary.total, 1);
    EXPECT_EQ(summary.resolved, 0);
    EXPECT_EQ(summary.failed, 1);
    ASSERT_THAT(entries(), SizeIs(1));
    EXPECT_EQ(entries()[0].job_id, entry.job_id);
    EXPECT_EQ(entries()[0].attempts_made, 2);
    EXPECT_EQ(entries()[0].state, SpoolState::pending);
    EXPECT_GE(entries()[0].next_retry_ms, clock_.now_ms + 90'000);
    EXPECT_LE(entries()[0].next_retry_ms, clock_.now_ms + 150'000);
}

TEST_F(Seed, test_cleanupDLQ_removes_old) {
    const std::int64_t now = clock_.now_ms;
    put(line("old", "exhausted", now - 8 * kDay, 0, 5) + line("new", "exhausted", now - 6 * kDay, 0, 5));
    EXPECT_EQ(must(spool_->cleanup()).removed, 1);
    ASSERT_THAT(entries(), SizeIs(1));
    EXPECT_EQ(entries()[0].job_id, "new");
}

TEST_F(Seed, test_cleanupDLQ_keeps_pending) {
    put(line("old", "pending", clock_.now_ms - 8 * kDay, 0));
    EXPECT_EQ(must(spool_->cleanup()).removed, 0);
    EXPECT_THAT(entries(), SizeIs(1));
}

}  // namespace
}  // namespace deliverd::spool
