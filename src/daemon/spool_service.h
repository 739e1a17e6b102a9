// The spools of `serve`: what is due in each is retried, what is exhausted goes to the dead letters, and each is
// cleaned up, now and then.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "config/config.h"
#include "daemon/spool_returns.h"
#include "deliverd/result.h"
#include "deliverd/spool.h"
#include "metrics/metrics.h"
#include "sink/http/http_poster.h"
#include "store/dead_letters.h"

namespace deliverd::daemon {

class SpoolService {
public:
    /// Opens nothing yet. Failure: `bad_argument`, naming the spool; also for a token that is not in the environment.
    /// `returns`, `metrics` and `log` outlive it.
    static Result<std::unique_ptr<SpoolService>> make(const std::vector<config::SpoolConfig>& spools,
                                                      std::unique_ptr<store::DeadLetters> letters,
                                                      const SpoolReturns& returns, metrics::Metrics& metrics, Log& log);

    SpoolService(std::unique_ptr<store::DeadLetters> letters, const SpoolReturns& returns, metrics::Metrics& metrics,
                 Log& log);
    ~SpoolService();  // stop(Duration::zero())
    SpoolService(const SpoolService&) = delete;
    SpoolService& operator=(const SpoolService&) = delete;

    /// A thread a spool. A file that is not there yet is no error.
    void start();

    /// Sends nothing more and waits `patience` for requests under way, then cuts them off: such an entry stays as it
    /// was and is sent again later, with the same key. Waits for entries that are being recorded. Idempotent; one
    /// thread at a time.
    void stop(Duration patience);
    /// Makes a running stop() wait for no receiver. Thread-safe.
    void hurry();

private:
    struct Unit {
        config::SpoolConfig config;
        std::unique_ptr<Spool> spool;
        std::shared_ptr<sink::HttpPoster> poster;
        SpoolSender sender;
        // Of the last run: the same problem is logged once, not every minute.
        std::string run_problem{};
        std::string letters_problem{};
        std::thread thread{};
    };

    void work(Unit& unit);
    /// Whether every exhausted entry is among the dead letters.
    bool retry(Unit& unit);
    bool hand_over(Unit& unit);
    /// Waits until no one waits for the file, kPutBackWaitSeconds at most.
    void make_way(const Unit& unit);
    void cleanup(Unit& unit);
    void tell(const Unit& unit, std::string& last, const char* event, const Error& error);
    void count(const Unit& unit, const char* result, std::int64_t attempts);
    [[nodiscard]] bool is_stopping();

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
