// A lane's observations as Prometheus series, each with the label `lane`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "metrics/metrics.h"
#include "pipeline/observer.h"

namespace deliverd::daemon {

class LaneMetrics final : public pipeline::Observer {
public:
    /// `metrics` outlives it. `also` gets the same calls and outlives it too; it may be null.
    LaneMetrics(metrics::Metrics& metrics, std::string lane, pipeline::Observer* also = nullptr)
        : metrics_(metrics), lane_(std::move(lane)), also_(also) {
        // All series from the beginning: nobody can see the increase of a series that begins with its first failure.
        for (std::size_t i = 0; i <= static_cast<std::size_t>(pipeline::Reason::db_error); ++i) {
            const std::string reason(to_string(static_cast<pipeline::Reason>(i)));
            flushes_.push_back(metrics_.counter("outbox_flush_total", "Rows settled, by reason.",
                                                {{"lane", lane_}, {"reason", reason}}));
        }
        for (std::size_t i = 0; i <= static_cast<std::size_t>(OutcomeKind::ambiguous); ++i) {
            const std::string outcome(to_string(static_cast<OutcomeKind>(i)));
            send_seconds_.push_back(metrics_.histogram("sink_send_seconds", "How long a send took, by outcome.",
                                                       {{"lane", lane_}, {"outcome", outcome}},
                                                       metrics::latency_bounds_seconds()));
        }
    }

    void on_claimed(std::size_t rows) override {
        claimed_.add(static_cast<double>(rows));
        (rows > 0 ? looks_with_rows_ : empty_looks_).add(1);
        if (also_ != nullptr) also_->on_claimed(rows);
    }
    void on_lag(double seconds) override {
        lag_.observe(seconds);
        if (also_ != nullptr) also_->on_lag(seconds);
    }
    void on_settled(const store::Settlement& settled) override {
        using store::SettleKind;
        const bool processed_before = settled.code == "CONFLICT_PROCESSED";
        if (settled.kind == SettleKind::sent) (processed_before ? conflict_processed_ : sent_).add(1);
        if (settled.kind == SettleKind::retry) retried_.add(1);
        if (settled.kind == SettleKind::dead) dead_.add(1);
        // How many retries a message needed is known when it needs no more.
        if (settled.kind != SettleKind::retry) retries_.observe(settled.failures_before);
        if (also_ != nullptr) also_->on_settled(settled);
    }
    void on_send_rate(double per_second) override {
        send_rate_.set(per_second);
        if (also_ != nullptr) also_->on_send_rate(per_second);
    }
    void on_flush(pipeline::Reason reason, std::size_t rows) override {
        flushes_[static_cast<std::size_t>(reason)].add(static_cast<double>(rows));
        if (also_ != nullptr) also_->on_flush(reason, rows);
    }
    void on_database_call(std::string_view operation, Duration took, bool ok) override {
        metrics_
            .histogram("database_call_seconds", "How long a call to the database took.",
                       {{"lane", lane_}, {"operation", std::string(operation)}, {"ok", ok ? "true" : "false"}},
                       metrics::latency_bounds_seconds())
            .observe(to_seconds(took));
        if (also_ != nullptr) also_->on_database_call(operation, took, ok);
    }
    void on_outcome(OutcomeKind kind, std::string_view code, Duration took) override {
        send_seconds_[static_cast<std::size_t>(kind)].observe(to_seconds(took));
        if (also_ != nullptr) also_->on_outcome(kind, code, took);
    }
    void on_in_flight(std::size_t messages) override {
        in_flight_.set(static_cast<double>(messages));
        if (also_ != nullptr) also_->on_in_flight(messages);
    }
    void on_queue_depth(std::string_view queue, std::size_t items) override {
        metrics_
            .gauge("lane_queue_depth", "Items waiting between a lane's threads.",
                   {{"lane", lane_}, {"queue", std::string(queue)}})
            .set(static_cast<double>(items));
        if (also_ != nullptr) also_->on_queue_depth(queue, items);
    }
    void on_failure(const Message& message, const Outcome& outcome) override {
        if (also_ != nullptr) also_->on_failure(message, outcome);
    }

    /// store::RowQueue::lag_seconds(), which somebody looks up now and then.
    void set_oldest_due(double seconds) { oldest_due_.set(seconds); }

private:
    metrics::Counter looks(const char* result) {
        return metrics_.counter("outbox_dequeue_total", "Polls of the table, by whether they found rows.",
                                {{"lane", lane_}, {"result", result}});
    }
    metrics::Counter sends(const char* outcome) {
        return metrics_.counter("outbox_send_total", "Sends whose end is recorded, by how they ended.",
                                {{"lane", lane_}, {"outcome", outcome}});
    }

    metrics::Metrics& metrics_;
    const std::string lane_;
    pipeline::Observer* also_;
    metrics::Counter claimed_ = metrics_.counter("outbox_claimed_total", "Rows claimed.", {{"lane", lane_}});
    metrics::Counter looks_with_rows_ = looks("success");
    metrics::Counter empty_looks_ = looks("empty");
    metrics::Counter sent_ = sends("success");
    metrics::Counter conflict_processed_ = sends("conflict_processed");
    metrics::Counter retried_ = sends("retry");
    metrics::Counter dead_ = sends("dead");
    metrics::Histogram retries_ =
        metrics_.histogram("outbox_retry_count", "Retries a message had needed when it was sent or given up.",
                           {{"lane", lane_}}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 20});
    metrics::Gauge send_rate_ = metrics_.gauge(
        "outbox_send_rate_limit", "Messages per second that the lane sends at most after a 429; 0 without a limit.",
        {{"lane", lane_}});
    metrics::Gauge in_flight_ = metrics_.gauge("outbox_inflight", "Messages at the sink now.", {{"lane", lane_}});
    metrics::Gauge oldest_due_ =
        metrics_.gauge("outbox_oldest_due_seconds",
                       "How long the oldest due row has waited: since due, or accepted (orders).", {{"lane", lane_}});
    metrics::Histogram lag_ = metrics_.histogram(
        "outbox_lag_seconds", "How long a row had waited when it was claimed: since due, or accepted (orders).",
        {{"lane", lane_}}, metrics::lag_bounds_seconds());
    std::vector<metrics::Counter> flushes_;         // by Reason
    std::vector<metrics::Histogram> send_seconds_;  // by OutcomeKind
};

}  // namespace deliverd::daemon
