// A lane's observations as Prometheus series, each with the label `lane`.
#pragma once

#include <string>
#include <vector>

#include "metrics/metrics.h"
#include "pipeline/observer.h"

namespace deliverd::daemon {

class LaneMetrics final : public pipeline::Observer {
public:
    /// `metrics` outlives it. So does `also`, which is told everything too; it may be null.
    LaneMetrics(metrics::Metrics& metrics, std::string lane, pipeline::Observer* also = nullptr);

    void on_claimed(std::size_t rows) override;
    void on_lag(double seconds) override;
    void on_settled(const store::Settlement& settled) override;
    void on_send_rate(double per_second) override;
    void on_flush(pipeline::Reason reason, std::size_t rows) override;
    void on_database_call(std::string_view operation, Duration took, bool ok) override;
    void on_outcome(OutcomeKind kind, std::string_view code, Duration took) override;
    void on_in_flight(std::size_t messages) override;
    void on_queue_depth(std::string_view queue, std::size_t items) override;
    void on_failure(const Message& message, const Outcome& outcome) override;

    /// store::RowQueue::lag_seconds(), which somebody looks up now and then.
    void set_oldest_due(double seconds) { oldest_due_.set(seconds); }

private:
    metrics::Metrics& metrics_;
    const std::string lane_;
    pipeline::Observer* also_;
    metrics::Counter claimed_;
    metrics::Counter looks_with_rows_;
    metrics::Counter empty_looks_;
    metrics::Counter sent_;
    metrics::Counter conflict_processed_;
    metrics::Counter retried_;
    metrics::Counter dead_;
    metrics::Histogram retries_;
    metrics::Gauge send_rate_;
    metrics::Gauge in_flight_;
    metrics::Gauge oldest_due_;
    metrics::Histogram lag_;
    std::vector<metrics::Counter> flushes_;         // by Reason
    std::vector<metrics::Histogram> send_seconds_;  // by OutcomeKind
};

}  // namespace deliverd::daemon
