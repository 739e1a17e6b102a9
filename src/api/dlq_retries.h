// Retries and listings of dead letters on threads of their own. A retry waits for a broker, a retry-all for minutes,
// and a listing may read a whole table: on the handler threads they would hold up /readyz and the orders.
//
// Also the refusals that all routes of dead letters share.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api.h"
#include "base/log.h"
#include "deadletter/manager.h"
#include "deliverd/result.h"
#include "http/handler_pool.h"
#include "http/server.h"

namespace deliverd::api {

/// 400, 404, 409, 500 or 503, each with its code of the SYS_DLQ family; 503 with Retry-After.
[[nodiscard]] http::Response dlq_refusal(int status, std::string_view message, std::string_view request_id,
                                         const std::vector<Detail>& details = {});

[[nodiscard]] http::Response dlq_not_found(std::string_view id, std::string_view request_id);

/// 503 while the database is away, 500 for a permanent refusal. The database's own message goes to the log only: it may
/// name hosts and users. `changes`: the request may have changed something before it failed.
[[nodiscard]] http::Response dlq_store_failure(const Error& error, bool changes, std::string_view request_id, Log& log);

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

/// Where a caller may send letters. A letter's original topic comes from a header, which anybody may have written: a
/// caller who may see the letter may not be allowed to write there.
[[nodiscard]] deadletter::SendRule dlq_send_rule(const Scope& scope);

class DlqRetries {
public:
    /// What `actions` refer to and `log` outlive it.
    DlqRetries(const DlqRetriesOptions& options, DlqActions actions, Log& log);
    ~DlqRetries() { stop(); }

    /// Return at once; a thread of this object replies. Letters of a caller who is limited to topics go to these only.
    /// Thread-safe.
    void retry(const std::string& id, const Call& call, const http::Reply& reply);
    void retry_all(const std::string& topic, const Call& call, const http::Reply& reply);
    void list(const Call& call, const http::Reply& reply, std::function<http::Response(const Call&)> listing);

    /// Answers 503 to requests that wait, and joins the threads: blocks until what is under way has ended (stop the
    /// manager first). Idempotent; from one thread at a time.
    void stop();

private:
    void submit(http::HandlerPool& pool, const Call& call, const http::Reply& reply, std::string_view what,
                std::function<http::Response(const Call&)> work);

    const DlqActions actions_;
    Log& log_;
    std::atomic<bool> stopping_ = false;
    http::HandlerPool retries_;
    http::HandlerPool redrives_;
    http::HandlerPool listings_;
};

}  // namespace deliverd::api
