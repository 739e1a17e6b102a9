// How sends ended, on the way into the table: gathered into batches, repeated until the database has taken them. Pure
// code over instants.
//
// Repeating is safe: a settlement takes effect only while the row is open with the same count. One whose try ended
// ambiguously and that is a conflict afterwards took effect the first time, as far as anyone can tell.
//
// What the database does not take is tried again for `patience`, then given up:
//   - the call failed: the same batch, after a growing wait, so that an ambiguous try is answered before anything else;
//   - the call was refused for good: its rows one by one, so that the others pass; the refused ones wait on their own;
//   - the row is locked by someone: it waits with others like it and is tried with them, so that the rest passes.
#pragma once

#include <cstddef>
#include <deque>
#include <memory_resource>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "deliverd/result.h"
#include "store/events.h"

namespace deliverd::relay {

struct SettleItem {
    store::EventSettlement settlement;
    Instant queued_at;
    Instant first_try{};  // valid once tries > 0
    Instant retry_at{};   // while it waits on its own
    std::int32_t tries = 0;
    bool in_doubt = false;  // a try may have taken effect
};

struct SettleQueueOptions {
    std::size_t batch = 0;  // a settle begins as soon as there are so many
    std::size_t most = 0;   // and never has more
    Duration linger{};      // or the first one has waited for so long
    Duration patience{};
};

/// One thread at a time; one settle at a time.
class SettleQueue {
public:
    static constexpr std::int32_t kRefusedInARow = 8;

    explicit SettleQueue(SettleQueueOptions options) : options_(options) {}

    void add(store::EventSettlement settlement, Instant now) { waiting_.push_back({std::move(settlement), now}); }
    /// Forgets what is not under way of a shard; answers how many.
    std::size_t drop_shard(std::int32_t shard);

    /// Is it time for a settle? `idle`: nothing else is under way that could fill the batch.
    [[nodiscard]] bool due(Instant now, bool idle) const;
    /// When it will be if nothing happens; Instant::max() when there is nothing.
    [[nodiscard]] Instant due_at() const;
    /// The next batch; end() must follow. Empty when there is nothing to do now. Valid until then.
    [[nodiscard]] const std::vector<store::EventSettlement>& begin(Instant now);

    struct Ended {
        std::vector<SettleItem> answered;  // in the order of the answers
        std::vector<SettleItem> given_up;
    };
    /// What a settle answered. `error` null: it was answered.
    Ended end(const Error* error, Instant now, Random& random);
    /// An answered one whose row is locked by someone: kept to be tried again. False when patience has ended: it is the
    /// caller's still.
    [[nodiscard]] bool keep_locked(SettleItem& item, Instant now, Random& random);

    [[nodiscard]] bool under_way() const { return !batch_.empty(); }
    /// The last settles were all refused for good: whatever is sent now is sent in vain.
    [[nodiscard]] bool refused() const { return refused_in_a_row_ >= kRefusedInARow; }
    [[nodiscard]] std::size_t size() const { return waiting_.size() + alone_.size() + locked_.size() + batch_.size(); }
    /// Everything that is not recorded, for the end.
    std::vector<SettleItem> take_all();

private:
    void take_batch(Instant now);
    void take_back();  // the settlements out of request_
    void try_again(Ended& ended, bool alone, Instant now, Random& random);

    const SettleQueueOptions options_;
    std::pmr::unsynchronized_pool_resource memory_;  // an item is a deque's whole block: no malloc for each
    std::pmr::deque<SettleItem> waiting_{&memory_};
    std::deque<SettleItem> alone_;   // refused: one by one, about in order of retry_at
    std::deque<SettleItem> locked_;  // all whose time has come at once, about in order of retry_at
    std::vector<SettleItem> batch_;  // under way; their settlements are in request_ until then
    std::vector<store::EventSettlement> request_;
    std::size_t again_ = 0;       // the first of waiting_, whose call failed: they go as they were
    std::size_t one_by_one_ = 0;  // the first of waiting_, whose call was refused
    std::int32_t failed_calls_ = 0;
    Instant next_try_{};
    std::int32_t refused_in_a_row_ = 0;
};

}  // namespace deliverd::relay
