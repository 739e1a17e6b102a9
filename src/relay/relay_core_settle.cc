// The settling part of RelayCore, and its end.
#include <array>
#include <utility>

#include "base/assert.h"
#include "relay/relay_core.h"

namespace deliverd::relay {

using pipeline::LaneTotals;
using store::EventSettled;
using store::SettleKind;

std::span<const store::EventSettlement> RelayCore::begin_settle(Instant now) {
    if (!settle_due(now)) return {};
    return settles_.begin(now);
}

Instant RelayCore::next_settle(Instant now) const {
    return settle_due(now) ? now : std::min(now + pipeline::kLongestNap, settles_.due_at());
}

void RelayCore::end_settle(Instant now, const Result<std::vector<EventSettled>>& answer) {
    const std::size_t waiting = settles_.size();
    Settles::EndedBatch ended = settles_.end(answer ? nullptr : &answer.error(), now, random_);
    if (!answer) reporter_.database_failed(now, "settle", answer.error(), waiting);
    ASSERT(!answer || answer->size() == ended.answered.size());
    for (std::size_t i = 0; i < ended.answered.size(); ++i) {
        Settles::Item& item = ended.answered[i];
        if ((*answer)[i] != EventSettled::locked) {
            record(now, item, (*answer)[i]);
        } else if (!settles_.keep_locked(item, now, random_)) {
            ended.given_up.push_back(std::move(item));
        }
    }
    give_up(ended.given_up);
    if (book_.follow_wanted()) planner_.wake(now);
    report();
}

void RelayCore::record(Instant now, const Settles::Item& item, EventSettled answer) {
    const store::EventSettlement& recorded = item.settlement;
    const SettleKind kind = recorded.settlement.kind;
    // If a try was in doubt, it is the one that took effect, as far as anyone can know.
    const bool took_effect = answer == EventSettled::applied || (answer == EventSettled::conflict && item.in_doubt);
    if (took_effect) {
        reporter_.settled(recorded.settlement);
        if (kind == SettleKind::retry) planner_.due_at(now + recorded.settlement.delay + kDueSlack);
    } else {
        reporter_.conflict();
    }
    // The lease is over: what else waits for it would be fenced too. A later tenure of the shard is not concerned.
    if (answer == EventSettled::fenced && keeper_.lost(recorded.lease, now)) {
        const std::array lost = {recorded.lease.shard};
        return drop_shards(lost);
    }
    Held* held = book_.settling(recorded.row_id, recorded.lease);
    if (held == nullptr) return;
    // Of a delivered event only a record that failed would matter.
    const bool waits = kind == SettleKind::retry || options_.block_behind_dead;
    book_.settled(*held, waits && answer == EventSettled::applied ? Recorded::kept_back : Recorded::ended);
}

/// Nobody knows what the table has of them: they are read again, and sent again if they are still open.
void RelayCore::give_up(std::span<const Settles::Item> items) {
    if (items.empty()) return;
    reporter_.gave_up_settling(items.size(), items.front().settlement.row_id);
    for (const Settles::Item& item : items) {
        Held* held = book_.settling(item.settlement.row_id, item.settlement.lease);
        if (held != nullptr) book_.settled(*held, Recorded::unknown);
    }
}

void RelayCore::abandon() {
    give_up(settles_.take_all());
    reporter_.add(&LaneTotals::abandoned, book_.at_sink());
    reporter_.add(&LaneTotals::released, book_.drop_all_queued());
    report();
}

void RelayCore::report() {
    reporter_.observer().on_in_flight(book_.at_sink());
    in_hand_depth_.report(reporter_.observer(), book_.rows());
    settling_depth_.report(reporter_.observer(), settles_.size());
}

}  // namespace deliverd::relay
