// Everything a relay decides, without threads and without I/O: what to ask the database, what to hand to the sink, what
// to record, and what the answers mean. Relay (relay.h) carries its wishes to the ports; the simulator does too.
//
// Four conversations, each one call after the other, the four of them at the same time:
//
//     tend      next_tend() … tended()                                  shards (shard_keeper.h)
//     release   begin_release() … end_release()                        (by the one who tends)
//     look      begin_look() … end_look()                               where and when (look_planner.h, horizon.h)
//     send      send() … outcomes()                                     the order (order_book.h)
//     settle    begin_settle() … end_settle()                           batches and repeats (settle_queue.h)
//
// What each answer may be used for is bound to the shards' tokens as they were when the question was asked: a row read
// under a token that is over is not taken, an outcome of a row of it is not recorded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "pipeline/inbox.h"
#include "pipeline/log_limiter.h"
#include "pipeline/observer.h"
#include "pipeline/queue_depth.h"
#include "pipeline/runner.h"
#include "pipeline/throttle.h"
#include "relay/destinations.h"
#include "relay/horizon.h"
#include "relay/look_planner.h"
#include "relay/order_book.h"
#include "relay/relay_options.h"
#include "relay/settle_queue.h"
#include "relay/shard_keeper.h"

namespace deliverd::relay {

using pipeline::Answer;

/// One thread at a time. Instants never go back.
class RelayCore {
public:
    static constexpr std::size_t kMostFollowed = 64;  // aggregates a look
    static constexpr std::size_t kMostGaps = 50'000;  // then looks go forward no more until some are closed
    static constexpr Duration kPauseWhenNotAttempted = std::chrono::seconds(1);  // unless the sink names a time
    static constexpr Duration kLookIntervalWhileRefused = std::chrono::seconds(5);
    static constexpr Duration kDueSlack = std::chrono::milliseconds(2);

    RelayCore(const RelayOptions& options, std::uint64_t seed, pipeline::Observer& observer, Log& log);

    // --- shards ----------------------------------------------------------------------------------------------------
    [[nodiscard]] Instant next_tend() const { return keeper_.next_tend(); }
    void tended(Instant began, Instant now, const Result<store::ShardShare>& answer);
    /// Shards to be given back of which nothing is under way; end_release() must follow if there are any.
    [[nodiscard]] std::vector<store::ShardLease> begin_release();
    /// Whatever it answered: if they are still this relay's, a tend will say so.
    void end_release(Instant now, std::span<const store::ShardLease> leases, const Result<void>& answer);

    // --- looks -----------------------------------------------------------------------------------------------------
    /// None when there is nothing to ask, or no time or room for it yet.
    [[nodiscard]] std::optional<store::EventRead> begin_look(Instant now);
    [[nodiscard]] bool can_look(Instant now) const;
    /// When to try again if nobody wakes the reader.
    [[nodiscard]] Instant next_look(Instant now) const;
    void end_look(Instant began, Instant now, Result<store::EventBatch> answer);
    /// A writer committed something, or it is time to make sure.
    void wake(Instant now) { planner_.wake(now); }
    [[nodiscard]] bool quiet() const { return planner_.quiet(); }
    /// Writers notify it from now on (store::EventOutbox::set_asleep took effect).
    void fell_asleep(Instant now) { planner_.fell_asleep(now); }

    // --- sends -----------------------------------------------------------------------------------------------------
    /// What goes to the sink now. The messages stay where they are until their outcome was passed to outcomes().
    void send(Instant now, std::vector<const Message*>& batch);
    [[nodiscard]] Instant next_send(Instant now) const;
    void outcomes(Instant now, std::span<Answer> answers);

    // --- settlements -----------------------------------------------------------------------------------------------
    /// Empty when it is not time. end_settle() must follow if it is not; valid until then.
    [[nodiscard]] std::span<const store::EventSettlement> begin_settle(Instant now);
    [[nodiscard]] bool settle_due(Instant now) const { return settles_.due(now, draining_ || nothing_to_wait_for()); }
    [[nodiscard]] Instant next_settle(Instant now) const;
    void end_settle(Instant now, const Result<std::vector<store::EventSettled>>& answer);

    // --- the end ---------------------------------------------------------------------------------------------------
    /// From here on: nothing is read, nothing is sent.
    void drain() { draining_ = true; }
    /// The sink is being stopped: an ambiguous end is our own doing, and not recorded.
    void cut_off() { cut_off_ = true; }
    /// Everything that is not recorded is abandoned, everything that was not sent is released.
    void abandon();
    /// Only the look that comes next, for Runner::run_once; with strict_order the first for which anything is certain.
    void look_once() { looks_left_ = 1; }
    /// There is something to wait for before that look comes, or now it can.
    [[nodiscard]] bool look_left() const {
        return looks_left_.value_or(0) > 0 && horizon_ && (horizon_->waiting() || !horizon_->nothing());
    }

    [[nodiscard]] bool draining() const { return draining_; }
    [[nodiscard]] bool paused(Instant now) const { return now < paused_until_; }
    /// Whatever is in hand waits for the receiver.
    [[nodiscard]] bool only_waiting(Instant now) const {
        return paused(now) || (book_.at_sink() == 0 && settled_all() && !book_.anything_to_send());
    }
    [[nodiscard]] bool can_send() const { return !draining_ && book_.anything_to_send(); }
    [[nodiscard]] std::size_t at_sink() const { return book_.at_sink(); }
    [[nodiscard]] bool settled_all() const { return settles_.size() == 0; }
    [[nodiscard]] std::size_t unfinished() const { return book_.unfinished(); }
    [[nodiscard]] const pipeline::LaneTotals& totals() const { return totals_; }
    [[nodiscard]] const ShardKeeper& shards() const { return keeper_; }
    [[nodiscard]] const OrderBook& book() const { return book_; }
    /// Rows in hand never exceed this.
    [[nodiscard]] std::size_t most_rows() const;

    /// Counts, reports and logs a failed database call that concerned `rows` rows.
    void database_failed(Instant now, std::string_view operation, const Error& error, std::size_t rows);

private:
    [[nodiscard]] std::size_t in_hand_limit() const;
    [[nodiscard]] std::size_t room() const;
    [[nodiscard]] std::size_t rows_by_bytes() const;
    [[nodiscard]] std::size_t most_bytes(bool rows_come_again) const;
    [[nodiscard]] bool nothing_to_wait_for() const {
        return quiet() && book_.at_sink() == 0 && !book_.anything_to_send();
    }
    void drop_shards(std::span<const std::int32_t> lost);
    void distrust_look(std::int32_t shard);
    void ask_what_is_certain(store::EventRead& request);
    void learn_what_is_certain(Instant began, Instant now, const store::EventBatch& batch);
    [[nodiscard]] bool may_be_sent(const store::EventRow& row) const;
    bool believed(Instant began, Instant now, store::EventBatch& batch);
    void take(store::EventBatch& batch, LookPlanner::Found& found);
    bool take_forward(store::EventRow& row, bool trusted, LookPlanner::Found& found);
    OrderBook::Taken take_row(store::EventRow& row, bool trusted);
    void finish(Instant now, Held& held, Answer& answer);
    void put_back(Held& held);
    void put_off(Instant now, Held& held, const Outcome& outcome);
    void fail(Instant now, Held& held, const Outcome& outcome, const RetryPolicy& retry);
    void fail_untried(Instant now, Held& held);
    store::Settlement settle(Instant now, const Held& held, const Outcome& outcome, const RetryPolicy& retry);
    void resume(Instant now, std::size_t without_row);
    void adjust_rate(Instant now, const Outcome& outcome, Instant began);
    void log_failure(Instant now, const Message& message, const Outcome& outcome, const store::Settlement& settlement);
    void record(Instant now, const SettleItem& item, store::EventSettled answer);
    void count(const store::Settlement& settlement);
    void give_up(std::span<const SettleItem> items);
    void tell();

    const RelayOptions options_;
    SeededRandom random_;
    pipeline::Observer& observer_;
    Log& log_;
    ShardKeeper keeper_;
    LookPlanner planner_;
    std::optional<Horizon> horizon_;  // with strict_order
    OrderBook book_;
    Destinations destinations_;
    SettleQueue settles_;
    std::optional<pipeline::Throttle> throttle_;
    pipeline::LogLimiter failure_lines_;
    pipeline::LogLimiter database_lines_;
    pipeline::RepeatLimiter other_shards_lines_;
    pipeline::RepeatLimiter put_off_lines_;
    pipeline::LaneTotals totals_;
    pipeline::QueueDepth in_hand_depth_{"in_hand"};
    pipeline::QueueDepth settling_depth_{"settling"};

    // The look under way.
    std::vector<store::ShardLease> asked_;
    std::size_t asked_rows_ = 0;
    std::size_t asked_due_ = 0;
    std::size_t taken_ = 0;     // of its rows
    bool look_failed_ = false;  // the one before

    Instant last_look_{};
    Instant paused_until_{};
    std::size_t typical_bytes_ = 0;  // of a row, rather too large than too small
    std::optional<std::int32_t> looks_left_;
    bool draining_ = false;
    bool cut_off_ = false;
};

}  // namespace deliverd::relay
