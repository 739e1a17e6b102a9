// The demo's receiver: takes memories and orders over HTTP, and misbehaves as receivers do.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/try.h"
#include "deliverd/result.h"
#include "http/server.h"

namespace deliverd::demo {

/// What happens to an order, in this order.
inline constexpr std::array<std::string_view, 3> kEventSteps{"OrderCreated", "OrderPaid", "OrderShipped"};

/// Where a call came in: /memories, /orders or /events. In the order of the counts below.
enum class ReceiverDoor { memories, orders, events };

struct TakenCounts {
    std::uint64_t distinct = 0;    // different idempotency keys taken
    std::uint64_t duplicates = 0;  // keys that came again after they were taken
};

struct ReceiverCounts {
    std::uint64_t calls = 0;
    TakenCounts memories;
    TakenCounts orders;
    TakenCounts events;
    /// Events that came for the first time after a later one of their aggregate. Not those that were refused before and
    /// sent back: later events did not wait for them.
    std::uint64_t out_of_order = 0;
    std::uint64_t failed = 0;   // answered 500
    std::uint64_t limited = 0;  // answered 429
    std::uint64_t late = 0;     // taken, but answered after the sender had given up
    std::uint64_t refused = 0;  // answered 400
};

/// How often it misbehaves, as fractions of its calls; refusals are a property of the message.
struct ReceiverFaults {
    double fails = 0.10;
    double limits = 0.01;
    double answers_late = 0.01;
    std::int64_t refuses_every = 40;  // every 40th key, once: when it comes again, its cause has been fixed
    Duration lateness = std::chrono::milliseconds(1500);
};

/// Which event of which aggregate a call carries, as its headers say.
struct EventMark {
    std::string_view aggregate;
    std::string_view type;
};

class DemoReceiver {
public:
    /// Listens on any free port of 127.0.0.1.
    static Result<std::unique_ptr<DemoReceiver>> start(ReceiverFaults faults, std::uint64_t seed) {
        std::unique_ptr<DemoReceiver> receiver(new DemoReceiver(faults, seed));
        http::ServerOptions options;
        options.port = 0;
        options.handler_threads = kHandlerThreads;
        const auto handle = [raw = receiver.get()](const http::Request& request) {
            const auto door = request.path == "/orders"   ? ReceiverDoor::orders
                              : request.path == "/events" ? ReceiverDoor::events
                                                          : ReceiverDoor::memories;
            return raw->answer(door, request.header("Idempotency-Key"),
                               {request.header("X-aggregate-id"), request.header("X-event-type")});
        };
        const auto error_body = [](int status, std::string_view /*code*/, std::string_view message) {
            return plain(status, fmt::format("{{\"error\":\"{}\"}}", message));
        };
        TRY_ASSIGN(receiver->server_, http::Server::start(options, handle, error_body));
        return receiver;
    }
    ~DemoReceiver() { stop(); }

    /// Without a path: "http://127.0.0.1:43211".
    [[nodiscard]] std::string address() const { return fmt::format("http://127.0.0.1:{}", server_->port()); }
    [[nodiscard]] ReceiverCounts counts() const {
        const MutexLock lock(mutex_);
        return counts_;
    }

    /// Ends late answers at once, then the server.
    void stop() {
        {
            const MutexLock lock(mutex_);
            ending_ = true;
        }
        ends_.notify_all();
        if (server_) server_->stop(kStopPatience);
    }

    /// What a call is answered; public for the test. `key` is the Idempotency-Key.
    http::Response answer(ReceiverDoor door, std::string_view key, const EventMark& event = {}) {
        const MutexLock lock(mutex_);
        ++counts_.calls;
        const std::int64_t number = number_of(key);
        // By number, not by chance, and once: a 400 is permanent, so the message becomes a dead letter at its first
        // attempt, and is taken when it is sent back.
        if (number > 0 && number % faults_.refuses_every == 0 && refused_.emplace(key).second) {
            ++counts_.refused;
            return plain(400, R"({"error":"this one is not wanted"})");
        }
        // One draw for all faults: their shares add up, and a run with the same seed repeats itself.
        const double draw = random_.unit();
        if (draw < faults_.fails) {
            ++counts_.failed;
            return plain(500, R"({"error":"out of order"})");
        }
        if (draw < faults_.fails + faults_.limits) {
            ++counts_.limited;
            http::Response response = plain(429, R"({"error":"too many"})");
            response.headers.emplace_back("Retry-After", "1");
            return response;
        }
        const std::string id(key);
        // Only first attempts show the order in which the events were sent.
        if (door == ReceiverDoor::events && !taken_.contains(id) && !refused_.contains(id)) note_order(event);
        return take(door, key, draw < faults_.fails + faults_.limits + faults_.answers_late);
    }

private:
    static constexpr std::size_t kHandlerThreads = 16;  // late answers occupy one each
    static constexpr Duration kStopPatience = std::chrono::seconds(1);

    DemoReceiver(ReceiverFaults faults, std::uint64_t seed) : faults_(faults), random_(seed) {}

    static http::Response plain(int status, std::string body) {
        return {status, {}, "application/json", std::move(body)};
    }

    /// The number at the end of "memory-41" and "demo-order-000041"; of an event's id the digits that its last part
    /// begins with; 0 when there is none.
    static std::int64_t number_of(std::string_view key) {
        std::int64_t number = 0;
        const std::size_t dash = key.rfind('-');
        if (dash != std::string_view::npos) std::from_chars(key.data() + dash + 1, key.data() + key.size(), number);
        return number;
    }

    void note_order(const EventMark& event) REQUIRES(mutex_) {
        const auto* const found = std::ranges::find(kEventSteps, event.type);
        const auto step = static_cast<std::size_t>(found - kEventSteps.begin());
        std::size_t& last = last_step_[std::string(event.aggregate)];
        if (step < last) ++counts_.out_of_order;
        last = std::max(last, step);
    }

    /// A broker knows its keys: an order that comes again was processed, and it says so.
    http::Response take(ReceiverDoor door, std::string_view key, bool late) REQUIRES(mutex_) {
        static constexpr std::array kCountsOf{&ReceiverCounts::memories, &ReceiverCounts::orders,
                                              &ReceiverCounts::events};
        TakenCounts& counts = counts_.*kCountsOf.at(static_cast<std::size_t>(door));
        if (taken_.emplace(key).second) {
            ++counts.distinct;
        } else {
            ++counts.duplicates;
            if (door == ReceiverDoor::orders) {
                return plain(409, fmt::format(R"({{"code":"already_processed","idempotency_key":"{}"}})", key));
            }
        }
        if (late) {  // after it was taken: the sender gives up, and the message is ambiguous
            ++counts_.late;
            ends_.wait_for(mutex_, faults_.lateness, [this]() REQUIRES(mutex_) { return ending_; });
        }
        if (door == ReceiverDoor::events) return plain(204, "");
        if (door == ReceiverDoor::memories) return plain(200, fmt::format(R"({{"memory_id":"m-{}"}})", number_of(key)));
        return plain(200, fmt::format(R"({{"broker_order_id":"brk-{}","status":"accepted","idempotency_key":"{}"}})",
                                      number_of(key), key));
    }

    const ReceiverFaults faults_;
    mutable Mutex mutex_;
    Condition ends_;
    bool ending_ GUARDED_BY(mutex_) = false;
    SeededRandom random_ GUARDED_BY(mutex_);
    ReceiverCounts counts_ GUARDED_BY(mutex_);
    // These grow with the demo, by a few bytes per message.
    std::unordered_set<std::string> taken_ GUARDED_BY(mutex_);
    std::unordered_set<std::string> refused_ GUARDED_BY(mutex_);
    std::unordered_map<std::string, std::size_t> last_step_ GUARDED_BY(mutex_);  // by aggregate
    std::unique_ptr<http::Server> server_;
};

}  // namespace deliverd::demo
