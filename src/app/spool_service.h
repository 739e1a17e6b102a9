// The spools of `serve`: what is due in each is retried, and each is cleaned up, now and then.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "app/config.h"
#include "base/log.h"
#include "deliverd/result.h"
#include "deliverd/spool.h"
#include "metrics/metrics.h"

namespace deliverd::app {

class SpoolService {
public:
    /// Opens nothing yet. Failure: `bad_argument`, naming the spool; also for a token that is not in the environment.
    /// `metrics` and `log` outlive it.
    static Result<std::unique_ptr<SpoolService>> make(const std::vector<SpoolConfig>& spools, metrics::Metrics& metrics,
                                                      Log& log);

    SpoolService(metrics::Metrics& metrics, Log& log);
    ~SpoolService();  // stop()
    SpoolService(const SpoolService&) = delete;
    SpoolService& operator=(const SpoolService&) = delete;

    /// A thread a spool. A file that is not there yet is no error.
    void start();

    /// Nothing more is sent; waits for the requests under way, `timeout_seconds` each at most, and for their record.
    /// Idempotent.
    void stop();

private:
    struct Unit {
        SpoolConfig config;
        std::unique_ptr<Spool> spool;
        SpoolSender sender;
        std::string last_problem{};  // logged once, not every minute
        std::thread thread{};
    };

    void work(Unit& unit);
    void retry(Unit& unit);
    void cleanup(Unit& unit);
    void tell(Unit& unit, const Error& error);
    void count(const Unit& unit, const char* result, std::int64_t attempts);
    [[nodiscard]] bool is_stopping();

    metrics::Metrics& metrics_;
    Log& log_;
    std::vector<std::unique_ptr<Unit>> units_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool stopping_ = false;
};

}  // namespace deliverd::app
