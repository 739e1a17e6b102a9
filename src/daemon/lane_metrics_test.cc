#include "daemon/lane_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deliverd::daemon {
namespace {

using testing::HasSubstr;

class LaneMetricsTest : public testing::Test {
protected:
    metrics::Metrics metrics_;
    LaneMetrics observer_{metrics_, "memories"};
};

TEST_F(LaneMetricsTest, EveryReasonIsThereFromTheStart) {
    const std::string text = metrics_.text();
    for (const char* reason : {"success", "retry", "dead", "conflict", "dedup_hit", "db_timeout", "db_error"}) {
        EXPECT_THAT(text, HasSubstr("outbox_flush_total{lane=\"memories\",reason=\"outbox_flush_" +
                                    std::string(reason) + "\"} 0"));
    }
}

TEST_F(LaneMetricsTest, ObservationsBecomeSeries) {
    observer_.on_claimed(3);
    observer_.on_lag(2.5);
    observer_.on_flush(pipeline::Reason::retry, 2);
    observer_.on_database_call("settle", std::chrono::milliseconds(4), false);
    observer_.on_outcome(OutcomeKind::ambiguous, "NETWORK_TIMEOUT", std::chrono::seconds(1));
    observer_.on_in_flight(7);
    observer_.on_queue_depth("settle", 5);
    observer_.set_oldest_due(11);
    const std::string text = metrics_.text();
    EXPECT_THAT(text, HasSubstr("outbox_claimed_total{lane=\"memories\"} 3"));
    EXPECT_THAT(text, HasSubstr("outbox_lag_seconds_count{lane=\"memories\"} 1"));
    EXPECT_THAT(text, HasSubstr("outbox_lag_seconds_sum{lane=\"memories\"} 2.5"));
    EXPECT_THAT(text, HasSubstr("outbox_flush_total{lane=\"memories\",reason=\"outbox_flush_retry\"} 2"));
    EXPECT_THAT(text, HasSubstr("database_call_seconds_count{lane=\"memories\",ok=\"false\",operation=\"settle\"} 1"));
    EXPECT_THAT(text, HasSubstr("sink_send_seconds_count{lane=\"memories\",outcome=\"ambiguous\"} 1"));
    EXPECT_THAT(text, HasSubstr("sink_send_seconds_count{lane=\"memories\",outcome=\"delivered\"} 0"));
    EXPECT_THAT(text, HasSubstr("outbox_inflight{lane=\"memories\"} 7"));
    EXPECT_THAT(text, HasSubstr("lane_queue_depth{lane=\"memories\",queue=\"settle\"} 5"));
    EXPECT_THAT(text, HasSubstr("outbox_oldest_due_seconds{lane=\"memories\"} 11"));
}

TEST_F(LaneMetricsTest, TheFamiliesOfTheOrderOutboxAreThereFromTheStart) {
    const std::string text = metrics_.text();
    for (const char* result : {"success", "empty"}) {
        EXPECT_THAT(text,
                    HasSubstr("outbox_dequeue_total{lane=\"memories\",result=\"" + std::string(result) + "\"} 0"));
    }
    for (const char* outcome : {"success", "retry", "dead", "conflict_processed"}) {
        EXPECT_THAT(text, HasSubstr("outbox_send_total{lane=\"memories\",outcome=\"" + std::string(outcome) + "\"} 0"));
    }
    EXPECT_THAT(text, HasSubstr("outbox_inflight{lane=\"memories\"} 0"));
    EXPECT_THAT(text, HasSubstr("outbox_lag_seconds_count{lane=\"memories\"} 0"));
    EXPECT_THAT(text, HasSubstr("outbox_retry_count_count{lane=\"memories\"} 0"));
}

TEST_F(LaneMetricsTest, EachEndOfASendIsCountedAsWhatItWas) {
    const auto settled = [&](store::SettleKind kind, std::int32_t failures, std::string code) {
        store::Settlement settlement;
        settlement.kind = kind;
        settlement.failures_before = failures;
        settlement.code = std::move(code);
        observer_.on_settled(settlement);
    };
    settled(store::SettleKind::sent, 0, "");
    settled(store::SettleKind::sent, 2, "CONFLICT_PROCESSED");
    settled(store::SettleKind::retry, 0, "BROKER_5XX");
    settled(store::SettleKind::dead, 8, "BROKER_5XX");
    observer_.on_claimed(0);
    observer_.on_claimed(0);
    observer_.on_claimed(4);
    const std::string text = metrics_.text();
    EXPECT_THAT(text, HasSubstr("outbox_send_total{lane=\"memories\",outcome=\"success\"} 1"));
    EXPECT_THAT(text, HasSubstr("outbox_send_total{lane=\"memories\",outcome=\"conflict_processed\"} 1"));
    EXPECT_THAT(text, HasSubstr("outbox_send_total{lane=\"memories\",outcome=\"retry\"} 1"));
    EXPECT_THAT(text, HasSubstr("outbox_send_total{lane=\"memories\",outcome=\"dead\"} 1"));
    EXPECT_THAT(text, HasSubstr("outbox_retry_count_count{lane=\"memories\"} 3")) << "ends, not retries";
    EXPECT_THAT(text, HasSubstr("outbox_retry_count_sum{lane=\"memories\"} 10"));
    EXPECT_THAT(text, HasSubstr("outbox_dequeue_total{lane=\"memories\",result=\"empty\"} 2"));
    EXPECT_THAT(text, HasSubstr("outbox_dequeue_total{lane=\"memories\",result=\"success\"} 1"));
}

TEST(LaneMetrics, TellsTheSecondObserverToo) {
    struct Counting final : pipeline::Observer {
        void on_flush(pipeline::Reason, std::size_t rows) override { flushed += rows; }
        void on_failure(const Message&, const Outcome& outcome) override { code = outcome.code; }
        std::size_t flushed = 0;
        std::string code;
    };
    metrics::Metrics metrics;
    Counting counting;
    LaneMetrics observer(metrics, "m", &counting);
    observer.on_flush(pipeline::Reason::success, 4);
    Outcome outcome;
    outcome.code = "BROKER_5XX";
    observer.on_failure({}, outcome);
    EXPECT_EQ(counting.flushed, 4U);
    EXPECT_EQ(counting.code, "BROKER_5XX");
}

}  // namespace
}  // namespace deliverd::daemon
