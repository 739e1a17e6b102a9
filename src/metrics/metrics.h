// Prometheus metrics behind a header without Prometheus. One Metrics object is one registry.
//
// Handles (Counter, Gauge, Histogram) are cheap to copy, thread-safe, and valid as long as the Metrics object that made
// them. Asking twice for the same name and labels gives the same series.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace deliverd::metrics {

using Labels = std::map<std::string, std::string>;

class Counter {
public:
    void add(double amount = 1) const;

private:
    friend class Metrics;
    explicit Counter(prometheus::Counter& series) : series_(&series) {}
    prometheus::Counter* series_;
};

class Gauge {
public:
    void set(double value) const;
    void add(double amount) const;

private:
    friend class Metrics;
    explicit Gauge(prometheus::Gauge& series) : series_(&series) {}
    prometheus::Gauge* series_;
};

class Histogram {
public:
    void observe(double value) const;

private:
    friend class Metrics;
    explicit Histogram(prometheus::Histogram& series) : series_(&series) {}
    prometheus::Histogram* series_;
};

class Metrics {
public:
    Metrics();
    ~Metrics();

    Counter counter(const std::string& name, const std::string& help, const Labels& labels);
    Gauge gauge(const std::string& name, const std::string& help, const Labels& labels);
    /// `bounds`: ascending upper bounds. One name always has the same bounds.
    Histogram histogram(const std::string& name, const std::string& help, const Labels& labels,
                        const std::vector<double>& bounds);

    /// All series in the Prometheus text format 0.0.4.
    [[nodiscard]] std::string text() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// 100 µs to 60 s, for latencies.
[[nodiscard]] const std::vector<double>& latency_bounds_seconds();
/// 1 ms to 1 day, for lag.
[[nodiscard]] const std::vector<double>& lag_bounds_seconds();

}  // namespace deliverd::metrics
