// The spools of `serve`: what is due in each is retried, what is exhausted goes to the dead letters, and each is
// cleaned up, now and then.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/config.h"
#include "app/spool_returns.h"
#include "base/clock.h"
#include "base/log.h"
#include "deliverd/result.h"
#include "deliverd/spool.h"
#include "metrics/metrics.h"
#include "sink/http/http_poster.h"
#include "store/dead_letters.h"

namespace deliverd::app {

class SpoolService {
public:
    /// Opens nothing yet. Failure: `bad_argument`, naming the spool; also for a token that is not in the environment.
    /// `returns`, `metrics` and `log` outlive it.
    static Result<std::unique_ptr<SpoolService>> make(const std::vector<SpoolConfig>& spools,
                                                      std::unique_ptr<store::DeadLetters> letters,
                                                      const SpoolReturns& returns, metrics::Metrics& metrics, Log& log);

    SpoolService(std::unique_ptr<store::DeadLetters> letters, const SpoolReturns& returns, metrics::Metrics& metrics,
                 Log& log);
    ~SpoolService();  // stop(Duration::zero())
    SpoolService(const SpoolService&) = delete;
    SpoolService& operator=(const SpoolService&) = delete;

    /// A thread a spool. A file that is not there yet is no error.
    void start();

    /// Nothing more is sent; waits `patience` for the requests under way, then cuts them short: such an entry stays as
    /// it was and goes out again later, with the same key. Waits for what is being recorded. Idempotent; one thread at
    /// a time.
    void stop(Duration patience);
    /// Makes a stop() under way wait for no receiver. Safe from any thread.
    void hurry();

private:
    struct Unit {
        SpoolConfig config;
        std::unique_ptr<Spool> spool;
        std::shared_ptr<sink::HttpPoster> poster;
        SpoolSender sender;
        // Logged once, not every minute.
        std::string run_problem{};
        std::string letters_problem{};
        std::thread thread{};
    };

    void work(Unit& unit);
    /// Whether every exhausted entry is among the dead letters.
    bool retry(Unit& unit);
    bool hand_over(Unit& unit);
    /// Until nobody waits for the file, kPutBackWaitSeconds at most.
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
    std::mutex mutex_;
    std::condition_variable wake_;
    bool stopping_ = false;
    int running_ = 0;  // threads
};

}  // namespace deliverd::app
