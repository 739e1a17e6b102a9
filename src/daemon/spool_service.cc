#include "daemon/spool_service.h"

#include <fmt/format.h>

#include <chrono>

#include "base/failpoint.h"
#include "daemon/parts.h"
#include "sink/sink.h"

namespace deliverd::daemon {

namespace {

/// Another process at the same file: the next round comes soon enough, and a stop must not wait for it.
constexpr double kWorkWaitSeconds = 1;

}  // namespace

SpoolSender http_sender(std::shared_ptr<sink::HttpPoster> poster) {
    return [poster = std::move(poster)](const SpoolPost& post) {
        const sink::PostAnswer said =
            poster->post(std::string(post.endpoint), std::string(post.body), std::string(post.job_id));
        SpoolAnswer answer;
        answer.delivered = said.is_success();
        answer.cut_short = said.code == sink::kStopped;
        if (!answer.delivered) answer.error = {said.problem, said.code};
        if (said.retry_after) answer.wait_seconds = to_seconds(*said.retry_after);
        return answer;
    };
}

Result<std::unique_ptr<SpoolService>> SpoolService::make(const std::vector<config::SpoolConfig>& spools,
                                                         std::unique_ptr<store::DeadLetters> letters,
                                                         const SpoolReturns& returns, metrics::Metrics& metrics,
                                                         Log& log) {
    std::unique_ptr<SpoolService> service(new SpoolService(std::move(letters), returns, metrics, log));
    for (const config::SpoolConfig& config : spools) {
        const std::string setting = fmt::format("spools.{}", config.name);
        if (!config.token_env.empty() && config.poster.token.empty()) {
            return bad_argument(fmt::format("{}.token_env: there is no environment variable {}, or it is empty",
                                            setting, config.token_env));
        }
        auto spool = open_spool({.path = config.path, .name = config.name, .work_wait_seconds = kWorkWaitSeconds});
        if (!spool) return failure_of(setting, spool.error());
        auto poster = sink::make_http_poster(config.poster);
        if (!poster) return failure_of(setting, poster.error());
        service->units_.push_back(std::make_unique<Unit>(config, std::move(*spool), std::move(*poster)));
    }
    return service;
}

void SpoolService::start() {
    for (const auto& unit : units_) {
        if (const auto note = config::token_note(unit->config)) {
            log_.warn("spool: no token is sent", {{"reason", *note}});
        }
    }
    const MutexLock lock(mutex_);
    running_ = static_cast<int>(units_.size());
    for (const auto& unit : units_) unit->thread = std::thread([this, &unit = *unit] { work(unit); });
}

void SpoolService::stop(Duration patience) {
    {
        MutexLock lock(mutex_);
        stopping_ = true;
        wake_.notify_all();
        // Runs end by themselves after the request under way (should_stop). Joining a thread cannot be limited in time,
        // so the threads say when they end.
        wake_.wait_for(mutex_, patience, [this]() REQUIRES(mutex_) { return running_ == 0; });
    }
    hurry();  // what is still being sent
    for (const auto& unit : units_) {
        if (unit->thread.joinable()) unit->thread.join();
    }
}

void SpoolService::work(Unit& unit) {
    auto next_cleanup = std::chrono::steady_clock::now();
    MutexLock lock(mutex_);
    while (!stopping_) {
        lock.unlock();
        // Entries that are not among the dead letters yet must not be removed.
        const bool all_kept = retry(unit);
        if (all_kept && std::chrono::steady_clock::now() >= next_cleanup && !is_stopping()) {
            cleanup(unit);
            next_cleanup = std::chrono::steady_clock::now() + unit.config.cleanup_interval;
        }
        lock.lock();
        wake_.wait_for(mutex_, unit.config.retry_interval, [this]() REQUIRES(mutex_) { return stopping_; });
    }
    --running_;
    wake_.notify_all();
}

bool SpoolService::retry(Unit& unit) {
    bool more = true;
    bool all_kept = false;
    while (more && !is_stopping()) {
        // A run may last for hours, and holds the file. Somebody who puts a letter back waits for seconds only.
        bool made_way = false;
        SpoolRetryOptions options;
        options.should_stop = [&] {
            made_way = returns_.waits_for(unit.config.name);
            return made_way || is_stopping();
        };
        const auto run = unit.spool->retry(http_sender(unit.poster), options);
        if (!run) {
            report(unit, unit.run_problem, "spool: a run failed", run.error());
            return false;
        }
        unit.run_problem.clear();
        const auto count_attempts = [&](const char* result, std::int64_t attempts) {
            count("spool_attempts_total", "Attempts to deliver entries of spools, by how they ended.",
                  {{"spool", unit.config.name}, {"result", result}}, attempts);
        };
        count_attempts("resolved", run->resolved);
        count_attempts("failed", run->failed);
        count_attempts("exhausted", run->exhausted);
        if (run->total + run->recovered + run->rejected > 0) {
            log_.info("spool: retried", {{"spool", unit.config.name},
                                         {"total", run->total},
                                         {"resolved", run->resolved},
                                         {"failed", run->failed},
                                         {"exhausted", run->exhausted},
                                         {"rejected", run->rejected}});
        }
        // After each round, not at the end of all: a spool may be busy for hours.
        all_kept = run->unmarked == 0 || hand_over(unit);
        more = run->more_due || made_way;
        if (made_way) make_way(unit);
    }
    return all_kept;
}

void SpoolService::make_way(const Unit& unit) {
    // Polled, because put_back() notifies nobody: it waits for the lock of the file, which nothing here can see.
    constexpr auto kLook = std::chrono::milliseconds(20);
    const auto end = std::chrono::steady_clock::now() + from_seconds(kPutBackWaitSeconds);
    MutexLock lock(mutex_);
    while (!stopping_ && returns_.waits_for(unit.config.name) && std::chrono::steady_clock::now() < end) {
        wake_.wait_for(mutex_, kLook, [this]() REQUIRES(mutex_) { return stopping_; });
    }
}

bool SpoolService::hand_over(Unit& unit) {
    const std::string file = file_address(unit.config.path);
    SpoolHandOver order;
    order.wanted = [](const SpoolEntry& entry) { return entry.state == SpoolState::exhausted && !entry.dead_letter; };
    order.take = [&](std::span<const SpoolEntry> entries) {
        auto refused = store_entries(*letters_, unit.config.name, file, entries);
        failpoint("spool.after_store");  // a crash here: the next run stores them again, under the same ids
        return refused;
    };
    order.receipt = [&](const SpoolEntry& entry) { return entry_uuid(unit.config.name, entry); };
    order.should_stop = [this] { return is_stopping(); };
    const auto done = unit.spool->hand_over(order);
    if (!done) {
        report(unit, unit.letters_problem, "spool: exhausted entries are not among the dead letters yet", done.error());
        return false;
    }
    unit.letters_problem.clear();
    if (done->refused > 0) {
        report(unit, unit.letters_problem, "spool: exhausted entries are not among the dead letters yet",
               {ErrorClass::permanent, "refused", fmt::format("the database refuses {} entries", done->refused)});
    }
    if (done->taken > 0) {
        log_.info("spool: exhausted entries are among the dead letters",
                  {{"spool", unit.config.name}, {"entries", done->taken}});
        count("spool_dead_letters_total", "Exhausted entries of spools that became dead letters.",
              {{"spool", unit.config.name}}, done->taken);
    }
    return done->refused == 0;
}

void SpoolService::cleanup(Unit& unit) {
    const auto done = unit.spool->cleanup();
    if (!done) return report(unit, unit.run_problem, "spool: a run failed", done.error());
    if (done->removed + done->rejected == 0) return;
    log_.info("spool: cleaned up",
              {{"spool", unit.config.name}, {"removed", done->removed}, {"rejected", done->rejected}});
}

void SpoolService::report(const Unit& unit, std::string& last, const char* event, const Error& error) {
    // No entry was added yet, or another process holds the file: nothing was begun.
    if (error.code == codes::kSpoolMissing || error.code == codes::kSpoolBusy || error.message == last) return;
    last = error.message;
    log_.error(event, {{"spool", unit.config.name}, {"code", error.code}, {"error", error.message}});
}

void SpoolService::count(const char* name, const char* help, const metrics::Labels& labels, std::int64_t entries) {
    if (entries > 0) metrics_.counter(name, help, labels).add(static_cast<double>(entries));
}

}  // namespace deliverd::daemon
