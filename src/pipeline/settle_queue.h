// Settlements on their way into the table: collected into batches and repeated until the database has accepted them.
// Pure code over instants.
//
// A settle is repeated, not given up: each row that is recorded late is a row that is not sent twice. Repeating is
// safe, because a settlement takes effect only while the row is open with the same count. If a try ended ambiguously
// and the next one meets a conflict, the first one took effect, as far as anyone can know.
//
// What the database does not accept is tried again for `patience`, then given up:
//   - the call failed: the same batch, after a growing wait, so that an ambiguous try is answered before anything else;
//   - the call was refused permanently: its rows one by one, so that the others pass; the refused ones wait on their
//   own;
//   - the row is locked by someone: it waits with others like it and is tried with them, so that the rest passes.
//     With a waiting UPDATE, one row held by a psql session stopped the settle and the renewal of its whole batch, and
//     after the lease the others were sent twice. Skipping locked rows costs 15-20 % of the settle statement.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory_resource>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "deliverd/result.h"
#include "pipeline/pacing.h"

namespace deliverd::pipeline {

template <typename Settlement>
struct SettleItem {
    Settlement settlement;
    Instant queued_at;
    Instant first_try{};  // valid once tries > 0
    Instant retry_at{};   // while it waits on its own
    std::int32_t tries = 0;
    bool in_doubt = false;  // a try may have taken effect
};

struct SettleQueueOptions {
    std::size_t batch = 0;  // a settle begins as soon as this many wait
    std::size_t most = 0;   // in one settle
    Duration linger{};      // or the first one has waited this long
    Duration patience{};
    std::int32_t refusals = 1;  // in a row: refused() from then on
};

/// One thread at a time; one settle at a time.
template <typename Settlement>
class SettleQueue {
public:
    using Item = SettleItem<Settlement>;

    explicit SettleQueue(SettleQueueOptions options) : options_(options) {}

    void add(Settlement settlement, Instant now) { waiting_.push_back({std::move(settlement), now}); }
    /// Forgets those that match and are not under way; answers how many.
    template <typename Matches>
    std::size_t drop(Matches matches) {
        const auto dropped = [&](const Item& item) { return matches(item.settlement); };
        const auto among = [&](std::size_t first) {
            const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(first);
            return static_cast<std::size_t>(std::count_if(waiting_.begin(), end, dropped));
        };
        again_ -= among(again_);
        one_by_one_ -= among(one_by_one_);
        return std::erase_if(waiting_, dropped) + std::erase_if(alone_, dropped) + std::erase_if(locked_, dropped);
    }

    /// Is it time for a settle? `idle`: nothing else is under way that could fill the batch.
    [[nodiscard]] bool due(Instant now, bool idle) const {
        if (under_way() || now < next_try_) return false;
        if (has_come(alone_, now) || has_come(locked_, now)) return true;
        if (waiting_.empty()) return false;
        return idle || waiting_.size() >= options_.batch || again_ > 0 || one_by_one_ > 0 ||
               now - waiting_.front().queued_at >= options_.linger;
    }

    /// When it will be if nothing happens; Instant::max() when there is nothing.
    [[nodiscard]] Instant due_at() const {
        if (under_way()) return Instant::max();
        Instant at = alone_.empty() ? Instant::max() : alone_.front().retry_at;
        if (!locked_.empty()) at = std::min(at, locked_.front().retry_at);
        if (!waiting_.empty()) at = std::min(at, waiting_.front().queued_at + options_.linger);
        return at == Instant::max() ? at : std::max(at, next_try_);
    }

    /// The next batch; end() must follow. Empty when there is nothing to do now. Valid until then.
    [[nodiscard]] const std::vector<Settlement>& begin(Instant now) {
        ASSERT(!under_way());
        request_.clear();
        if (now < next_try_) return request_;
        take_batch(now);
        request_.reserve(batch_.size());
        for (Item& item : batch_) request_.push_back(std::move(item.settlement));
        return request_;
    }

    struct EndedBatch {
        std::vector<Item> answered;      // in the order of the answers
        std::vector<Item> given_up;      // their patience has ended
        std::vector<Settlement> failed;  // for the first time: copies, for `report_failures` only
    };
    /// The settle was answered, or failed with `error`.
    EndedBatch end(const Error* error, Instant now, Random& random, bool report_failures = false) {
        EndedBatch ended;
        std::vector<Item> batch = take_back();
        if (error == nullptr) {
            failed_calls_ = 0;
            refused_in_a_row_ = 0;
            ended.answered = std::move(batch);
            return ended;
        }
        ASSERT(!batch.empty());
        const bool refused = error->error_class == ErrorClass::permanent;
        const bool alone = refused && batch.size() == 1;
        const bool counts = alone || !refused;  // a refusal of several does not say which of them is at fault
        if (refused) {
            failed_calls_ = 0;  // it did answer
            ++refused_in_a_row_;
        } else {
            refused_in_a_row_ = 0;
            next_try_ = now + backoff(++failed_calls_, kFirstRetryWait, kLongestRetryWait, random);
        }
        for (Item& item : batch) {
            if (report_failures && counts && item.tries == 0) ended.failed.push_back(item.settlement);
            if (counts) count_try(item, now);
            item.in_doubt = item.in_doubt || error->error_class == ErrorClass::ambiguous;
        }
        if (counts && impatient(batch.front(), now)) {
            ended.given_up = std::move(batch);
        } else if (alone) {
            batch.front().retry_at = now + backoff(batch.front().tries, kFirstRetryWait, kLongestRetryWait, random);
            alone_.push_back(std::move(batch.front()));
        } else {
            waiting_.insert(waiting_.begin(), std::move_iterator(batch.begin()), std::move_iterator(batch.end()));
            if (refused_in_a_row_ > 0 || one_by_one_ > 0) {
                one_by_one_ += batch.size();
            } else {
                again_ = batch.size();
            }
        }
        return ended;
    }

    /// An answered one whose row is locked by someone: kept to be tried again. False when its patience has ended: it is
    /// still the caller's.
    [[nodiscard]] bool keep_locked(Item& item, Instant now, Random& random) {
        count_try(item, now);
        if (impatient(item, now)) return false;
        if constexpr (requires { item.settlement.met_lock; }) item.settlement.met_lock = true;
        item.retry_at = now + backoff(item.tries, kFirstRetryWait, kLongestLockWait, random);
        locked_.push_back(std::move(item));
        return true;
    }

    [[nodiscard]] bool under_way() const { return !batch_.empty(); }
    /// The last settles were all refused permanently, so the outcome of a send now could not be recorded.
    [[nodiscard]] bool refused() const { return refused_in_a_row_ >= options_.refusals; }
    /// Those that have not been tried, or are tried again as a batch.
    [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
    [[nodiscard]] std::size_t size() const { return waiting_.size() + alone_.size() + locked_.size() + batch_.size(); }
    /// Everything that is not recorded, for the end.
    std::vector<Item> take_all() {
        std::vector<Item> items = take_back();
        for (auto* list : {&alone_, &locked_}) {
            std::move(list->begin(), list->end(), std::back_inserter(items));
            list->clear();
        }
        std::move(waiting_.begin(), waiting_.end(), std::back_inserter(items));
        waiting_.clear();
        again_ = one_by_one_ = 0;
        return items;
    }

private:
    static constexpr Duration kFirstRetryWait = std::chrono::milliseconds(10);  // most locks are gone by then
    static constexpr Duration kLongestRetryWait = std::chrono::seconds(5);
    static constexpr Duration kLongestLockWait = std::chrono::seconds(1);

    static bool has_come(const std::deque<Item>& items, Instant now) {
        return !items.empty() && now >= items.front().retry_at;
    }
    static void count_try(Item& item, Instant now) {
        if (item.tries++ == 0) item.first_try = now;
    }
    [[nodiscard]] bool impatient(const Item& item, Instant now) const {
        return item.tries > 0 && now - item.first_try >= options_.patience;
    }

    void take_batch(Instant now) {
        ASSERT(again_ <= waiting_.size() && one_by_one_ <= waiting_.size());
        if (again_ == 0 && has_come(alone_, now)) {
            batch_.push_back(std::move(alone_.front()));
            alone_.pop_front();
            return;
        }
        while (again_ == 0 && has_come(locked_, now) && batch_.size() < options_.most) {
            batch_.push_back(std::move(locked_.front()));
            locked_.pop_front();
        }
        if (!batch_.empty()) return;
        const std::size_t most = one_by_one_ > 0 ? 1 : again_ > 0 ? again_ : options_.most;
        const std::size_t count = std::min(most, waiting_.size());
        const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
        batch_.assign(std::move_iterator(waiting_.begin()), std::move_iterator(end));
        waiting_.erase(waiting_.begin(), end);
        again_ -= std::min(again_, count);
        one_by_one_ -= std::min(one_by_one_, count);
    }

    /// The batch, with its settlements again.
    std::vector<Item> take_back() {
        ASSERT(request_.size() == batch_.size());
        for (std::size_t i = 0; i < request_.size(); ++i) batch_[i].settlement = std::move(request_[i]);
        request_.clear();
        return std::exchange(batch_, {});
    }

    const SettleQueueOptions options_;
    std::pmr::unsynchronized_pool_resource memory_;  // an item is a deque's whole block: no malloc for each
    std::pmr::deque<Item> waiting_{&memory_};
    std::deque<Item> alone_;   // refused: one by one, about in order of retry_at
    std::deque<Item> locked_;  // all whose time has come at once, about in order of retry_at
    std::vector<Item> batch_;  // under way; their settlements are in request_ until then
    std::vector<Settlement> request_;
    std::size_t again_ = 0;       // the first of waiting_, whose call failed: they go as they were
    std::size_t one_by_one_ = 0;  // the first of waiting_, whose call was refused
    std::int32_t failed_calls_ = 0;
    Instant next_try_{};
    std::int32_t refused_in_a_row_ = 0;
};

}  // namespace deliverd::pipeline
