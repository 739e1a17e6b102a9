#include "app/dead_letter_service.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "api/dlq_routes.h"
#include "app/config_dead_letters.h"
#include "app/parts.h"

namespace deliverd::app {

namespace {

constexpr Duration kResumeInterval = std::chrono::seconds(30);
constexpr std::string_view kRetentionActor = "retention";  // in the audit

using store::LetterStatus;

Result<std::unique_ptr<deadletter::RecordSource>> open_source(const DeadLettersConfig& config, Log& log) {
    if (!config.ingest || config.kafka.brokers.empty()) return nullptr;
    auto source = deadletter::make_record_source(record_source_options(config.kafka), log);
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

}  // namespace

Result<std::unique_ptr<DeadLetterService>> DeadLetterService::make(const Config& config, store::Database& database,
                                                                   deadletter::Spools& spools,
                                                                   metrics::Metrics& metrics, Log& log) {
    auto unit = DeadLetterUnit::make(config.dead_letters, database, &spools, log);
    if (!unit) return tl::unexpected(unit.error());
    auto source = open_source(config.dead_letters, log);
    if (!source) return tl::unexpected(source.error());
    return std::make_unique<DeadLetterService>(config, std::move(*unit), std::move(*source), metrics, log);
}

DeadLetterService::DeadLetterService(const Config& config, std::unique_ptr<DeadLetterUnit> unit,
                                     std::unique_ptr<deadletter::RecordSource> source, metrics::Metrics& metrics,
                                     Log& log)
    : config_(config.dead_letters),
      upkeep_(config.upkeep),
      metrics_(metrics),
      log_(log),
      retry_metrics_(metrics),
      unit_(std::move(unit)),
      source_(std::move(source)),
      retries_({}, actions(), log) {
    unit_->manager().observe(retry_metrics_);
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

DeadLetterService::IngestMetrics::IngestMetrics(metrics::Metrics& metrics)
    : stored_(metrics.counter("dlq_ingested_total", "Dead letters read from Kafka and stored, each once.", {})),
      truncated_(metrics.counter("dlq_truncated_total", "Of those, with a value longer than is kept.", {})),
      reduced_(metrics.counter("dlq_reduced_total", "Of those, stored without what the database refused.", {})),
      running_(metrics.gauge("dlq_ingest_running", "0 when reading has ended for good: only a restart helps.", {})),
      paused_(metrics.gauge("dlq_ingest_paused", "1 while nothing is read because the database is away.", {})),
      lag_(metrics.gauge("dlq_ingest_lag", "Records of this process's partitions that are not stored yet.", {})),
      connected_(metrics.gauge("dlq_ingest_connected", "1 while a broker answers this process.", {})) {}

void DeadLetterService::IngestMetrics::on_stored(std::size_t fresh, std::size_t /*duplicates*/, Duration /*took*/) {
    stored_.add(static_cast<double>(fresh));
}

void DeadLetterService::IngestMetrics::on_truncated(std::size_t records) {
    truncated_.add(static_cast<double>(records));
}

void DeadLetterService::IngestMetrics::on_reduced() {
    reduced_.add(1);
}

void DeadLetterService::IngestMetrics::on_started() {
    running_.set(1);
}

void DeadLetterService::IngestMetrics::on_failed() {
    running_.set(0);
}

void DeadLetterService::IngestMetrics::on_paused(bool yes) {
    paused_.set(yes ? 1 : 0);
}

void DeadLetterService::IngestMetrics::on_lag(std::int64_t records) {
    lag_.set(static_cast<double>(records));
}

void DeadLetterService::IngestMetrics::on_reachable(bool yes) {
    connected_.set(yes ? 1 : 0);
}

DeadLetterService::~DeadLetterService() {
    stop(Duration::zero());
}

DeadLetterService::RetryMetrics::RetryMetrics(metrics::Metrics& metrics) : metrics_(metrics) {
    // There from the beginning: of a series that begins with its first failure nobody can see the increase.
    for (const std::string_view result : {"published", "refused", "failed", "in_doubt"}) count(result, 0);
}

void DeadLetterService::RetryMetrics::on_retry(deadletter::RetryAnswer answer) {
    count(name_of(answer), 1);
}

void DeadLetterService::RetryMetrics::on_redrive(std::int64_t published, std::int64_t failed, std::int64_t in_doubt) {
    count("published", published);
    count("failed", failed);
    count("in_doubt", in_doubt);
}

void DeadLetterService::RetryMetrics::count(std::string_view result, std::int64_t retries) {
    metrics_
        .counter("dlq_retries_total", "Retries of dead letters, by how they ended.", {{"result", std::string(result)}})
        .add(static_cast<double>(retries));
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
    return api::dlq_routes(retries_, unit_->letters(), log_, config_.kafka.topic_pattern);
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
    if (ingest_) {
        ingest_metrics_->on_started();
        ingest_->start();
    }
    resumer_ = std::thread([this] { resume_now_and_then(); });
}

void DeadLetterService::resume_now_and_then() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
        lock.unlock();
        if (const auto resumed = unit_->manager().resume_abandoned(); !resumed) {
            log_.warn("dead letters: cannot look for unfinished retries of topics",
                      {{"code", resumed.error().code}, {"error", resumed.error().message}});
        }
        lock.lock();
        wake_.wait_for(lock, kResumeInterval, [this] { return ending_; });
    }
}

void DeadLetterService::refresh() {
    if (const auto topics = unit_->letters().topics()) {
        store::TopicCounts sum;
        for (const store::TopicCounts& topic : *topics) {
            sum.pending += topic.pending;
            sum.retrying += topic.retrying;
            sum.resolved += topic.resolved;
            sum.dead += topic.dead;
        }
        const auto set = [this](LetterStatus status, std::int64_t count) {
            metrics_
                .gauge("dlq_letters", "Dead letters that are kept, by state.",
                       {{"status", std::string(store::to_string(status))}})
                .set(static_cast<double>(count));
        };
        set(LetterStatus::pending, sum.pending);
        set(LetterStatus::retrying, sum.retrying);
        set(LetterStatus::resolved, sum.resolved);
        set(LetterStatus::dead, sum.dead);
    }
}

void DeadLetterService::stop(Duration patience) {
    {
        const std::lock_guard lock(mutex_);
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

}  // namespace deliverd::app
