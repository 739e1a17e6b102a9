// The four stages of a lane, without threads: each step() does what can be done now, never waits for another stage, and
// answers when it wants to be called again if nothing pokes it; an instant that is over means at once. Lane (lane.h)
// gives each a thread. The simulator calls them in any order it likes: it interleaves the stages of several workers
// with crashes, lost answers, slow calls, pauses and clock jumps, from one seed that replays exactly.
//
// Each stage is used by one thread at a time. A step blocks for as long as one database call may.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "base/random.h"
#include "lane/dedup_gate.h"
#include "lane/lane_options.h"
#include "lane/lease_book.h"
#include "lane/poll_pacer.h"
#include "pipeline/control.h"
#include "pipeline/pacing.h"
#include "pipeline/reporter.h"
#include "pipeline/send_limit.h"
#include "pipeline/settle_queue.h"
#include "store/row_queue.h"

namespace deliverd::lane {

using pipeline::kLongestNap;
using pipeline::LaneTotals;
using pipeline::Observer;
using pipeline::Reason;

/// What the stages of one lane share: its ports, its bounded queues and its counts.
struct Shared {
    static constexpr std::size_t kMostNotes = 10'000;  // for outbox_audit; further ones are only counted and logged

    Shared(LaneOptions lane_options, store::RowQueue& lane_outbox, sink::Sink& lane_sink, const Clock& lane_clock,
           Observer& observer, Log& log, pipeline::Control& lane_control)
        : options(std::move(lane_options)),
          outbox(lane_outbox),
          sink(lane_sink),
          clock(lane_clock),
          control(lane_control),
          reporter(options.name, observer, log),
          limit(options.throttle, options.retry_after_cap, reporter),
          book(options.lease),
          claimed(2 * static_cast<std::size_t>(options.batch_size)),
          settling(2 * static_cast<std::size_t>(options.batch_size)),
          notes(kMostNotes) {}

    const LaneOptions options;
    store::RowQueue& outbox;
    sink::Sink& sink;
    const Clock& clock;
    pipeline::Control& control;
    pipeline::Reporter reporter;
    pipeline::SendLimit limit;  // the sender's; the fetcher reads the pause

    LeaseBook book;
    BoundedQueue<store::Claimed> claimed;      // fetch → send
    BoundedQueue<store::Settlement> settling;  // send → settle
    BoundedQueue<store::AuditNote> notes;      // send and settle → settle

    std::atomic<bool> settles_refused{false};  // the last settle that was answered was refused permanently
    std::atomic<std::size_t> at_sink{0};

    [[nodiscard]] Observer& observer() const { return reporter.observer(); }

    /// Rows held at once, at most.
    [[nodiscard]] std::size_t held_limit() const {
        return 4 * static_cast<std::size_t>(options.batch_size) + static_cast<std::size_t>(options.parallelism);
    }

    /// Someone else has the row, or it is gone: counted, and noted once.
    void conflict(const store::Settlement& settlement, std::string found) {
        reporter.conflict();
        note(settlement, Reason::conflict, std::move(found));
    }
    void note(const store::Settlement& settlement, Reason reason, std::string detail) {
        store::AuditNote note{settlement.id, std::string(pipeline::to_string(reason)), std::move(detail),
                              settlement.failures_before};
        notes.try_push(note);
    }
    /// The lane is done with this copy of a row. `ended`: a newer copy with the same count has ended too; otherwise
    /// that one is sent next.
    void forget(const store::Settlement& settlement, bool ended) {
        const auto ended_failures = ended ? std::optional(settlement.failures_before) : std::nullopt;
        if (book.end(settlement.id, ended_failures, clock.now())) control.signals.keep.poke();
    }
};

/// Claims a batch whenever there is room for one and the lane does not pause.
class FetchStage {
public:
    FetchStage(Shared& shared, std::uint64_t seed);
    Instant step();

private:
    [[nodiscard]] std::size_t room() const;
    void take(store::ClaimBatch batch, Instant began);

    Shared& shared_;
    SeededRandom random_;
    PollPacer pacer_;
    Instant last_claim_{};
    pipeline::ByteBudget budget_;
};

/// Hands rows to the sink, `parallelism` at a time and as the throttle allows, and turns outcomes into settlements.
class SendStage {
public:
    /// Before anything is sent again after an outcome that was not attempted: what is wrong is wrong for all. Such an
    /// attempt is not counted: each message of a long outage would die of it.
    static constexpr Duration kPauseWhenNotAttempted = std::chrono::seconds(5);

    SendStage(Shared& shared, std::uint64_t seed);
    Instant step();

    /// Nothing at the sink, no outcome unread, no settlement kept back.
    [[nodiscard]] bool drained() const;
    /// Leaves what is still under way or could not be handed over to its lease. When step() is over.
    void abandon();
    /// Rows that were claimed and will not be sent: for giving back. After draining, when step() is over.
    std::vector<std::int64_t> take_unsent();

private:
    struct UnderWay {
        store::Claimed row;
        Instant began;
    };

    [[nodiscard]] Instant wake_at(Instant now) const;
    std::size_t read_answers();
    void finish(const pipeline::Answer& answer, UnderWay& under_way);
    void follow(const std::string& dedup_key, bool delivered, const std::optional<std::string>& receipt);
    bool hand_over();
    std::size_t send_more(Instant now);
    bool admit(store::Claimed& row, Instant now, bool leads);

    Shared& shared_;
    SeededRandom random_;
    DedupGate gate_;
    pipeline::QueueDepth depth_{"claimed"};
    std::unordered_map<std::int64_t, UnderWay> under_way_;
    std::deque<store::Settlement> ready_;  // settlements the queue had no room for yet
    std::deque<store::Claimed> leading_;   // followers whose leader failed, and what was put off: next to be sent
    std::deque<store::Claimed> stale_;     // waiting for their lease to be renewed
    std::vector<std::int64_t> unsent_;     // handed to the sink, but stopped before they went out
    std::vector<pipeline::Answer> answers_;
    std::vector<const Message*> batch_;
};

/// Records settlements in batches (settle_queue.h): when one is full, has waited long enough, or nothing else is under
/// way. What the database does not take for `settle_patience` is left to its lease.
class SettleStage {
public:
    SettleStage(Shared& shared, std::uint64_t seed);
    Instant step();

    /// Nothing queued, nothing kept.
    [[nodiscard]] bool drained() const { return queue_.size() == 0 && shared_.settling.size() == 0; }
    /// Leaves whatever could not be recorded to its lease, after one last try to write the notes.
    void abandon();

private:
    using Queue = pipeline::SettleQueue<store::Settlement>;

    bool take_queued(Instant now);
    void flush(Instant now, const std::vector<store::Settlement>& settlements);
    void record(Queue::Item& item, const store::SettleAnswer& answer, Instant now);
    void leave_to_lease(const std::vector<Queue::Item>& items);
    [[nodiscard]] bool has_notes() const { return !notes_.empty() || shared_.notes.size() > 0; }
    void write_notes(Instant now);

    Shared& shared_;
    SeededRandom random_;
    pipeline::QueueDepth depth_{"settling"};
    Queue queue_;
    std::vector<store::Settlement> popped_;
    std::vector<store::AuditNote> notes_;  // taken from the queue, not written yet
    Instant next_notes_{};
};

/// Renews what has been held for a third of its lease, and frees what others left stuck, where the lane does that:
/// with the first step and then each `rescue_interval`. The lease protocol's own loop renews before and after each
/// send; going by age protects as well (no send begins on a lease older than two thirds) without two round trips per
/// message.
class RenewStage {
public:
    explicit RenewStage(Shared& shared) : shared_(shared) {}
    Instant step();

private:
    Instant renew();
    void rescue();

    Shared& shared_;
    Instant next_try_{};
    bool renewals_fail_ = false;
    Instant next_rescue_{};
};

}  // namespace deliverd::lane
