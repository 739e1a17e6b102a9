// The spools of `serve`. Each, at intervals, retries what is due, hands exhausted entries to the dead letters, cleans
// up.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/try.h"
#include "config/config.h"
#include "daemon/parts.h"
#include "daemon/spool_letters.h"
#include "deliverd/result.h"
#include "deliverd/spool.h"
#include "metrics/metrics.h"
#include "sink/http/http_poster.h"
#include "sink/sink.h"
#include "store/dead_letters.h"

namespace deliverd::daemon {

/// Sends entries over HTTP. The answer keeps the poster, and is called by one thread at a time.
[[nodiscard]] inline SpoolSender http_sender(std::shared_ptr<sink::HttpPoster> poster) {
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

class SpoolService {
public:
    /// Opens nothing yet. Failure: `bad_argument`, naming the spool; also for a token that is not in the environment.
    /// `returns`, `metrics` and `log` outlive it.
    static Result<std::unique_ptr<SpoolService>> make(const std::vector<config::SpoolConfig>& spools,
                                                      std::unique_ptr<store::DeadLetters> letters,
                                                      const SpoolReturns& returns, metrics::Metrics& metrics,
                                                      Log& log) {
        std::unique_ptr<SpoolService> service(new SpoolService(std::move(letters), returns, metrics, log));
        for (const config::SpoolConfig& config : spools) {
            const std::string setting = fmt::format("spools.{}", config.name);
            if (!config.token_env.empty() && config.poster.token.empty()) {
                return bad_argument(fmt::format("{}.token_env: the environment variable {} is not set, or it is empty",
                                                setting, config.token_env));
            }
            const SpoolOptions options{.path = config.path, .name = config.name, .work_wait_seconds = kWorkWaitSeconds};
            TRY_ASSIGN(auto spool, about(setting, open_spool(options)));
            TRY_ASSIGN(auto poster, about(setting, sink::make_http_poster(config.poster)));
            service->units_.push_back(std::make_unique<Unit>(config, std::move(spool), std::move(poster)));
        }
        return service;
    }

    ~SpoolService() { stop(Duration::zero()); }

    /// One thread per spool. A file that is not there yet is no error.
    void start() {
        for (const auto& unit : units_) {
            if (const auto note = config::token_note(unit->config)) {
                log_.warn("spool: no token is sent", {{"reason", *note}});
            }
        }
        const MutexLock lock(mutex_);
        running_ = static_cast<int>(units_.size());
        for (const auto& unit : units_) unit->thread = std::thread([this, &unit = *unit] { work(unit); });
    }

    /// Sends nothing more and waits `patience` for requests under way, then cuts them off: such an entry stays as it
    /// was and is sent again later, with the same key. Waits for entries that are being recorded. Idempotent; one
    /// thread at a time.
    void stop(Duration patience) {
        {
            MutexLock lock(mutex_);
            stopping_ = true;
            wake_.notify_all();
            // Runs end by themselves after the request under way (should_stop). Joining a thread cannot be limited in
            // time, so the threads say when they end.
            wake_.wait_for(mutex_, patience, [this]() REQUIRES(mutex_) { return running_ == 0; });
        }
        hurry();  // what is still being sent
        for (const auto& unit : units_) {
            if (unit->thread.joinable()) unit->thread.join();
        }
    }

    /// Makes a running stop() wait for no receiver. Thread-safe.
    void hurry() {
        for (const auto& unit : units_) unit->poster->stop();
    }

private:
    /// Another process at the same file: the next round comes soon enough, and a stop must not wait for it.
    static constexpr double kWorkWaitSeconds = 1;

    struct Unit {
        config::SpoolConfig config;
        std::unique_ptr<Spool> spool;
        std::shared_ptr<sink::HttpPoster> poster;
        // The last problems that were logged: the same one is logged once, not every minute.
        std::string run_problem{};
        std::string letters_problem{};
        std::thread thread{};
    };

    SpoolService(std::unique_ptr<store::DeadLetters> letters, const SpoolReturns& returns, metrics::Metrics& metrics,
                 Log& log)
        : letters_(std::move(letters)), returns_(returns), metrics_(metrics), log_(log) {}

    void work(Unit& unit) {
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

    /// Whether every exhausted entry is among the dead letters.
    bool retry(Unit& unit) {
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

    bool hand_over(Unit& unit) {
        const std::string file = file_address(unit.config.path);
        SpoolHandOver order;
        order.wanted = [](const SpoolEntry& entry) {
            return entry.state == SpoolState::exhausted && !entry.dead_letter;
        };
        order.take = [&](std::span<const SpoolEntry> entries) {
            auto refused = store_entries(*letters_, unit.config.name, file, entries);
            failpoint("spool.after_store");  // a crash here: the next run stores them again, under the same ids
            return refused;
        };
        order.receipt = [&](const SpoolEntry& entry) { return entry_uuid(unit.config.name, entry); };
        order.should_stop = [this] { return is_stopping(); };
        const auto report_failure = [&](const Error& error) {
            report(unit, unit.letters_problem, "spool: exhausted entries are not among the dead letters yet", error);
            return false;
        };
        const auto done = unit.spool->hand_over(order);
        if (!done) return report_failure(done.error());
        unit.letters_problem.clear();
        if (done->refused > 0) {
            report_failure(
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

    /// Waits until no one waits for the file, kPutBackWaitSeconds at most.
    void make_way(const Unit& unit) {
        // Polled, because put_back() notifies nobody: it waits for the lock of the file, which nothing here can see.
        constexpr auto kLook = std::chrono::milliseconds(20);
        const auto end = std::chrono::steady_clock::now() + from_seconds(kPutBackWaitSeconds);
        MutexLock lock(mutex_);
        while (!stopping_ && returns_.waits_for(unit.config.name) && std::chrono::steady_clock::now() < end) {
            wake_.wait_for(mutex_, kLook, [this]() REQUIRES(mutex_) { return stopping_; });
        }
    }

    void cleanup(Unit& unit) {
        const auto done = unit.spool->cleanup();
        if (!done) return report(unit, unit.run_problem, "spool: a run failed", done.error());
        if (done->removed + done->rejected == 0) return;
        log_.info("spool: cleaned up",
                  {{"spool", unit.config.name}, {"removed", done->removed}, {"rejected", done->rejected}});
    }

    void report(const Unit& unit, std::string& last, const char* event, const Error& error) {
        // No entry was added yet, or another process holds the file: nothing was begun.
        if (error.code == codes::kSpoolMissing || error.code == codes::kSpoolBusy || error.message == last) return;
        last = error.message;
        log_.error(event, {{"spool", unit.config.name}, {"code", error.code}, {"error", error.message}});
    }

    void count(const char* name, const char* help, const metrics::Labels& labels, std::int64_t entries) {
        if (entries > 0) metrics_.counter(name, help, labels).add(static_cast<double>(entries));
    }

    [[nodiscard]] bool is_stopping() {
        const MutexLock lock(mutex_);
        return stopping_;
    }

    const std::unique_ptr<store::DeadLetters> letters_;
    const SpoolReturns& returns_;
    metrics::Metrics& metrics_;
    Log& log_;
    std::vector<std::unique_ptr<Unit>> units_;
    Mutex mutex_;
    Condition wake_;
    bool stopping_ GUARDED_BY(mutex_) = false;
    int running_ GUARDED_BY(mutex_) = 0;  // threads
};

}  // namespace deliverd::daemon
