// What the stages of one lane share: its ports, its bounded queues and its counts.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>

#include "base/bounded_queue.h"
#include "lane/lane.h"
#include "lane/lease_book.h"

namespace deliverd::lane {

/// Wakes one waiting thread. A poke that comes before the wait is not lost.
class Signal {
public:
    void poke();
    /// Until poked or `deadline`, whichever is first.
    void wait_until(std::chrono::steady_clock::time_point deadline);

private:
    std::atomic<bool> poked_{false};
    std::mutex mutex_;
    std::condition_variable condition_;
};

/// LaneTotals that several threads add to.
class Tally {
public:
    void add(std::uint64_t LaneTotals::* count, std::uint64_t amount);
    [[nodiscard]] LaneTotals read() const;

private:
    mutable std::mutex mutex_;
    LaneTotals totals_;
};

/// How a send ended, on its way from the sink's thread to the send stage.
struct Answer {
    std::int64_t id = 0;
    Outcome outcome;
    Instant at;
};

/// One line for the settle stage.
struct SettleItem {
    store::Settlement settlement;
    Instant queued_at;
    bool lost_before_send = false;  // someone else has the row: nothing to settle, only to note
    std::int32_t tries = 0;         // to record it, that failed
    Instant first_try{};            // valid once tries > 0
    bool in_doubt = false;          // one of them may have taken effect
    Instant retry_at{};             // while it is held back
    bool refused = false;           // for good: it goes alone, so that it cannot spoil a batch
};

/// What a stage's step did, and when it wants to be called again if nobody pokes it.
struct Step {
    bool progressed = false;
    Instant wake_at;
};

/// No stage waits longer than this, so that a lost poke costs a moment and not a standstill.
inline constexpr Duration kLongestNap = std::chrono::seconds(1);

struct Shared {
    Shared(LaneOptions lane_options, store::Outbox& lane_outbox, sink::Sink& lane_sink, const Clock& lane_clock,
           Observer& lane_observer, Log& lane_log);

    const LaneOptions options;
    store::Outbox& outbox;
    sink::Sink& sink;
    const Clock& clock;
    Observer& observer;
    Log& log;

    LeaseBook book;
    BoundedQueue<store::Claimed> claimed;  // fetch → send
    BoundedQueue<Answer> answers;          // sink → send; never full: at most `parallelism` are under way
    BoundedQueue<SettleItem> settling;     // send → settle
    Tally tally;

    Signal fetch_signal;
    Signal send_signal;
    Signal settle_signal;
    Signal renew_signal;

    std::atomic<bool> draining{false};         // claim and send nothing more
    std::atomic<bool> sends_ended{false};      // the send stage has seen that: nothing more goes to the sink
    std::atomic<bool> cut_off{false};          // the sink is being stopped: an ambiguous end is our own doing
    std::atomic<bool> settles_refused{false};  // the database refused the last settle for good
    std::atomic<std::size_t> at_sink{0};
    std::atomic<Duration> paused_until{};  // nothing is sent or claimed before; since an Instant's epoch

    [[nodiscard]] bool paused(Instant now) const { return now < Instant(paused_until.load()); }

    /// Rows held at once: a batch being sent, one waiting, one being settled.
    [[nodiscard]] std::size_t held_limit() const;

    /// Runs `call` (a method of the outbox), tells the observer how long it took and whether it worked.
    template <typename Call>
    auto timed(std::string_view operation, Call&& call) {
        const Instant began = clock.now();
        auto answer = call();
        observer.on_database_call(operation, clock.now() - began, answer.has_value());
        return answer;
    }

    /// Counts, reports and logs a failed database call that concerned `rows` rows.
    void database_failed(std::string_view operation, const Error& error, std::size_t rows);
};

}  // namespace deliverd::lane
