// Everything of dead letters that `serve` runs: the manager with its routes, the ingest of the dead-letter topics, the
// retention, and whoever takes up what processes that died left unfinished.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "api/api.h"
#include "api/dlq_retries.h"
#include "app/config.h"
#include "app/dead_letter_unit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "deadletter/ingest.h"
#include "lane/upkeep.h"
#include "metrics/metrics.h"
#include "store/database.h"

namespace deliverd::app {

class DeadLetterService {
public:
    /// Connects to nothing: brokers that are away are looked for later. `database`, `spools`, `metrics` and `log`
    /// outlive it.
    static Result<std::unique_ptr<DeadLetterService>> make(const Config& config, store::Database& database,
                                                           deadletter::Spools& spools, metrics::Metrics& metrics,
                                                           Log& log);

    DeadLetterService(const Config& config, std::unique_ptr<DeadLetterUnit> unit,
                      std::unique_ptr<deadletter::RecordSource> source, metrics::Metrics& metrics, Log& log);
    ~DeadLetterService();  // stop(Duration::zero())
    DeadLetterService(const DeadLetterService&) = delete;
    DeadLetterService& operator=(const DeadLetterService&) = delete;

    /// Of the handler; it outlives them.
    [[nodiscard]] std::vector<api::Route> routes();
    /// What is to be deleted now and then; it outlives them.
    [[nodiscard]] std::vector<lane::Chore> chores();

    void start();
    /// Reads the gauges. Blocks for one call of the store.
    void refresh();

    /// Ends ingest, retries and redrives; requests that come later get 503. What is being published ends first, unless
    /// `patience` is zero. Idempotent; one thread at a time.
    void stop(Duration patience);
    /// Makes a stop() under way wait for no broker. Safe from any thread.
    void hurry() { unit_->hurry(); }

private:
    /// What the ingest did, as metrics.
    class IngestMetrics final : public deadletter::IngestObserver {
    public:
        explicit IngestMetrics(metrics::Metrics& metrics);
        void on_stored(std::size_t fresh, std::size_t duplicates, Duration took) override;
        void on_truncated(std::size_t records) override;
        void on_reduced() override;
        void on_paused(bool yes) override;
        void on_failed() override;
        void on_started();
        void on_lag(std::int64_t records) override;
        void on_reachable(bool yes) override;

    private:
        metrics::Counter stored_;
        metrics::Counter truncated_;
        metrics::Counter reduced_;
        metrics::Gauge running_;
        metrics::Gauge paused_;
        metrics::Gauge lag_;
        metrics::Gauge connected_;
    };

    /// What became of retries, asked for over the API or taken up here.
    class RetryMetrics final : public deadletter::RetryObserver {
    public:
        explicit RetryMetrics(metrics::Metrics& metrics);
        void on_retry(deadletter::RetryAnswer answer) override;
        void on_redrive(std::int64_t published, std::int64_t failed, std::int64_t in_doubt) override;

    private:
        void count(std::string_view result, std::int64_t retries);

        metrics::Metrics& metrics_;
    };

    void open_ingest();
    [[nodiscard]] api::DlqActions actions();
    void resume_now_and_then();

    const DeadLettersConfig config_;
    const UpkeepConfig upkeep_;
    metrics::Metrics& metrics_;
    Log& log_;
    RetryMetrics retry_metrics_;
    std::unique_ptr<DeadLetterUnit> unit_;
    const SystemClock clock_;
    SystemRandom random_;                               // the ingest's
    std::unique_ptr<deadletter::RecordSource> source_;  // null: nothing is read here, nor are the two below there
    std::unique_ptr<IngestMetrics> ingest_metrics_;
    std::unique_ptr<deadletter::Ingest> ingest_;
    api::DlqRetries retries_;

    std::mutex mutex_;
    std::condition_variable wake_;
    bool ending_ = false;
    std::thread resumer_;
};

}  // namespace deliverd::app
