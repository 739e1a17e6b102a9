#include "daemon/lane_metrics.h"

#include <utility>

namespace deliverd::daemon {

namespace {

using pipeline::Reason;

// The last enumerators: the counters are indexed by them.
constexpr auto kReasons = static_cast<std::size_t>(Reason::db_error) + 1;
constexpr auto kKinds = static_cast<std::size_t>(OutcomeKind::ambiguous) + 1;

constexpr std::string_view kConflictProcessed = "CONFLICT_PROCESSED";
// NOLINTNEXTLINE(cert-err58-cpp): at worst the program does not start for want of a few bytes
const std::vector<double> kRetryBounds{0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 20};

metrics::Counter dequeue_counter(metrics::Metrics& metrics, const std::string& lane, const char* result) {
    return metrics.counter("outbox_dequeue_total", "Looks at the table, by whether they found rows.",
                           {{"lane", lane}, {"result", result}});
}

metrics::Counter send_counter(metrics::Metrics& metrics, const std::string& lane, const char* outcome) {
    return metrics.counter("outbox_send_total", "Sends whose end is recorded, by how they ended.",
                           {{"lane", lane}, {"outcome", outcome}});
}

}  // namespace

LaneMetrics::LaneMetrics(metrics::Metrics& metrics, std::string lane, pipeline::Observer* also)
    : metrics_(metrics),
      lane_(std::move(lane)),
      also_(also),
      claimed_(metrics.counter("outbox_claimed_total", "Rows claimed.", {{"lane", lane_}})),
      looks_with_rows_(dequeue_counter(metrics, lane_, "success")),
      empty_looks_(dequeue_counter(metrics, lane_, "empty")),
      sent_(send_counter(metrics, lane_, "success")),
      conflict_processed_(send_counter(metrics, lane_, "conflict_processed")),
      retried_(send_counter(metrics, lane_, "retry")),
      dead_(send_counter(metrics, lane_, "dead")),
      retries_(metrics.histogram("outbox_retry_count", "Retries a message had needed when it was sent or given up.",
                                 {{"lane", lane_}}, kRetryBounds)),
      send_rate_(metrics.gauge("outbox_send_rate_limit",
                               "Messages a second that the lane allows itself after a 429; 0 without a limit.",
                               {{"lane", lane_}})),
      in_flight_(metrics.gauge("outbox_inflight", "Messages at the sink now.", {{"lane", lane_}})),
      oldest_due_(metrics.gauge("outbox_oldest_due_seconds",
                                "How long the oldest due row has waited: since due, or accepted (orders).",
                                {{"lane", lane_}})),
      lag_(metrics.histogram("outbox_lag_seconds",
                             "How long a row had waited when it was claimed: since due, or accepted (orders).",
                             {{"lane", lane_}}, metrics::lag_bounds_seconds())) {
    // All series from the beginning: nobody can see the increase of a series that begins with its first failure.
    for (std::size_t i = 0; i < kReasons; ++i) {
        const std::string reason(to_string(static_cast<Reason>(i)));
        flushes_.push_back(
            metrics.counter("outbox_flush_total", "Rows settled, by reason.", {{"lane", lane_}, {"reason", reason}}));
    }
    for (std::size_t i = 0; i < kKinds; ++i) {
        const std::string outcome(to_string(static_cast<OutcomeKind>(i)));
        send_seconds_.push_back(metrics.histogram("sink_send_seconds", "How long a send took, by outcome.",
                                                  {{"lane", lane_}, {"outcome", outcome}},
                                                  metrics::latency_bounds_seconds()));
    }
}

void LaneMetrics::on_claimed(std::size_t rows) {
    claimed_.add(static_cast<double>(rows));
    (rows > 0 ? looks_with_rows_ : empty_looks_).add(1);
    if (also_ != nullptr) also_->on_claimed(rows);
}

void LaneMetrics::on_lag(double seconds) {
    lag_.observe(seconds);
    if (also_ != nullptr) also_->on_lag(seconds);
}

void LaneMetrics::on_settled(const store::Settlement& settled) {
    using store::SettleKind;
    if (settled.kind == SettleKind::sent) (settled.code == kConflictProcessed ? conflict_processed_ : sent_).add(1);
    if (settled.kind == SettleKind::retry) retried_.add(1);
    if (settled.kind == SettleKind::dead) dead_.add(1);
    // How many retries a message needed is known when it needs no more.
    if (settled.kind != SettleKind::retry) retries_.observe(settled.failures_before);
    if (also_ != nullptr) also_->on_settled(settled);
}

void LaneMetrics::on_send_rate(double per_second) {
    send_rate_.set(per_second);
    if (also_ != nullptr) also_->on_send_rate(per_second);
}

void LaneMetrics::on_flush(Reason reason, std::size_t rows) {
    flushes_[static_cast<std::size_t>(reason)].add(static_cast<double>(rows));
    if (also_ != nullptr) also_->on_flush(reason, rows);
}

void LaneMetrics::on_database_call(std::string_view operation, Duration took, bool ok) {
    metrics_
        .histogram("database_call_seconds", "How long a call to the database took.",
                   {{"lane", lane_}, {"operation", std::string(operation)}, {"ok", ok ? "true" : "false"}},
                   metrics::latency_bounds_seconds())
        .observe(to_seconds(took));
    if (also_ != nullptr) also_->on_database_call(operation, took, ok);
}

void LaneMetrics::on_outcome(OutcomeKind kind, std::string_view code, Duration took) {
    send_seconds_[static_cast<std::size_t>(kind)].observe(to_seconds(took));
    if (also_ != nullptr) also_->on_outcome(kind, code, took);
}

void LaneMetrics::on_in_flight(std::size_t messages) {
    in_flight_.set(static_cast<double>(messages));
    if (also_ != nullptr) also_->on_in_flight(messages);
}

void LaneMetrics::on_queue_depth(std::string_view queue, std::size_t items) {
    metrics_
        .gauge("lane_queue_depth", "Items waiting between a lane's threads.",
               {{"lane", lane_}, {"queue", std::string(queue)}})
        .set(static_cast<double>(items));
    if (also_ != nullptr) also_->on_queue_depth(queue, items);
}

void LaneMetrics::on_failure(const Message& message, const Outcome& outcome) {
    if (also_ != nullptr) also_->on_failure(message, outcome);
}

}  // namespace deliverd::daemon
