#include "app/spool_service.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "app/spool_sender.h"
#include "sink/http/http_poster.h"

namespace deliverd::app {

namespace {

/// Another process at the same file: the next round comes soon enough, and a stop must not wait for it.
constexpr double kWorkWaitSeconds = 1;

}  // namespace

Result<std::unique_ptr<SpoolService>> SpoolService::make(const std::vector<SpoolConfig>& spools,
                                                         metrics::Metrics& metrics, Log& log) {
    auto service = std::make_unique<SpoolService>(metrics, log);
    for (const SpoolConfig& config : spools) {
        const auto refused = [&](const Error& error) {
            return permanent(error.code, fmt::format("spools.{}: {}", config.name, error.message));
        };
        if (!config.token_env.empty() && config.token.empty()) {
            return permanent("bad_argument",
                             fmt::format("spools.{}.token_env: there is no environment variable {}, or it is empty",
                                         config.name, config.token_env));
        }
        auto spool = open_spool({.path = config.path, .name = config.name, .work_wait_seconds = kWorkWaitSeconds});
        if (!spool) return refused(spool.error());
        auto poster = sink::make_http_poster(
            {.token = config.token, .allow_private = config.allow_private, .timeout = config.timeout});
        if (!poster) return refused(poster.error());
        auto unit = std::make_unique<Unit>();
        unit->config = config;
        unit->spool = std::move(*spool);
        unit->sender = http_sender(std::move(*poster));
        service->units_.push_back(std::move(unit));
    }
    return service;
}

SpoolService::SpoolService(metrics::Metrics& metrics, Log& log) : metrics_(metrics), log_(log) {}

SpoolService::~SpoolService() {
    stop();
}

void SpoolService::start() {
    for (const auto& unit : units_) unit->thread = std::thread([this, &unit = *unit] { work(unit); });
}

void SpoolService::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_all();
    for (const auto& unit : units_) {
        if (unit->thread.joinable()) unit->thread.join();
    }
}

bool SpoolService::is_stopping() {
    const std::lock_guard lock(mutex_);
    return stopping_;
}

void SpoolService::work(Unit& unit) {
    auto next_cleanup = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        lock.unlock();
        retry(unit);
        if (std::chrono::steady_clock::now() >= next_cleanup && !is_stopping()) {
            cleanup(unit);
            next_cleanup = std::chrono::steady_clock::now() + unit.config.cleanup_interval;
        }
        lock.lock();
        wake_.wait_for(lock, unit.config.retry_interval, [this] { return stopping_; });
    }
}

void SpoolService::retry(Unit& unit) {
    bool more = true;
    while (more && !is_stopping()) {
        SpoolRetryOptions options;
        options.should_stop = [this] { return is_stopping(); };
        const auto run = unit.spool->retry(unit.sender, options);
        if (!run) return tell(unit, run.error());
        unit.last_problem.clear();
        count(unit, "resolved", run->resolved);
        count(unit, "failed", run->failed);
        count(unit, "exhausted", run->exhausted);
        if (run->total + run->recovered + run->rejected > 0) {
            log_.info("spool: retried", {{"spool", unit.config.name},
                                         {"total", run->total},
                                         {"resolved", run->resolved},
                                         {"failed", run->failed},
                                         {"exhausted", run->exhausted},
                                         {"rejected", run->rejected}});
        }
        more = run->more_due;
    }
}

void SpoolService::cleanup(Unit& unit) {
    const auto done = unit.spool->cleanup();
    if (!done) return tell(unit, done.error());
    if (done->removed + done->rejected == 0) return;
    log_.info("spool: cleaned up",
              {{"spool", unit.config.name}, {"removed", done->removed}, {"rejected", done->rejected}});
}

void SpoolService::tell(Unit& unit, const Error& error) {
    // Nothing was added yet, or somebody else is at it: nothing was begun.
    if (error.code == "spool_missing" || error.code == "spool_busy" || error.message == unit.last_problem) return;
    unit.last_problem = error.message;
    log_.error("spool: a run failed", {{"spool", unit.config.name}, {"code", error.code}, {"error", error.message}});
}

void SpoolService::count(const Unit& unit, const char* result, std::int64_t attempts) {
    if (attempts == 0) return;
    metrics_
        .counter("spool_attempts_total", "Attempts to deliver entries of spools, by how they ended.",
                 {{"spool", unit.config.name}, {"result", result}})
        .add(static_cast<double>(attempts));
}

}  // namespace deliverd::app
