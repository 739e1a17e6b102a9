// Everything about dead letters that `serve` runs: the manager with its routes, the ingest of the dead-letter topics,
// the retention, and a thread that resumes the redrives of processes that died.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "api/api.h"
#include "api/dlq_retries.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "config/config.h"
#include "daemon/parts.h"
#include "daemon/periodic.h"
#include "deadletter/ingest.h"
#include "lane/upkeep.h"
#include "metrics/metrics.h"
#include "store/database.h"

namespace deliverd::daemon {

class DeadLetterService {
public:
    /// Connects to nothing: whether brokers can be reached is found out later. `database`, `spools`, `metrics` and
    /// `log` outlive it.
    static Result<std::unique_ptr<DeadLetterService>> make(const config::Config& config, store::Database& database,
                                                           deadletter::Spools& spools, metrics::Metrics& metrics,
                                                           Log& log);

    ~DeadLetterService() { stop(Duration::zero()); }

    /// For the handler; the service outlives them.
    [[nodiscard]] std::vector<api::Route> routes();
    /// The retention; the service outlives them.
    [[nodiscard]] std::vector<lane::Chore> chores();

    void start();
    /// Sets the gauges. Blocks for one call of the store.
    void refresh();

    /// Ends ingest, retries and redrives; later requests get 503. What is being published ends first, unless `patience`
    /// is zero. Idempotent; one thread at a time.
    void stop(Duration patience);
    /// Makes a stop() under way wait for no broker. Safe from any thread.
    void hurry() { unit_->hurry(); }

private:
    DeadLetterService(const config::Config& config, std::unique_ptr<DeadLetterUnit> unit, metrics::Metrics& metrics,
                      Log& log);
    Result<void> open_ingest();

    const config::DeadLettersConfig config_;
    const config::UpkeepConfig upkeep_;
    metrics::Metrics& metrics_;
    Log& log_;
    const std::unique_ptr<deadletter::RetryObserver> retry_metrics_;
    std::unique_ptr<DeadLetterUnit> unit_;
    const SystemClock clock_;
    SystemRandom random_;                               // the ingest's
    std::unique_ptr<deadletter::RecordSource> source_;  // null: nothing is read here, and the two below are null
    std::unique_ptr<deadletter::IngestObserver> ingest_metrics_;
    std::unique_ptr<deadletter::Ingest> ingest_;
    api::DlqRetries retries_;
    std::optional<Periodic> resumer_;  // of redrives whose processes died
};

}  // namespace deliverd::daemon
