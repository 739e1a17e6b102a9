// The demo's receiver: takes memories and orders over HTTP, and misbehaves as receivers do.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
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
    static Result<std::unique_ptr<DemoReceiver>> start(ReceiverFaults faults, std::uint64_t seed);
    ~DemoReceiver() { stop(); }

    /// Without a path: "http://127.0.0.1:43211".
    [[nodiscard]] std::string address() const;
    [[nodiscard]] ReceiverCounts counts() const {
        const MutexLock lock(mutex_);
        return counts_;
    }

    /// Ends late answers at once, then the server.
    void stop();

    /// What a call is answered; public for the test. `key` is the Idempotency-Key.
    http::Response answer(ReceiverDoor door, std::string_view key, const EventMark& event = {});

private:
    DemoReceiver(ReceiverFaults faults, std::uint64_t seed) : faults_(faults), random_(seed) {}
    http::Response take(ReceiverDoor door, std::string_view key, bool late) REQUIRES(mutex_);
    void note_order(const EventMark& event) REQUIRES(mutex_);

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
