// The four stages of a lane, without threads: each step() does what can be done now and never waits for
// another stage. Lane (lane.h) gives each a thread; the simulator calls them in any order it likes.
//
// Each stage is used by one thread at a time. A step blocks for as long as one database call may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "lane/dedup_gate.h"
#include "lane/poll_pacer.h"
#include "lane/shared.h"
#include "pipeline/log_limiter.h"
#include "pipeline/queue_depth.h"
#include "pipeline/throttle.h"

namespace deliverd::lane {

/// Claims a batch whenever there is room for one and the lane does not pause.
class FetchStage {
public:
    static constexpr Duration kClaimIntervalWhileRefused = std::chrono::seconds(5);

    FetchStage(Shared& shared, std::uint64_t seed);
    Step step();

private:
    [[nodiscard]] std::size_t room() const;
    [[nodiscard]] Instant refused_until() const;
    void take(store::ClaimBatch batch, Instant began);

    Shared& shared_;
    SeededRandom random_;
    PollPacer pacer_;
    Instant last_claim_{};
    std::size_t typical_bytes_ = 0;  // of a row, rather too large than too small
};

/// Hands rows to the sink, `parallelism` at a time and as the throttle allows, and turns outcomes into settlements.
class SendStage {
public:
    /// Before anything is sent again after an outcome that was not attempted: what is wrong is wrong for all.
    static constexpr Duration kPauseWhenNotAttempted = std::chrono::seconds(5);

    SendStage(Shared& shared, std::uint64_t seed);
    Step step();

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
    [[nodiscard]] std::size_t most_under_way(Instant now) const;
    std::size_t read_answers();
    void adjust_rate(const Outcome& outcome, Instant began);
    void finish(const pipeline::Answer& answer, UnderWay& under_way);
    void put_off(store::Claimed row, const Outcome& outcome);
    void log_failure(const Message& message, const Outcome& outcome, const store::Settlement& settlement);
    void follow(const std::string& dedup_key, bool delivered, const std::optional<std::string>& receipt);
    bool hand_over();
    std::size_t send_more(Instant now);
    bool admit(store::Claimed& row, Instant now, bool leads);
    void queue_settlement(store::Settlement settlement, bool lost_before_send = false);

    Shared& shared_;
    SeededRandom random_;
    DedupGate gate_;
    std::optional<pipeline::Throttle> throttle_;  // where the lane has one
    Instant put_off_until_{};
    pipeline::LogLimiter failure_lines_;
    pipeline::RepeatLimiter put_off_lines_;
    pipeline::QueueDepth depth_{"claimed"};
    std::unordered_map<std::int64_t, UnderWay> under_way_;
    std::deque<SettleItem> ready_;        // settlements the queue had no room for yet
    std::deque<store::Claimed> leading_;  // followers whose leader failed, and what was put off: next to be sent
    std::deque<store::Claimed> stale_;    // waiting for their lease to be renewed
    std::vector<std::int64_t> unsent_;    // handed to the sink, but stopped before they went out
    std::vector<store::Claimed> popped_;
    std::vector<pipeline::Answer> answers_;
    std::vector<const Message*> batch_;
};

/// Records settlements in batches: when one is full, has waited long enough, or nothing else is under way.
///
/// What the database does not take is kept and tried again for `settle_patience`, then left to its lease:
///   - the call failed: the whole batch, after a growing wait;
///   - the call was refused for good: its rows one by one, so that the others pass; the refused ones are held back;
///   - a row was locked by someone at that moment: it is held back.
class SettleStage {
public:
    SettleStage(Shared& shared, std::uint64_t seed);
    Step step();

    /// Nothing queued, nothing kept.
    [[nodiscard]] bool drained() const { return batch_.empty() && held_back_.empty() && shared_.settling.size() == 0; }
    /// Leaves whatever could not be recorded to its lease, after one last try to write the notes.
    void abandon();

private:
    [[nodiscard]] bool worth_flushing(Instant now) const;
    [[nodiscard]] std::size_t rows_to_flush() const { return one_by_one_ > 0 ? 1 : batch_.size(); }
    [[nodiscard]] Instant wake_at(Instant now) const;
    void take_back(Instant now);
    void flush(Instant now);
    void record(const std::vector<store::SettleAnswer>& answers, std::size_t rows, Instant now);
    void count(const store::Settlement& settlement);
    void conflict(const SettleItem& item, std::string found);
    void on_failure(const Error& error, std::size_t rows, Instant now);
    void hold_back(SettleItem item, Instant now);
    void leave_to_lease(std::span<const SettleItem> items);
    void forget(const store::Settlement& settlement, bool ended);
    void drop_from_batch(std::size_t rows);
    Duration wait_after(std::int32_t tries);
    void note(const SettleItem& item, Reason reason, std::string detail);
    void write_notes(Instant now);

    Shared& shared_;
    SeededRandom random_;
    pipeline::QueueDepth depth_{"settling"};
    std::vector<SettleItem> batch_;
    std::deque<SettleItem> held_back_;  // about in order of retry_at
    std::size_t one_by_one_ = 0;        // rows at the front of the batch to be settled singly
    std::int32_t failed_calls_ = 0;     // in a row
    Instant next_try_{};
    std::vector<store::AuditNote> notes_;  // to be written as soon as the database answers
    Instant next_notes_{};
};

/// Renews what has been held for a third of its lease, and frees what others left stuck, where the lane does that:
/// with the first step and then each `rescue_interval`.
class RenewStage {
public:
    explicit RenewStage(Shared& shared) : shared_(shared) {}
    Step step();

private:
    [[nodiscard]] Duration retry_wait() const;
    Step renew();
    void rescue();

    Shared& shared_;
    Instant next_try_{};
    bool renewals_fail_ = false;
    Instant next_rescue_{};
};

}  // namespace deliverd::lane
