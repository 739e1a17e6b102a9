#include "app/lane_metrics.h"

#include <array>
#include <utility>

#include "app/cli.h"

namespace deliverd::app {

namespace {

using lane::Reason;

constexpr std::array kReasons{Reason::success,   Reason::retry,      Reason::dead,    Reason::conflict,
                              Reason::dedup_hit, Reason::db_timeout, Reason::db_error};
constexpr std::array kKinds{OutcomeKind::delivered, OutcomeKind::retryable, OutcomeKind::permanent,
                            OutcomeKind::ambiguous};

// Both arrays are indexed by the enumerators.
static_assert(kReasons[static_cast<std::size_t>(Reason::db_error)] == Reason::db_error);
static_assert(kKinds[static_cast<std::size_t>(OutcomeKind::ambiguous)] == OutcomeKind::ambiguous);

}  // namespace

LaneMetrics::LaneMetrics(metrics::Metrics& metrics, std::string lane, lane::Observer* also)
    : metrics_(metrics),
      lane_(std::move(lane)),
      also_(also),
      claimed_(metrics.counter("outbox_claimed_total", "Rows claimed.", {{"lane", lane_}})),
      in_flight_(metrics.gauge("outbox_inflight", "Messages at the sink now.", {{"lane", lane_}})),
      oldest_due_(
          metrics.gauge("outbox_oldest_due_seconds", "How long the oldest due row has been due.", {{"lane", lane_}})),
      lag_(metrics.histogram("outbox_lag_seconds", "How long a row had been due when it was claimed.",
                             {{"lane", lane_}}, metrics::lag_bounds_seconds())) {
    for (const Reason reason : kReasons) {
        flushes_.push_back(metrics.counter("outbox_flush_total", "Rows settled, by reason.",
                                           {{"lane", lane_}, {"reason", std::string(to_string(reason))}}));
    }
    for (const OutcomeKind kind : kKinds) {
        send_seconds_.push_back(metrics.histogram("sink_send_seconds", "How long a send took, by outcome.",
                                                  {{"lane", lane_}, {"outcome", std::string(to_string(kind))}},
                                                  metrics::latency_bounds_seconds()));
    }
}

void LaneMetrics::on_claimed(std::size_t rows) {
    claimed_.add(static_cast<double>(rows));
    if (also_ != nullptr) also_->on_claimed(rows);
}

void LaneMetrics::on_lag(double seconds) {
    lag_.observe(seconds);
    if (also_ != nullptr) also_->on_lag(seconds);
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

void publish_build_info(metrics::Metrics& metrics) {
    metrics.gauge("deliverd_build_info", "The program's version.", {{"version", std::string(version())}}).set(1);
}

}  // namespace deliverd::app
