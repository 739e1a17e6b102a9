// Everything about dead letters that `serve` runs: the manager with its routes, the ingest of the dead-letter topics,
// the retention, and a thread that resumes the redrives of processes that died.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "api/api.h"
#include "api/dlq_retries.h"
#include "api/dlq_routes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "base/try.h"
#include "config/config.h"
#include "daemon/parts.h"
#include "daemon/periodic.h"
#include "deadletter/ingest.h"
#include "deadletter/kafka/record_source.h"
#include "lane/upkeep.h"
#include "metrics/metrics.h"

namespace deliverd::daemon {

inline constexpr Duration kResumeInterval = std::chrono::seconds(30);
inline constexpr std::string_view kRetentionActor = "retention";  // in the audit

class IngestMetrics final : public deadletter::IngestObserver {
public:
    explicit IngestMetrics(metrics::Metrics& metrics)
        : stored_(metrics.counter("dlq_ingested_total", "Dead letters read from Kafka and stored, each once.", {})),
          truncated_(
              metrics.counter("dlq_truncated_total", "Of those, with a value that was cut because of its length.", {})),
          reduced_(
              metrics.counter("dlq_reduced_total", "Of those, stored without a part that the database refused.", {})),
          running_(
              metrics.gauge("dlq_ingest_running", "0 when reading has stopped permanently: restart deliverd.", {})),
          paused_(metrics.gauge("dlq_ingest_paused", "1 while nothing is read because the database cannot be reached.",
                                {})),
          lag_(metrics.gauge("dlq_ingest_lag", "Records of this process's partitions that are not stored yet.", {})),
          connected_(metrics.gauge("dlq_ingest_connected", "1 while a broker answers this process.", {})) {
        // 0 would mean that reading has ended.
        running_.set(1);
    }
    void on_stored(std::size_t fresh, std::size_t /*duplicates*/, Duration /*took*/) override {
        stored_.add(static_cast<double>(fresh));
    }
    void on_truncated(std::size_t records) override { truncated_.add(static_cast<double>(records)); }
    void on_reduced() override { reduced_.add(1); }
    void on_paused(bool yes) override { paused_.set(yes ? 1 : 0); }
    void on_failed() override { running_.set(0); }
    void on_lag(std::int64_t records) override { lag_.set(static_cast<double>(records)); }
    void on_reachable(bool yes) override { connected_.set(yes ? 1 : 0); }

private:
    metrics::Counter stored_;
    metrics::Counter truncated_;
    metrics::Counter reduced_;
    metrics::Gauge running_;
    metrics::Gauge paused_;
    metrics::Gauge lag_;
    metrics::Gauge connected_;
};

/// Retries that were asked for over the API or resumed here.
class RetryMetrics final : public deadletter::RetryObserver {
public:
    explicit RetryMetrics(metrics::Metrics& metrics) : metrics_(metrics) {
        // Present from the beginning: nobody can see the increase of a series that begins with its first failure.
        for (const std::string_view result : {"published", "refused", "failed", "in_doubt"}) count(result, 0);
    }
    void on_retry(deadletter::RetryAnswer answer) override { count(result_of(answer), 1); }
    void on_redrive(std::int64_t published, std::int64_t failed, std::int64_t in_doubt) override {
        count("published", published);
        count("failed", failed);
        count("in_doubt", in_doubt);
    }

private:
    /// The label `result` of dlq_retries_total.
    static std::string_view result_of(deadletter::RetryAnswer answer) {
        using enum deadletter::RetryAnswer;
        if (answer == resolved) return "published";
        if (answer == not_found || answer == conflict) return "refused";
        return answer == in_doubt ? "in_doubt" : "failed";
    }

    void count(std::string_view result, std::int64_t retries) {
        metrics_
            .counter("dlq_retries_total", "Retries of dead letters, by how they ended.",
                     {{"result", std::string(result)}})
            .add(static_cast<double>(retries));
    }

    metrics::Metrics& metrics_;
};

class DeadLetterService {
public:
    /// Connects to nothing; brokers may be reached later. `database`, `spools`, `metrics` and `log` outlive it.
    static Result<std::unique_ptr<DeadLetterService>> make(const config::Config& config, store::Database& database,
                                                           deadletter::Spools& spools, metrics::Metrics& metrics,
                                                           Log& log) {
        TRY_ASSIGN(auto unit, DeadLetterUnit::make(config.dead_letters, database, &spools, log));
        std::unique_ptr<DeadLetterService> service(new DeadLetterService(config, std::move(unit), metrics, log));
        TRY(service->open_ingest());
        return service;
    }

    ~DeadLetterService() { stop(Duration::zero()); }

    /// For the handler; the service outlives them.
    [[nodiscard]] std::vector<api::Route> routes() {
        return api::dlq_routes(retries_, unit_->manager(), unit_->letters(), log_, config_.kafka.topic_pattern);
    }

    /// The retention; the service outlives them.
    [[nodiscard]] std::vector<lane::Chore> chores() {
        std::vector<lane::Chore> chores;
        const auto add = [&](const char* name, const std::optional<Duration>& age, const auto& purge) {
            if (!age) return;
            chores.push_back({name, upkeep_.dead_letters_interval, upkeep_.batch_size,
                              [purge, age = *age](std::int32_t piece) { return purge(age, piece); }});
        };
        const auto letters = [this](store::LetterStatus status) {
            return [this, status](Duration age, std::int32_t piece) {
                return unit_->manager().purge_piece(status, age, piece, kRetentionActor);
            };
        };
        add("purge_letters_resolved", config_.keep_resolved, letters(store::LetterStatus::resolved));
        add("purge_letters_dead", config_.keep_dead, letters(store::LetterStatus::dead));
        add("purge_letters_pending", config_.keep_pending, letters(store::LetterStatus::pending));
        add("purge_letters_retrying", config_.keep_pending, letters(store::LetterStatus::retrying));
        // The audit has no state: it outlives its letter, and has an age of its own.
        add("purge_letters_audit", config_.keep_audit,
            [this](Duration age, std::int32_t piece) { return unit_->manager().purge_history(age, piece); });
        return chores;
    }

    void start() {
        if (ingest_) ingest_->start();
        // On a thread of its own: a redrive may take minutes, and a chore of the upkeep would hold up the others.
        resumer_.emplace([this]() -> Duration {
            if (const auto resumed = unit_->manager().resume_abandoned(); !resumed) {
                log_.warn("dead letters: cannot look for unfinished redrives",
                          {{"code", resumed.error().code}, {"error", resumed.error().message}});
            }
            return kResumeInterval;
        });
    }

    /// Sets the gauges. Blocks for one call of the store.
    void refresh() {
        using enum store::LetterStatus;
        using Counts = store::TopicCounts;
        constexpr std::pair<store::LetterStatus, std::int64_t Counts::*> kCounts[] = {{pending, &Counts::pending},
                                                                                      {retrying, &Counts::retrying},
                                                                                      {resolved, &Counts::resolved},
                                                                                      {dead, &Counts::dead}};
        const auto topics = unit_->letters().topics();
        if (!topics) return;  // the gauges keep their values; /readyz reports an unreachable database
        for (const auto& [status, count] : kCounts) {
            std::int64_t letters = 0;
            for (const Counts& topic : *topics) letters += topic.*count;
            metrics_
                .gauge("dlq_letters", "Dead letters that are kept, by state.",
                       {{"status", std::string(store::to_string(status))}})
                .set(static_cast<double>(letters));
        }
    }

    /// Ends ingest, retries and redrives; later requests get 503. What is being published ends first, unless `patience`
    /// is zero. Idempotent; one thread at a time.
    void stop(Duration patience) {
        unit_->manager().close();  // before anything is waited for: retries must not begin meanwhile
        if (ingest_ && !ingest_->stop(patience + kDatabaseStopGrace)) {
            log_.warn("dead letters: the ingest did not stop in time; records that it has not stored are read again",
                      {});
        }
        unit_->stop(patience);
        // Last: their threads wait for the manager, which ends what it sends only in the stop above.
        retries_.stop();
        resumer_.reset();
    }

    /// Makes a stop() under way wait for no broker. Safe from any thread.
    void hurry() { unit_->hurry(); }

private:
    DeadLetterService(const config::Config& config, std::unique_ptr<DeadLetterUnit> unit, metrics::Metrics& metrics,
                      Log& log)
        : config_(config.dead_letters),
          upkeep_(config.upkeep),
          metrics_(metrics),
          log_(log),
          unit_(std::move(unit)),
          retries_({}, actions_of(unit_->manager()), log) {
        unit_->manager().observe(retry_metrics_);
    }

    static api::DlqActions actions_of(deadletter::Manager& manager) {
        using Rule = deadletter::SendRule;
        return {[&manager](std::string_view id, std::string_view actor, const Rule& rule) {
                    return manager.retry(id, actor, rule);
                },
                [&manager](std::string_view topic, std::string_view actor, const Rule& rule) {
                    return manager.retry_all(topic, actor, rule);
                }};
    }

    Result<void> open_ingest() {
        if (!config_.ingest || config_.kafka.brokers.empty()) return {};
        const auto source = config::record_source_options(config_.kafka);
        TRY_ASSIGN(source_, about("kafka", deadletter::make_record_source(source, log_)));
        ingest_metrics_.emplace(metrics_);
        // Kafka need not be there: that is no reason not to be ready. The gauge `dlq_ingest_connected` shows it.
        deadletter::IngestOptions options;
        options.max_value_bytes = config_.kafka.max_value_bytes;
        ingest_ = std::make_unique<deadletter::Ingest>(options, *source_, unit_->letters(), clock_, random_,
                                                       *ingest_metrics_, log_);
        return {};
    }

    const config::DeadLettersConfig config_;
    const config::UpkeepConfig upkeep_;
    metrics::Metrics& metrics_;
    Log& log_;
    RetryMetrics retry_metrics_{metrics_};
    std::unique_ptr<DeadLetterUnit> unit_;
    const SystemClock clock_;
    SystemRandom random_;                               // the ingest's
    std::unique_ptr<deadletter::RecordSource> source_;  // null: nothing is read here, and the two below are null
    std::optional<IngestMetrics> ingest_metrics_;
    std::unique_ptr<deadletter::Ingest> ingest_;
    api::DlqRetries retries_;
    std::optional<Periodic> resumer_;  // of redrives whose processes died
};

}  // namespace deliverd::daemon
