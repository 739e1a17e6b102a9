// Retries and listings of dead letters on threads of their own: they wait for a broker, a retry-all for minutes, or
// look through a whole table, which would leave nobody to answer the other requests.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "api/api.h"
#include "base/log.h"
#include "deadletter/manager.h"
#include "deliverd/result.h"
#include "http/handler_pool.h"
#include "http/server.h"

namespace deliverd::api {

/// What deadletter::Manager does. Thread-safe; both may block.
struct DlqActions {
    std::function<deadletter::RetryReport(std::string_view id, std::string_view actor, const deadletter::SendRule&)>
        retry;
    std::function<Result<deadletter::RedriveReport>(std::string_view topic, std::string_view actor,
                                                    const deadletter::SendRule&)>
        retry_all;
};

struct DlqRetriesOptions {
    std::size_t retry_threads = 4;
    std::size_t max_waiting_retries = 256;  // further ones get 503
    std::size_t redrive_threads = 2;
    std::size_t max_waiting_redrives = 8;
    std::size_t listing_threads = 3;
    std::size_t max_waiting_listings = 64;
};

class DlqRetries {
public:
    /// What `actions` refer to and `log` outlive it.
    DlqRetries(const DlqRetriesOptions& options, DlqActions actions, Log& log);
    ~DlqRetries();  // stop()
    DlqRetries(const DlqRetries&) = delete;
    DlqRetries& operator=(const DlqRetries&) = delete;

    /// Return at once; the reply comes from a thread of this object. A caller who is limited to topics sends to no
    /// other. Thread-safe.
    void retry(const std::string& id, const Call& call, const http::Reply& reply);
    void retry_all(const std::string& topic, const Call& call, const http::Reply& reply);
    void list(const Call& call, const http::Reply& reply, std::function<http::Response(const Call&)> listing);

    /// Answers 503 to those that wait, and joins the threads: blocks until what is under way has ended (stop the
    /// manager first). Idempotent; from one thread at a time.
    void stop();

private:
    struct Asked;
    void submit(http::HandlerPool& pool, const Call& call, const http::Reply& reply, std::string_view what,
                std::function<http::Response(const Asked&)> work);

    const DlqActions actions_;
    Log& log_;
    std::atomic<bool> stopping_ = false;
    http::HandlerPool retries_;
    http::HandlerPool redrives_;
    http::HandlerPool listings_;
};

}  // namespace deliverd::api
