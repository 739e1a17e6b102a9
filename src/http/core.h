// What the sessions of a server share: the mailbox that brings them their answers, the memory that request bodies may
// take, the lists they are in, the pool.
#pragma once

#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "http/handler_pool.h"
#include "http/messages.h"
#include "http/tls.h"

namespace deliverd::http {

class Session;

/// Of the server's own 503: an overload passes quickly or not at all.
constexpr const char* kRetryAfterSeconds = "1";

/// Takes answers from any thread to the I/O thread. Replies share the mailbox with the server and may outlive the
/// server; once the mailbox is closed, they have no effect. Holds at most one answer per connection, which has one
/// request at a time.
class Mailbox {
public:
    /// `wake` makes the I/O thread call take() soon.
    Mailbox(std::size_t max_connections, std::function<void()> wake) : wake_(std::move(wake)) {
        answered_.reserve(max_connections);
    }

    /// `session` waits for this answer; it is not touched when the mailbox is closed. Thread-safe.
    void put(Session* session, Response&& response) noexcept;

    /// Swaps the sessions whose answers have arrived into `out`, which is empty and has capacity for all connections.
    void take(std::vector<Session*>& out) {
        ASSERT(out.empty());
        const MutexLock lock(mutex_);
        answered_.swap(out);
        awake_ = false;
    }

    void close() {
        const MutexLock lock(mutex_);
        closed_ = true;
        answered_.clear();
    }

private:
    const std::function<void()> wake_;
    Mutex mutex_;
    std::vector<Session*> answered_ GUARDED_BY(mutex_);
    bool awake_ GUARDED_BY(mutex_) = false;
    bool closed_ GUARDED_BY(mutex_) = false;
};

/// Shared by everything that holds a body. Thread-safe.
class BodyBudget {
public:
    explicit BodyBudget(std::size_t most) : most_(most) {}

    [[nodiscard]] bool take(std::size_t bytes) {
        std::size_t used = used_;
        do {
            if (bytes > most_ - used) return false;
        } while (!used_.compare_exchange_weak(used, used + bytes));
        if (used + bytes > kFloodBytes) flooded_ = true;
        return true;
    }

    /// Call it after the body is freed. After a flood, the last call also returns free memory to the system, which
    /// malloc might otherwise keep for ever.
    void give_back(std::size_t bytes) {
        const std::size_t used = used_.fetch_sub(bytes);
        ASSERT(used >= bytes);
        if (used == bytes && flooded_.exchange(false)) malloc_trim(0);
    }

private:
    static constexpr std::size_t kFloodBytes = 8 * 1024 * 1024;  // held at once; everyday traffic stays below

    const std::size_t most_;
    std::atomic<std::size_t> used_ = 0;  // never more than most_
    std::atomic<bool> flooded_ = false;
};

/// One body's share of the budget. The destructor gives it back.
class BodyShare {
public:
    explicit BodyShare(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
    BodyShare(const BodyShare&) = delete;
    BodyShare& operator=(const BodyShare&) = delete;
    ~BodyShare() { clear(); }

    /// Takes enough for a body of `bytes`; false if the budget has too little left.
    [[nodiscard]] bool grow_to(std::size_t bytes) {
        if (bytes <= bytes_) return true;
        if (!budget_->take(bytes - bytes_)) return false;
        bytes_ = bytes;
        return true;
    }
    /// Moves the share to the body's next holder. This object can grow again for the next body.
    [[nodiscard]] BodyShare hand_over() { return BodyShare(budget_, std::exchange(bytes_, 0)); }
    void clear() {
        if (bytes_ > 0) budget_->give_back(std::exchange(bytes_, 0));
    }

private:
    BodyShare(std::shared_ptr<BodyBudget> budget, std::size_t bytes) : budget_(std::move(budget)), bytes_(bytes) {}

    std::shared_ptr<BodyBudget> budget_;
    std::size_t bytes_ = 0;
};

/// A request on its way, shared by the pool's task and the reply: it may outlive the server.
struct Exchange {
    explicit Exchange(BodyShare& read) : share(read.hand_over()) {}

    BodyShare share;  // of the request's body, which is freed before it
    Request request;
    std::shared_ptr<Mailbox> mailbox;
    Session* session = nullptr;  // only for the mailbox, which knows whether it still exists
};

/// What all sessions of a server share. Used on the I/O thread only; by stop() once that thread has ended.
struct Core {
    const ServerOptions options;
    const DeferredHandler handler;
    const ErrorBody error_body;
    const std::shared_ptr<Mailbox> mailbox;

    const SystemClock clock{};
    const std::shared_ptr<BodyBudget> budget =  // requests may outlive the server
        std::make_shared<BodyBudget>(options.max_total_body_bytes);
    std::shared_ptr<ssl_ctx_st> tls{};  // for connections to come; null: plain HTTP

    // Every open connection that was not refused is in one of these three lists, longest-waiting first, and moves
    // between them in O(1).
    std::list<Session*> waiting{};  // for a whole request header, or for its client to close
    std::list<Session*> reading{};  // a request's body
    std::list<Session*> serving{};  // a request: handling, answering
    std::size_t refusing = 0;
    std::size_t busy = 0;  // sessions with a request under way
    bool draining = false;
    std::function<void()> on_quiet{};  // called when draining and nothing is under way any more

    HandlerPool pool{options.handler_threads, options.max_queued_requests};

    Response error(int status, std::string_view code, std::string_view message) const noexcept {
        try {
            Response response = error_body(status, code, message);
            if (status == 503) response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
            return response;
        } catch (...) {  // a bare status is still of more use to the client than a closed connection
            return Response{status, {}, "text/plain", {}};
        }
    }
};

}  // namespace deliverd::http
