#include "metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "base/mutex.h"

namespace deliverd::metrics {

struct Metrics::Impl {
    prometheus::Registry registry;
    Mutex mutex;
    std::map<std::string, std::vector<double>> bounds_by_name GUARDED_BY(mutex);  // as first asked for
};

void Counter::add(double amount) const {
    series_->Increment(amount);
}

void Gauge::set(double value) const {
    series_->Set(value);
}

void Gauge::add(double amount) const {
    series_->Increment(amount);
}

void Histogram::observe(double value) const {
    series_->Observe(value);
}

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

// Registering a name again returns its family, adding labels again returns their series: the library promises both.

Counter Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
    auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(impl_->registry);
    return Counter(family.Add(labels));
}

Gauge Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(impl_->registry);
    return Gauge(family.Add(labels));
}

Histogram Metrics::histogram(const std::string& name, const std::string& help, const Labels& labels,
                             const std::vector<double>& bounds) {
    const MutexLock lock(impl_->mutex);
    // The library would accept other bounds for the same name, and Prometheus could not add up the series.
    const std::vector<double>& agreed = impl_->bounds_by_name.try_emplace(name, bounds).first->second;
    auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(impl_->registry);
    return Histogram(family.Add(labels, agreed));
}

std::string Metrics::text() const {
    return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

const std::vector<double>& latency_bounds_seconds() {
    static const std::vector<double> bounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                               0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};
    return bounds;
}

const std::vector<double>& lag_bounds_seconds() {
    static const std::vector<double> bounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,  0.25,  0.5,   1,    2.5,
                                               5,     10,     30,    60,   300,   900,  3600, 14400, 43200, 86400};
    return bounds;
}

}  // namespace deliverd::metrics
