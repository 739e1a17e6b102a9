// What a sink could not even try costs no message an attempt, and the lane waits instead of trying on and on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lane/lane.h"
#include "lane/testing/fakes.h"
#include "lane/testing/stepped_lane.h"

namespace deliverd::lane {
namespace {

using namespace std::chrono_literals;
using testing::Contains;
using testing::HasSubstr;

Outcome without_token(const Message&) {
    return {.kind = OutcomeKind::retryable, .code = "TOKEN_UNREADABLE", .detail = "no file", .not_attempted = true};
}

class NotAttempted : public testing::Test {
protected:
    NotAttempted() {
        options.name = "orders";
        options.worker_id = "w1";
        options.batch_size = 4;
        options.parallelism = 2;
        options.lease = 1min;
        options.retry = RetryPolicy::orders();
        sink.answer = without_token;
    }
    [[nodiscard]] int sent() {
        return static_cast<int>(std::count_if(fake.rows().begin(), fake.rows().end(),
                                              [](const auto& entry) { return entry.second.status == "sent"; }));
    }

    ManualClock clock;
    FakeOutbox fake{[this] { return clock.elapsed(); }};
    SwitchedOutbox outbox{fake};
    ScriptedSink sink;
    Observer observer;
    RecordingLog log;
    LaneOptions options;
};

TEST_F(NotAttempted, CostsNoAttemptHoweverLongItTakes) {
    for (int i = 0; i < 6; ++i) fake.enqueue("");
    SteppedLane lane(options, outbox, sink, clock, observer, log);
    lane.run_for(10min);
    EXPECT_EQ(lane.totals().retried + lane.totals().dead, 0U);
    EXPECT_GT(lane.totals().put_off, 0U);
    // Twice a pause and no more: parallelism, and a look whether it is over.
    EXPECT_LE(sink.sends().size(), 2U * static_cast<std::size_t>(10min / SendStage::kPauseWhenNotAttempted + 1));
    EXPECT_THAT(log.lines, Contains(HasSubstr("TOKEN_UNREADABLE: no file")).Times(11)) << "at first, and once a minute";
    for (const auto& [id, row] : fake.rows()) {
        EXPECT_EQ(row.status, "pending") << id;
        EXPECT_EQ(row.failures, 0) << id;
    }

    sink.answer = [](const Message&) { return Outcome{.kind = OutcomeKind::delivered}; };
    EXPECT_TRUE(lane.run_until([&] { return sent() == 6; }, SendStage::kPauseWhenNotAttempted + 2s));
}

TEST_F(NotAttempted, EqualContentStaysBehindTheOneThatWaits) {
    fake.enqueue("same");
    fake.enqueue("same");
    SteppedLane lane(options, outbox, sink, clock, observer, log);
    lane.run_for(1s);
    sink.answer = [](const Message&) { return Outcome{.kind = OutcomeKind::delivered}; };
    ASSERT_TRUE(lane.run_until([&] { return lane.totals().duplicates == 1; }, 1min));
    EXPECT_EQ(lane.totals().sent, 1U);
    EXPECT_EQ(sink.sends(), (std::vector<std::int64_t>{1, 1}));
}

TEST_F(NotAttempted, RunOnceGivesEverythingBackAndReportsAFailure) {
    const SystemClock real;
    FakeOutbox rows([&real] { return real.now().time_since_epoch(); });
    for (int i = 0; i < 3; ++i) rows.enqueue("");
    SeededRandom random(1);
    Lane lane(options, rows, sink, real, random, observer, log);
    const LaneTotals totals = lane.run_once(10s);
    EXPECT_EQ(totals.claimed, 3U);
    EXPECT_EQ(totals.released, 3U);
    EXPECT_EQ(totals.retried, 0U);
    EXPECT_TRUE(totals.anything_failed());
    EXPECT_TRUE(rows.holders().empty());
    EXPECT_EQ(rows.rows().at(1).failures, 0);
}

}  // namespace
}  // namespace deliverd::lane
