#include "daemon/dead_letter_service.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "api/dlq_routes.h"
#include "base/try.h"
#include "config/dead_letters.h"
#include "daemon/parts.h"

namespace deliverd::daemon {

namespace {

constexpr Duration kResumeInterval = std::chrono::seconds(30);
constexpr std::string_view kRetentionActor = "retention";  // in the audit

using store::LetterStatus;

Result<std::unique_ptr<deadletter::RecordSource>> open_source(const config::DeadLettersConfig& config, Log& log) {
    if (!config.ingest || config.kafka.brokers.empty()) return nullptr;
    auto source = deadletter::make_record_source(config::record_source_options(config.kafka), log);
    if (!source) {
        return tl::unexpected(
            Error{source.error().error_class, source.error().code, fmt::format("kafka: {}", source.error().message)});
    }
    return source;
}

std::string_view name_of(deadletter::RetryAnswer answer) {
    switch (answer) {
        case deadletter::RetryAnswer::resolved:
            return "published";
        case deadletter::RetryAnswer::not_found:
        case deadletter::RetryAnswer::conflict:
            return "refused";
        case deadletter::RetryAnswer::not_published:
        case deadletter::RetryAnswer::unavailable:
            return "failed";
        case deadletter::RetryAnswer::in_doubt:
            return "in_doubt";
    }
    return "unknown";
}

class IngestMetrics final : public deadletter::IngestObserver {
public:
    explicit IngestMetrics(metrics::Metrics& metrics)
        : stored_(metrics.counter("dlq_ingested_total", "Dead letters read from Kafka and stored, each once.", {})),
          truncated_(metrics.counter("dlq_truncated_total", "Of those, with a value longer than is kept.", {})),
          reduced_(metrics.counter("dlq_reduced_total", "Of those, stored without what the database refused.", {})),
          running_(metrics.gauge("dlq_ingest_running", "0 when reading has ended for good: only a restart helps.", {})),
          paused_(metrics.gauge("dlq_ingest_paused", "1 while nothing is read because the database is away.", {})),
          lag_(metrics.gauge("dlq_ingest_lag", "Records of this process's partitions that are not stored yet.", {})),
          connected_(metrics.gauge("dlq_ingest_connected", "1 while a broker answers this process.", {})) {
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
    void on_retry(deadletter::RetryAnswer answer) override { count(name_of(answer), 1); }
    void on_redrive(std::int64_t published, std::int64_t failed, std::int64_t in_doubt) override {
        count("published", published);
        count("failed", failed);
        count("in_doubt", in_doubt);
    }

private:
    void count(std::string_view result, std::int64_t retries) {
        metrics_
            .counter("dlq_retries_total", "Retries of dead letters, by how they ended.",
                     {{"result", std::string(result)}})
            .add(static_cast<double>(retries));
    }

    metrics::Metrics& metrics_;
};

}  // namespace

Result<std::unique_ptr<DeadLetterService>> DeadLetterService::make(const config::Config& config,
                                                                   store::Database& database,
                                                                   deadletter::Spools& spools,
                                                                   metrics::Metrics& metrics, Log& log) {
    TRY_ASSIGN(auto unit, DeadLetterUnit::make(config.dead_letters, database, &spools, log));
    TRY_ASSIGN(auto source, open_source(config.dead_letters, log));
    return std::make_unique<DeadLetterService>(config, std::move(unit), std::move(source), metrics, log);
}

DeadLetterService::DeadLetterService(const config::Config& config, std::unique_ptr<DeadLetterUnit> unit,
                                     std::unique_ptr<deadletter::RecordSource> source, metrics::Metrics& metrics,
                                     Log& log)
    : config_(config.dead_letters),
      upkeep_(config.upkeep),
      metrics_(metrics),
      log_(log),
      retry_metrics_(std::make_unique<RetryMetrics>(metrics)),
      unit_(std::move(unit)),
      source_(std::move(source)),
      retries_({}, actions(), log) {
    unit_->manager().observe(*retry_metrics_);
    open_ingest();
}

void DeadLetterService::open_ingest() {
    if (!source_) return;
    ingest_metrics_ = std::make_unique<IngestMetrics>(metrics_);
    deadletter::IngestOptions options;
    options.max_value_bytes = config_.kafka.max_value_bytes;
    ingest_ = std::make_unique<deadletter::Ingest>(options, *source_, unit_->letters(), clock_, random_,
                                                   *ingest_metrics_, log_);
}

DeadLetterService::~DeadLetterService() {
    stop(Duration::zero());
}

api::DlqActions DeadLetterService::actions() {
    using Rule = deadletter::SendRule;
    return {[this](std::string_view id, std::string_view actor, const Rule& rule) {
                return unit_->manager().retry(id, actor, rule);
            },
            [this](std::string_view topic, std::string_view actor, const Rule& rule) {
                return unit_->manager().retry_all(topic, actor, rule);
            }};
}

std::vector<api::Route> DeadLetterService::routes() {
    return api::dlq_routes(retries_, unit_->manager(), unit_->letters(), log_, config_.kafka.topic_pattern);
}

std::vector<lane::Chore> DeadLetterService::chores() {
    struct Kept {
        LetterStatus status;
        const char* name;
        std::optional<Duration> age;
    };
    const std::array<Kept, 4> all{{{LetterStatus::resolved, "purge_letters_resolved", config_.keep_resolved},
                                   {LetterStatus::dead, "purge_letters_dead", config_.keep_dead},
                                   {LetterStatus::pending, "purge_letters_pending", config_.keep_pending},
                                   {LetterStatus::retrying, "purge_letters_retrying", config_.keep_pending}}};
    std::vector<lane::Chore> chores;
    for (const Kept& kept : all) {
        if (!kept.age) continue;
        chores.push_back({kept.name, upkeep_.dead_letters_interval, upkeep_.batch_size,
                          [this, status = kept.status, age = *kept.age](std::int32_t piece) {
                              return unit_->letters().purge(status, age, piece, kRetentionActor);
                          }});
    }
    if (config_.keep_audit) {
        chores.push_back({"purge_letters_audit", upkeep_.dead_letters_interval, upkeep_.batch_size,
                          [this, age = *config_.keep_audit](std::int32_t piece) {
                              return unit_->letters().purge_history(age, piece);
                          }});
    }
    return chores;
}

void DeadLetterService::start() {
    if (ingest_) ingest_->start();
    resumer_ = std::thread([this] { resume_now_and_then(); });
}

void DeadLetterService::resume_now_and_then() {
    MutexLock lock(mutex_);
    while (!ending_) {
        lock.unlock();
        if (const auto resumed = unit_->manager().resume_abandoned(); !resumed) {
            log_.warn("dead letters: cannot look for unfinished redrives",
                      {{"code", resumed.error().code}, {"error", resumed.error().message}});
        }
        lock.lock();
        wake_.wait_for(mutex_, kResumeInterval, [this]() REQUIRES(mutex_) { return ending_; });
    }
}

void DeadLetterService::refresh() {
    const auto topics = unit_->letters().topics();
    if (!topics) return;
    const auto set = [&](LetterStatus status, std::int64_t store::TopicCounts::* count) {
        std::int64_t letters = 0;
        for (const store::TopicCounts& topic : *topics) letters += topic.*count;
        metrics_
            .gauge("dlq_letters", "Dead letters that are kept, by state.",
                   {{"status", std::string(store::to_string(status))}})
            .set(static_cast<double>(letters));
    };
    set(LetterStatus::pending, &store::TopicCounts::pending);
    set(LetterStatus::retrying, &store::TopicCounts::retrying);
    set(LetterStatus::resolved, &store::TopicCounts::resolved);
    set(LetterStatus::dead, &store::TopicCounts::dead);
}

void DeadLetterService::stop(Duration patience) {
    {
        const MutexLock lock(mutex_);
        ending_ = true;
    }
    wake_.notify_all();
    unit_->close();  // before anything is waited for: retries must not begin meanwhile
    if (ingest_ && !ingest_->stop(patience + kDatabaseStopGrace)) {
        log_.warn("dead letters: the ingest does not end; what it has not stored is read again", {});
    }
    unit_->stop(patience);
    retries_.stop();
    if (resumer_.joinable()) resumer_.join();
}

}  // namespace deliverd::daemon
