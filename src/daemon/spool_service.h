// The spools of `serve`. For each, at intervals: retries what is due, hands exhausted entries over to the dead letters,
// and cleans up.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "config/config.h"
#include "daemon/spool_letters.h"
#include "deliverd/result.h"
#include "deliverd/spool.h"
#include "metrics/metrics.h"
#include "sink/http/http_poster.h"
#include "store/dead_letters.h"

namespace deliverd::daemon {

/// Sends entries over HTTP. The answer keeps the poster, and is called by one thread at a time.
[[nodiscard]] SpoolSender http_sender(std::shared_ptr<sink::HttpPoster> poster);

class SpoolService {
public:
    /// Opens nothing yet. Failure: `bad_argument`, naming the spool; also for a token that is not in the environment.
    /// `returns`, `metrics` and `log` outlive it.
    static Result<std::unique_ptr<SpoolService>> make(const std::vector<config::SpoolConfig>& spools,
                                                      std::unique_ptr<store::DeadLetters> letters,
                                                      const SpoolReturns& returns, metrics::Metrics& metrics, Log& log);

    ~SpoolService() { stop(Duration::zero()); }

    /// One thread per spool. A file that is not there yet is no error.
    void start();

    /// Sends nothing more and waits `patience` for requests under way, then cuts them off: such an entry stays as it
    /// was and is sent again later, with the same key. Waits for entries that are being recorded. Idempotent; one
    /// thread at a time.
    void stop(Duration patience);
    /// Makes a running stop() wait for no receiver. Thread-safe.
    void hurry() {
        for (const auto& unit : units_) unit->poster->stop();
    }

private:
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

    void work(Unit& unit);
    /// Whether every exhausted entry is among the dead letters.
    bool retry(Unit& unit);
    bool hand_over(Unit& unit);
    /// Waits until no one waits for the file, kPutBackWaitSeconds at most.
    void make_way(const Unit& unit);
    void cleanup(Unit& unit);
    void report(const Unit& unit, std::string& last, const char* event, const Error& error);
    void count(const char* name, const char* help, const metrics::Labels& labels, std::int64_t entries);
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
