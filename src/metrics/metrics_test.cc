#include "metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace deliverd::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Metrics, CounterShowsWhatWasAdded) {
    Metrics metrics;
    const Counter counter = metrics.counter("outbox_send_total", "Sends by outcome.", {{"outcome", "success"}});
    counter.add();
    counter.add(2);
    EXPECT_THAT(metrics.text(), HasSubstr("# HELP outbox_send_total Sends by outcome.\n"));
    EXPECT_THAT(metrics.text(), HasSubstr("# TYPE outbox_send_total counter\n"));
    EXPECT_THAT(metrics.text(), HasSubstr("outbox_send_total{outcome=\"success\"} 3\n"));
}

TEST(Metrics, GaugeGoesBothWays) {
    Metrics metrics;
    const Gauge gauge = metrics.gauge("outbox_inflight", "Under way.", {{"lane", "memories"}});
    gauge.set(10);
    gauge.add(-3);
    EXPECT_THAT(metrics.text(), HasSubstr("outbox_inflight{lane=\"memories\"} 7\n"));
}

TEST(Metrics, HistogramCountsIntoItsBounds) {
    Metrics metrics;
    const Histogram histogram = metrics.histogram("lag_seconds", "Lag.", {{"lane", "a"}}, {0.1, 1});
    histogram.observe(0.05);
    histogram.observe(0.5);
    histogram.observe(5);
    const std::string text = metrics.text();
    EXPECT_THAT(text, HasSubstr("lag_seconds_bucket{lane=\"a\",le=\"0.1\"} 1\n"));
    EXPECT_THAT(text, HasSubstr("lag_seconds_bucket{lane=\"a\",le=\"1\"} 2\n"));
    EXPECT_THAT(text, HasSubstr("lag_seconds_bucket{lane=\"a\",le=\"+Inf\"} 3\n"));
    EXPECT_THAT(text, HasSubstr("lag_seconds_count{lane=\"a\"} 3\n"));
    EXPECT_THAT(text, HasSubstr("lag_seconds_sum{lane=\"a\"} 5.55"));
}

TEST(Metrics, SameNameAndLabelsAreOneSeries) {
    Metrics metrics;
    metrics.counter("n_total", "N.", {{"a", "1"}, {"b", "2"}}).add();
    metrics.counter("n_total", "N.", {{"b", "2"}, {"a", "1"}}).add();
    metrics.counter("n_total", "N.", {{"a", "1"}, {"b", "3"}}).add();
    EXPECT_THAT(metrics.text(), HasSubstr("n_total{a=\"1\",b=\"2\"} 2\n"));
    EXPECT_THAT(metrics.text(), HasSubstr("n_total{a=\"1\",b=\"3\"} 1\n"));
    metrics.histogram("h", "H.", {}, {1}).observe(0.5);
    metrics.histogram("h", "H.", {}, {1}).observe(0.5);
    EXPECT_THAT(metrics.text(), HasSubstr("h_count 2\n"));
}

TEST(Metrics, AHistogramsNameKeepsItsBounds) {
    Metrics metrics;
    metrics.histogram("h", "H.", {{"lane", "a"}}, {1, 2}).observe(0.5);
    metrics.histogram("h", "H.", {{"lane", "b"}}, {5}).observe(0.5);
    EXPECT_THAT(metrics.text(), HasSubstr("h_bucket{lane=\"b\",le=\"2\"} 1\n"));
    EXPECT_THAT(metrics.text(), Not(HasSubstr("le=\"5\"")));
}

TEST(Metrics, LabelValuesAreEscaped) {
    Metrics metrics;
    metrics.counter("n_total", "N.", {{"lane", "a\"b\\c\nd"}}).add();
    EXPECT_THAT(metrics.text(), HasSubstr("n_total{lane=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

TEST(Metrics, RegistriesAreSeparate) {
    Metrics one;
    Metrics other;
    one.counter("n_total", "N.", {}).add();
    EXPECT_EQ(other.text(), "");
}

TEST(Metrics, ManyThreadsLoseNoCount) {
    Metrics metrics;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&metrics] {
            for (int i = 0; i < 1'000; ++i) {
                metrics.counter("n_total", "N.", {{"lane", "a"}}).add();
                metrics.histogram("h", "H.", {}, {1}).observe(2);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_THAT(metrics.text(), HasSubstr("n_total{lane=\"a\"} 4000\n"));
    EXPECT_THAT(metrics.text(), HasSubstr("h_count 4000\n"));
}

TEST(Metrics, BoundsAscendOverTheirRange) {
    EXPECT_TRUE(std::is_sorted(latency_bounds_seconds().begin(), latency_bounds_seconds().end(), std::less_equal<>()));
    EXPECT_EQ(latency_bounds_seconds().front(), 0.0001);
    EXPECT_EQ(latency_bounds_seconds().back(), 60);
    EXPECT_TRUE(std::is_sorted(lag_bounds_seconds().begin(), lag_bounds_seconds().end(), std::less_equal<>()));
    EXPECT_EQ(lag_bounds_seconds().front(), 0.001);
    EXPECT_EQ(lag_bounds_seconds().back(), 86400);
}

}  // namespace
}  // namespace deliverd::metrics
