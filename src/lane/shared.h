// What the stages of one lane share: its ports, its bounded queues and its counts.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>

#include "base/bounded_queue.h"
#include "base/log.h"
#include "lane/lane_options.h"
#include "lane/lease_book.h"
#include "pipeline/inbox.h"
#include "pipeline/observer.h"
#include "pipeline/runner.h"
#include "pipeline/signal.h"
#include "sink/sink.h"
#include "store/outbox.h"

namespace deliverd::lane {

using pipeline::kLongestNap;
using pipeline::LaneTotals;
using pipeline::Observer;
using pipeline::Reason;

/// LaneTotals that several threads add to.
class Tally {
public:
    void add(std::uint64_t LaneTotals::* count, std::uint64_t amount);
    [[nodiscard]] LaneTotals read() const;

private:
    mutable std::mutex mutex_;
    LaneTotals totals_;
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

struct Shared {
    Shared(LaneOptions lane_options, store::Outbox& lane_outbox, sink::Sink& lane_sink, const Clock& lane_clock,
           Observer& lane_observer, Log& lane_log, pipeline::Signals& lane_signals);

    const LaneOptions options;
    store::Outbox& outbox;
    sink::Sink& sink;
    const Clock& clock;
    Observer& observer;
    Log& log;

    LeaseBook book;
    BoundedQueue<store::Claimed> claimed;  // fetch → send
    BoundedQueue<SettleItem> settling;     // send → settle
    Tally tally;

    pipeline::Signals& signals;
    pipeline::Inbox inbox;  // sink → send

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
        return pipeline::timed(clock, observer, operation, std::forward<Call>(call));
    }

    /// Counts, reports and logs a failed database call that concerned `rows` rows.
    void database_failed(std::string_view operation, const Error& error, std::size_t rows);
};

}  // namespace deliverd::lane
