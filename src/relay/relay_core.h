// Everything a relay decides, without threads and without I/O: what to ask the database, what to hand to the sink, what
// to record, and what the answers mean. Relay (relay.h) carries its requests to the ports; so does the simulator.
//
// Four conversations go on at the same time, each with one call after the other:
//
//     tend      next_tend() … tended()                                  shards (shard_keeper.h)
//     release   begin_release() … end_release()                        (by the thread that tends)
//     poll      begin_poll() … end_poll()                               where and when (poll_planner.h, horizon.h)
//     send      send() … outcomes()                                     the order (order_book.h)
//     settle    begin_settle() … end_settle()                           batches and repeats (pipeline/settle_queue.h)
//
// An answer counts only for the shards' tokens as they were when the question was asked: a row that was read under a
// token that is over is not taken, and the outcome of such a row is not recorded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "pipeline/control.h"
#include "pipeline/destinations.h"
#include "pipeline/pacing.h"
#include "pipeline/reporter.h"
#include "pipeline/send_limit.h"
#include "pipeline/settle_queue.h"
#include "relay/horizon.h"
#include "relay/order_book.h"
#include "relay/poll_planner.h"
#include "relay/relay_options.h"
#include "relay/shard_keeper.h"

namespace deliverd::relay {

using pipeline::Answer;
using pipeline::Destinations;

/// One thread at a time. Instants never go back.
class RelayCore {
public:
    static constexpr std::size_t kMostFollowed = 64;  // aggregates per poll
    static constexpr std::size_t kMostGaps = 50'000;  // then polls bring no forward rows until some are closed
    static constexpr Duration kPauseWhenNotAttempted = std::chrono::seconds(1);  // unless the sink names a time
    static constexpr Duration kDueSlack = std::chrono::milliseconds(2);

    RelayCore(const RelayOptions& options, std::uint64_t seed, pipeline::Observer& observer, Log& log);

    // --- shards ----------------------------------------------------------------------------------------------------
    [[nodiscard]] Instant next_tend() const { return keeper_.next_tend(); }
    void tended(Instant began, Instant now, const Result<store::ShardShare>& answer);
    /// Leaving shards of which nothing is under way; end_release() must follow if there are any.
    [[nodiscard]] std::vector<store::ShardLease> begin_release();
    /// Whatever the answer is: if they are still this relay's, a tend will show it.
    void end_release(Instant now, std::span<const store::ShardLease> leases, const Result<void>& answer);

    // --- polls -----------------------------------------------------------------------------------------------------
    /// None when there is nothing to ask, when it is not time yet, or when there is no room.
    [[nodiscard]] std::optional<store::EventRead> begin_poll(Instant now);
    [[nodiscard]] bool can_poll(Instant now) const;
    /// When to try again if nothing wakes the reader.
    [[nodiscard]] Instant next_poll(Instant now) const;
    void end_poll(Instant began, Instant now, Result<store::EventBatch> answer);
    /// A writer committed something.
    void wake(Instant now) { planner_.wake(now); }
    [[nodiscard]] bool quiet() const { return planner_.quiet(); }
    /// Writers notify this relay from now on (store::EventOutbox::set_asleep took effect).
    void fell_asleep(Instant now) { planner_.fell_asleep(now); }

    // --- sends -----------------------------------------------------------------------------------------------------
    /// What goes to the sink now. The messages keep their addresses until their outcome was passed to outcomes().
    void send(Instant now, std::vector<const Message*>& batch);
    [[nodiscard]] Instant next_send(Instant now) const;
    void outcomes(Instant now, std::span<Answer> answers);

    // --- settlements -----------------------------------------------------------------------------------------------
    /// Empty when it is not time. Otherwise end_settle() must follow; valid until then.
    [[nodiscard]] std::span<const store::EventSettlement> begin_settle(Instant now);
    [[nodiscard]] bool settle_due(Instant now) const { return settles_.due(now, draining_ || nothing_to_wait_for()); }
    [[nodiscard]] Instant next_settle(Instant now) const;
    void end_settle(Instant now, const Result<std::vector<store::EventSettled>>& answer);

    // --- the end ---------------------------------------------------------------------------------------------------
    /// Reads and sends nothing more.
    void drain() { draining_ = true; }
    /// The sink is being stopped: an ambiguous outcome is our own doing, and not recorded.
    void cut_off() { cut_off_ = true; }
    /// Counts what is not recorded as abandoned and what was not sent as released.
    void abandon();
    /// Makes only one more poll, for Engine::run_once; with strict_order the first for which anything is certain.
    void poll_once() { polls_left_ = 1; }
    /// That poll is still to come, and there is something to wait for.
    [[nodiscard]] bool poll_left() const {
        return polls_left_.value_or(0) > 0 && horizon_ && (horizon_->waiting() || !horizon_->nothing());
    }

    [[nodiscard]] bool draining() const { return draining_; }
    [[nodiscard]] bool paused(Instant now) const { return limit_.paused(now); }
    /// All that is in hand waits for the receiver.
    [[nodiscard]] bool only_waiting(Instant now) const {
        return limit_.paused(now) || (book_.at_sink() == 0 && settled_all() && !book_.anything_to_send());
    }
    [[nodiscard]] bool can_send() const { return !draining_ && book_.anything_to_send(); }
    [[nodiscard]] std::size_t at_sink() const { return book_.at_sink(); }
    [[nodiscard]] bool settled_all() const { return settles_.size() == 0; }
    [[nodiscard]] std::size_t unfinished() const { return book_.unfinished(); }
    [[nodiscard]] pipeline::LaneTotals totals() const { return reporter_.totals(); }
    /// Thread-safe, unlike the rest.
    [[nodiscard]] pipeline::Reporter& reporter() { return reporter_; }
    [[nodiscard]] const ShardKeeper& shards() const { return keeper_; }
    [[nodiscard]] const OrderBook& book() const { return book_; }
    /// Bound of the rows in hand.
    [[nodiscard]] std::size_t most_rows() const;

private:
    [[nodiscard]] std::size_t in_hand_limit() const;
    [[nodiscard]] std::optional<Instant> poll_due_at(Instant now) const;
    [[nodiscard]] std::size_t room() const;
    [[nodiscard]] std::size_t most_bytes(bool rows_come_again) const;
    [[nodiscard]] bool nothing_to_wait_for() const {
        return quiet() && book_.at_sink() == 0 && !book_.anything_to_send();
    }
    void drop_shards(std::span<const std::int32_t> lost);
    void ask_what_is_certain(store::EventRead& request);
    void learn_what_is_certain(Instant began, Instant now, const store::EventBatch& batch);
    [[nodiscard]] bool may_be_sent(const store::EventRow& row) const;
    bool believed(Instant began, Instant now, store::EventBatch& batch);
    void take(store::EventBatch& batch, PollPlanner::PollResult& found);
    void take_forward(store::EventRow& row, bool trusted, PollPlanner::PollResult& found);
    OrderBook::TakeResult take_row(store::EventRow& row, bool trusted);
    void finish(Instant now, Held& held, Answer& answer);
    void put_back(Held& held);
    void put_off(Instant now, Held& held, const Outcome& outcome);
    void fail(Instant now, Held& held, const Outcome& outcome, const RetryPolicy& retry);
    void fail_untried(Instant now, Held& held);
    store::Settlement settle(Instant now, const Held& held, const Outcome& outcome, const RetryPolicy& retry);
    void resume(Instant now, std::size_t without_row);
    using Settles = pipeline::SettleQueue<store::EventSettlement>;
    void record(Instant now, const Settles::Item& item, store::EventSettled answer);
    void give_up(std::span<const Settles::Item> items);
    void report();

    const RelayOptions options_;
    SeededRandom random_;
    pipeline::Reporter reporter_;
    pipeline::SendLimit limit_;
    ShardKeeper keeper_;
    PollPlanner planner_;
    std::optional<Horizon> horizon_;  // with strict_order
    OrderBook book_;
    Destinations destinations_;
    Settles settles_;
    pipeline::ByteBudget budget_;
    pipeline::QueueDepth in_hand_depth_{"in_hand"};
    pipeline::QueueDepth settling_depth_{"settling"};

    // The poll under way.
    std::vector<store::ShardLease> asked_;
    std::size_t asked_rows_ = 0;
    std::size_t asked_due_ = 0;
    std::size_t taken_ = 0;     // of its rows
    bool poll_failed_ = false;  // the one before

    Instant last_poll_{};
    std::optional<std::int32_t> polls_left_;
    bool draining_ = false;
    bool cut_off_ = false;
};

}  // namespace deliverd::relay
