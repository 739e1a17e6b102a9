#include "relay/order_book.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace deliverd::relay {

using store::EventOrigin;
using store::EventRow;
using store::RowId;

namespace {

/// Where the rows behind this one are asked for. Ids that are uuids have no order: there, from the beginning.
std::optional<RowId> behind(const EventRow& row) {
    return row.sequence > 0 ? std::optional(row.row_id) : std::nullopt;
}

}  // namespace

// --- polls ---------------------------------------------------------------------------------------------------------

std::vector<store::EventFollow> OrderBook::begin_poll(std::size_t most) {
    ASSERT(!polling_);
    polling_ = true;
    std::vector<store::EventFollow> follow;
    while (follow.size() < most && !to_follow_.empty()) {
        Aggregate& aggregate = *to_follow_.front();
        to_follow_.pop_front();
        aggregate.to_follow = false;
        // Something may have happened since it was listed.
        if (!aggregate.gap || aggregate.aside || aggregate.tried_again > 0) {
            forget_if_idle(aggregate);
            continue;
        }
        aggregate.followed = true;
        aggregate.page_rows = 0;
        following_.push_back(&aggregate);
        follow.push_back({*aggregate.name, aggregate.after});
    }
    return follow;
}

OrderBook::TakeResult OrderBook::take(EventRow& row, store::ShardLease lease, bool trusted) {
    const auto found = aggregates_.find(row.message.key);
    Aggregate* known = found == aggregates_.end() ? nullptr : &found->second;
    const bool follows = row.origin == EventOrigin::follow;
    const bool failed_before = row.message.failures > 0;
    if (follows) {
        // Without the gap, rows between where this poll began to follow and this row may have been dropped.
        if (known == nullptr || !known->followed || !known->gap) return TakeResult::ignored;
        ++known->page_rows;
        known->page_last = row.row_id;
    }
    if (held_.contains(row.row_id)) return TakeResult::known;
    // Until the failure is recorded, nobody knows whether the database keeps this row back.
    if (known != nullptr && known->failing) return TakeResult::ignored;
    if (known != nullptr && known->aside) {
        const bool goes_first = failed_before && known->first != nullptr && row.sequence < known->first->row.sequence;
        if (!goes_first) return TakeResult::ignored;
        drop_queue(*known);  // the aggregate is followed behind this one
    }
    if (row.origin == EventOrigin::forward && !failed_before) {
        // It comes again with the pages, after all that lies before it.
        if (known != nullptr && known->gap) return TakeResult::ignored;
        // One of those that did not come may be an earlier row of this aggregate.
        if (!trusted && (known == nullptr || known->nothing_in_hand())) {
            open_gap(aggregate_of(row), std::nullopt);
            return TakeResult::ignored;
        }
        if (known != nullptr && known->queued >= limits_.of_one_aggregate) {
            open_gap(*known, behind(known->last->row));
            return TakeResult::ignored;
        }
    }
    Aggregate& aggregate = aggregate_of(row);
    Held& held = held_.try_emplace(row.row_id).first->second;
    held.row = std::move(row);
    held.lease = lease;
    held.bytes = bytes_in_memory(held.row.message);
    held.aggregate = &aggregate;
    bytes_ += held.bytes;
    insert(aggregate, held);
    if (failed_before) {
        ++failed_before_;
        // Of several, any may come last: nobody knows yet behind which to follow.
        open_gap(aggregate, ++aggregate.tried_again == 1 ? behind(held.row) : std::nullopt);
    }
    return TakeResult::taken;
}

void OrderBook::end_poll(bool ok) {
    ASSERT(polling_);
    polling_ = false;
    for (Aggregate* aggregate : std::exchange(following_, {})) {
        aggregate->followed = false;
        if (ok) {
            followed(*aggregate);
        } else {
            want_follow(*aggregate);
        }
        forget_if_idle(*aggregate);
    }
    for (Held* held : std::exchange(fading_, {})) erase(*held);
    for (const Resolution& resolution : std::exchange(resolutions_, {})) {
        resolve(*resolution.aggregate, resolution.recorded);
    }
}

/// Behind a row that is tried again the page may end early: what comes after it is asked for when that is recorded.
void OrderBook::followed(Aggregate& aggregate) {
    if (!aggregate.gap || aggregate.tried_again > 0) return;
    if (aggregate.page_rows < limits_.follow_page) return close_gap(aggregate);
    aggregate.after = aggregate.page_last;
    want_follow(aggregate);
}

// --- sending -------------------------------------------------------------------------------------------------------

Held* OrderBook::send_next(Instant now) {
    while (!ready_.empty()) {
        Aggregate& aggregate = *ready_.front();
        ready_.pop_front();
        aggregate.ready = false;
        if (aggregate.first == nullptr) {  // its rows were dropped
            forget_if_idle(aggregate);
            continue;
        }
        Held& held = *aggregate.first;
        ASSERT(held.state == Held::State::queued && aggregate.queued > 0);
        ASSERT(!aggregate.at_sink);  // one at a time
        aggregate.first = held.next;
        if (aggregate.first == nullptr) aggregate.last = nullptr;
        --aggregate.queued;
        held.state = Held::State::at_sink;
        held.began = now;
        aggregate.at_sink = true;
        const bool is_new = at_sink_.emplace(&held.row.message, &held).second;
        ASSERT(is_new);
        want_follow(aggregate);
        return &held;
    }
    return nullptr;
}

Held* OrderBook::at_sink(const Message& message) {
    const auto found = at_sink_.find(&message);
    if (found == at_sink_.end()) return nullptr;
    Held* held = found->second;
    at_sink_.erase(found);
    return orphans_.erase(&message) > 0 ? nullptr : held;
}

/// The one message of its aggregate that was there.
void OrderBook::leave_sink(Held& held, Held::State next) {
    ASSERT(held.state == Held::State::at_sink && held.aggregate->at_sink);
    held.state = next;
    held.aggregate->at_sink = false;
}

void OrderBook::delivered(Held& held) {
    Aggregate& aggregate = *held.aggregate;
    leave_sink(held, Held::State::settling);
    // The aggregate need not wait for the record, unless what lies behind this row is asked for only then.
    if (held.row.message.failures == 0) held.aggregate = nullptr;
    bytes_ -= std::exchange(held.bytes, 0);
    std::string().swap(held.row.message.body);  // an assignment would keep the memory until the record is made
    held.row.message.headers = decltype(held.row.message.headers)();
    make_ready(aggregate);
    forget_if_idle(aggregate);
}

/// A failing aggregate has nothing queued and no gap until the failure is recorded: see make_ready() and open_gap().
void OrderBook::failed(Held& held) {
    Aggregate& aggregate = *held.aggregate;
    leave_sink(held, Held::State::settling);
    ASSERT(!aggregate.failing);
    held.failed = true;
    aggregate.failing = true;
    if (aggregate.gap) close_gap(aggregate);
    drop_queue(aggregate);
}

void OrderBook::queue_again(Aggregate& aggregate, Held& held) {
    leave_sink(held, Held::State::queued);
    Held** place = &aggregate.first;
    while (*place != nullptr && (*place)->row.sequence < held.row.sequence) place = &(*place)->next;
    held.next = *place;
    *place = &held;
    if (held.next == nullptr) aggregate.last = &held;
    ++aggregate.queued;
}

void OrderBook::put_back(Held& held) {
    queue_again(*held.aggregate, held);
    make_ready(*held.aggregate);
}

void OrderBook::set_aside(Held& held) {
    Aggregate& aggregate = *held.aggregate;
    queue_again(aggregate, held);
    Held* first = std::exchange(aggregate.first, aggregate.first->next);
    drop_queue(aggregate);
    first->next = nullptr;
    aggregate.first = aggregate.last = first;
    aggregate.queued = 1;
    aggregate.aside = true;
    aggregate.followed = false;
    std::erase(following_, &aggregate);  // that poll asks behind what is dropped here
    const bool keep = room_aside() && (!first->refused || emptied_.empty());
    (keep ? aside_ : emptied_).push_back(&aggregate);
    if (!keep) drop_queue(aggregate);
    open_gap(aggregate, keep ? behind(first->row) : std::nullopt);
}

void OrderBook::let_go(std::deque<Aggregate*>& waiting, std::size_t most) {
    for (; most > 0 && !waiting.empty(); --most) {
        Aggregate& aggregate = *waiting.front();
        waiting.pop_front();
        aggregate.aside = false;
        make_ready(aggregate);
        want_follow(aggregate);  // it has a gap, and so is not forgotten
    }
}

void OrderBook::resume(std::size_t without_row) {
    let_go(aside_, aside_.size());
    let_go(emptied_, without_row);
}

// --- settlements ---------------------------------------------------------------------------------------------------

Held* OrderBook::settling(const RowId& row_id, const store::ShardLease& lease) {
    const auto found = held_.find(row_id);
    // In another tenure of the shard the row may have been read again, and be on its way again.
    if (found == held_.end() || found->second.state != Held::State::settling || found->second.lease != lease) {
        return nullptr;
    }
    return &found->second;
}

void OrderBook::settled(Held& held, Recorded recorded) {
    ASSERT(held.state == Held::State::settling);  // recorded once
    if (Aggregate* aggregate = std::exchange(held.aggregate, nullptr)) {
        if (held.row.message.failures > 0) --aggregate->tried_again;
        if (held.failed && polling_) {
            resolutions_.push_back({aggregate, recorded});
        } else if (held.failed) {
            resolve(*aggregate, recorded);
        } else {
            if (recorded == Recorded::unknown) aggregate->after.reset();  // it may still be the first one
            want_follow(*aggregate);
            forget_if_idle(*aggregate);
        }
    }
    if (!polling_) return erase(held);
    // The poll may bring it as it was before.
    held.state = Held::State::fading;
    fading_.push_back(&held);
}

void OrderBook::resolve(Aggregate& aggregate, Recorded recorded) {
    aggregate.failing = false;
    // Otherwise the database keeps back what follows, and brings it when its time has come.
    if (recorded != Recorded::kept_back) open_gap(aggregate, std::nullopt);
    forget_if_idle(aggregate);
}

// --- shards --------------------------------------------------------------------------------------------------------

template <typename Matches>
void OrderBook::forget_aggregates(Matches matches) {
    const auto gone = [&](const Aggregate* aggregate) { return matches(*aggregate); };
    std::erase_if(ready_, gone);
    std::erase_if(aside_, gone);
    std::erase_if(emptied_, gone);
    std::erase_if(to_follow_, gone);
    std::erase_if(following_, gone);
    std::erase_if(resolutions_, [&](const Resolution& resolution) { return matches(*resolution.aggregate); });
    for (auto entry = aggregates_.begin(); entry != aggregates_.end();) {
        if (!matches(entry->second)) {
            ++entry;
            continue;
        }
        if (entry->second.gap) --gaps_;
        entry = aggregates_.erase(entry);
    }
}

void OrderBook::drop_shard(std::int32_t shard) {
    std::erase_if(fading_, [&](const Held* held) { return held->lease.shard == shard; });
    for (auto entry = held_.begin(); entry != held_.end();) {
        const auto here = entry++;
        Held& held = here->second;
        if (held.lease.shard != shard) continue;
        uncount(held);
        if (held.state == Held::State::at_sink) {
            orphans_.emplace(&held.row.message, held_.extract(here));
        } else {
            held_.erase(here);
        }
    }
    forget_aggregates([&](const Aggregate& aggregate) { return aggregate.shard == shard; });
}

void OrderBook::drop_queued(std::int32_t shard) {
    std::vector<Aggregate*> touched;  // some are forgotten below
    for (auto& [name, aggregate] : aggregates_) {
        if (aggregate.shard == shard) touched.push_back(&aggregate);
    }
    const auto of_shard = [&](const Aggregate* aggregate) { return aggregate->shard == shard; };
    std::erase_if(aside_, of_shard);
    std::erase_if(emptied_, of_shard);
    for (Aggregate* aggregate : touched) {
        aggregate->aside = false;
        drop_queue(*aggregate);
        // Until a row that is tried again is recorded, the database keeps the later ones back, also from a reading that
        // starts over because the shard is wanted again. Then they are followed, from the beginning: what the pages
        // would have continued behind may be among what is dropped.
        if (aggregate->gap && aggregate->tried_again == 0) close_gap(*aggregate);
        aggregate->after.reset();
        forget_if_idle(*aggregate);
    }
}

bool OrderBook::at_rest(std::int32_t shard) const {
    return std::none_of(held_.begin(), held_.end(), [&](const auto& entry) {
        const Held& held = entry.second;
        return held.lease.shard == shard && (held.state == Held::State::at_sink || held.state == Held::State::settling);
    });
}

std::size_t OrderBook::drop_all_queued() {
    const std::size_t before = held_.size();
    for (auto& [name, aggregate] : aggregates_) drop_queue(aggregate);
    return before - held_.size();
}

// --- within --------------------------------------------------------------------------------------------------------

Aggregate& OrderBook::aggregate_of(const EventRow& row) {
    const auto entry = aggregates_.try_emplace(row.message.key).first;
    entry->second.name = &entry->first;
    entry->second.shard = row.shard;
    return entry->second;
}

/// Nearly always at the end. Rows without a number keep the order in which they came.
void OrderBook::insert(Aggregate& aggregate, Held& held) {
    const std::int64_t sequence = held.row.sequence;
    ++aggregate.queued;
    if (aggregate.last == nullptr) {
        aggregate.first = aggregate.last = &held;
    } else if (aggregate.last->row.sequence <= sequence) {
        aggregate.last->next = &held;
        aggregate.last = &held;
    } else {
        Held** place = &aggregate.first;
        while ((*place)->row.sequence <= sequence) place = &(*place)->next;
        held.next = *place;
        *place = &held;
    }
    make_ready(aggregate);
}

void OrderBook::open_gap(Aggregate& aggregate, std::optional<RowId> after) {
    ASSERT(!aggregate.failing);
    if (!aggregate.gap) ++gaps_;
    aggregate.gap = true;
    aggregate.after = std::move(after);
    want_follow(aggregate);
}

void OrderBook::close_gap(Aggregate& aggregate) {
    ASSERT(aggregate.gap && gaps_ > 0);
    --gaps_;
    aggregate.gap = false;
}

void OrderBook::want_follow(Aggregate& aggregate) {
    const bool wanted =
        aggregate.gap && !aggregate.aside && aggregate.tried_again == 0 && aggregate.queued <= limits_.follow_page / 2;
    if (!wanted || aggregate.to_follow || aggregate.followed) return;
    aggregate.to_follow = true;
    to_follow_.push_back(&aggregate);
}

void OrderBook::make_ready(Aggregate& aggregate) {
    if (aggregate.first == nullptr || aggregate.at_sink || aggregate.ready || aggregate.aside) return;
    ASSERT(!aggregate.failing);
    aggregate.ready = true;
    ready_.push_back(&aggregate);
}

void OrderBook::drop_queue(Aggregate& aggregate) {
    Held* held = std::exchange(aggregate.first, nullptr);
    aggregate.last = nullptr;
    aggregate.queued = 0;
    while (held != nullptr) {
        Held* next = held->next;
        ASSERT(held->state == Held::State::queued);
        if (held->row.message.failures > 0) --aggregate.tried_again;
        erase(*held);
        held = next;
    }
}

void OrderBook::forget_if_idle(Aggregate& aggregate) {
    const bool listed = aggregate.ready || aggregate.to_follow || aggregate.followed;  // what is aside has a gap
    if (!aggregate.nothing_in_hand() || aggregate.gap || listed) return;
    ASSERT(aggregate.queued == 0);
    aggregates_.erase(aggregates_.find(*aggregate.name));
}

void OrderBook::uncount(const Held& held) {
    ASSERT(bytes_ >= held.bytes);
    bytes_ -= held.bytes;
    if (held.row.message.failures > 0) --failed_before_;
}

void OrderBook::erase(Held& held) {
    uncount(held);
    held_.erase(held_.find(held.row.row_id));
}

}  // namespace deliverd::relay
