// Retries and listings of dead letters on threads of their own. A retry waits for a broker, a retry-all for minutes,
// and a listing may read a whole table: on the handler threads they would hold up /readyz and the orders.
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

/// The functions of deadletter::Manager that block for a broker. Thread-safe.
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

/// Where a caller may send letters. A letter's original topic comes from a header, so that a caller who may see the
/// letter may still not write there.
[[nodiscard]] deadletter::SendRule dlq_send_rule(const Scope& scope);

class DlqRetries {
public:
    /// What `actions` refer to and `log` outlive it.
    DlqRetries(const DlqRetriesOptions& options, DlqActions actions, Log& log);
    ~DlqRetries();  // stop()
    DlqRetries(const DlqRetries&) = delete;
    DlqRetries& operator=(const DlqRetries&) = delete;

    /// Return at once; a thread of this object replies. A caller who is limited to topics sends to no other.
    /// Thread-safe.
    void retry(const std::string& id, const Call& call, const http::Reply& reply);
    void retry_all(const std::string& topic, const Call& call, const http::Reply& reply);
    void list(const Call& call, const http::Reply& reply, std::function<http::Response(const Call&)> listing);

    /// Answers 503 to requests that wait, and joins the threads: blocks until what is under way has ended (stop the
    /// manager first). Idempotent; from one thread at a time.
    void stop();

private:
    struct WaitingRequest;
    void submit(http::HandlerPool& pool, const Call& call, const http::Reply& reply, std::string_view what,
                std::function<http::Response(const WaitingRequest&)> work);

    const DlqActions actions_;
    Log& log_;
    std::atomic<bool> stopping_ = false;
    http::HandlerPool retries_;
    http::HandlerPool redrives_;
    http::HandlerPool listings_;
};

}  // namespace deliverd::api
