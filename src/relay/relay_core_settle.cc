// The settling part of RelayCore, and its end.
#include <utility>

#include "relay/relay_core.h"

namespace deliverd::relay {

using pipeline::Reason;
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
    SettleQueue::Ended ended = settles_.end(answer ? nullptr : &answer.error(), now, random_);
    if (!answer) database_failed(now, "settle", answer.error(), settles_.size() + ended.given_up.size());
    for (std::size_t i = 0; i < ended.answered.size(); ++i) {
        SettleItem& item = ended.answered[i];
        if ((*answer)[i] != EventSettled::locked) {
            record(now, item, (*answer)[i]);
        } else if (!settles_.keep_locked(item, now, random_)) {
            ended.given_up.push_back(std::move(item));
        }
    }
    give_up(ended.given_up);
    if (book_.follow_wanted()) planner_.wake(now);
    tell();
}

void RelayCore::record(Instant now, const SettleItem& item, EventSettled answer) {
    const store::EventSettlement& recorded = item.settlement;
    const SettleKind kind = recorded.settlement.kind;
    const bool took_effect = answer == EventSettled::applied || (answer == EventSettled::conflict && item.in_doubt);
    if (took_effect) {
        count(recorded.settlement);
        if (kind == SettleKind::retry) planner_.due_at(now + recorded.settlement.delay + kDueSlack);
    } else {
        ++totals_.conflicts;
        observer_.on_flush(Reason::conflict, 1);
    }
    if (answer == EventSettled::fenced && keeper_.lost(recorded.lease, now)) {
        const std::int32_t shard = recorded.lease.shard;
        return drop_shards({&shard, 1});
    }
    Held* held = book_.settling(recorded.row_id, recorded.lease);
    if (held == nullptr) return;
    if (kind == SettleKind::sent) return book_.settled(*held, Recorded::ended);
    if (answer != EventSettled::applied) return book_.settled(*held, Recorded::unknown);
    if (kind == SettleKind::retry) return book_.settled(*held, Recorded::waits);
    book_.settled(*held, options_.block_behind_dead ? Recorded::blocks : Recorded::passes);
}

void RelayCore::count(const store::Settlement& settlement) {
    observer_.on_settled(settlement);
    switch (settlement.kind) {
        case SettleKind::sent:
        case SettleKind::duplicate:
            ++totals_.sent;
            return observer_.on_flush(Reason::success, 1);
        case SettleKind::retry:
            ++totals_.retried;
            return observer_.on_flush(Reason::retry, 1);
        case SettleKind::dead:
            ++totals_.dead;
            return observer_.on_flush(Reason::dead, 1);
    }
}

void RelayCore::give_up(std::span<const SettleItem> items) {
    if (items.empty()) return;
    log_.error("could not record how these events ended: they will be sent again",
               {{"lane", options_.name}, {"rows", items.size()}, {"first", items.front().settlement.row_id}});
    totals_.abandoned += items.size();
    for (const SettleItem& item : items) {
        Held* held = book_.settling(item.settlement.row_id, item.settlement.lease);
        if (held != nullptr) book_.settled(*held, Recorded::unknown);
    }
}

void RelayCore::abandon() {
    give_up(settles_.take_all());
    totals_.abandoned += book_.at_sink();
    totals_.released += book_.drop_all_queued();
    tell();
}

void RelayCore::database_failed(Instant now, std::string_view operation, const Error& error, std::size_t rows) {
    ++totals_.database_errors;
    observer_.on_flush(error.code == "db_timeout" ? Reason::db_timeout : Reason::db_error, rows == 0 ? 1 : rows);
    // Until the others have ended, however long that takes, each tend is answered so.
    const std::optional<std::uint64_t> left_out =
        error.code == store::kOtherShards ? other_shards_lines_.admit(now, error.message) : database_lines_.admit(now);
    if (!left_out) return;
    log_.warn("database call failed", {{"lane", options_.name},
                                       {"operation", operation},
                                       {"rows", rows},
                                       {"class", to_string(error.error_class)},
                                       {"code", error.code},
                                       {"error", error.message},
                                       {"lines_left_out", *left_out}});
}

void RelayCore::tell() {
    observer_.on_in_flight(book_.at_sink());
    in_hand_depth_.tell(observer_, book_.rows());
    settling_depth_.tell(observer_, settles_.size());
}

void RelayCore::log_failure(Instant now, const Message& message, const Outcome& outcome,
                            const store::Settlement& settlement) {
    const std::optional<std::uint64_t> left_out = failure_lines_.admit(now);
    if (!left_out) return;
    const bool dead = settlement.kind == SettleKind::dead;
    log_.write(dead ? LogLevel::error : LogLevel::warn, dead ? "gave up on an event" : "a send failed",
               {{"lane", options_.name},
                {"message_id", message.message_id},
                {"outcome", to_string(outcome.kind)},
                {"failures", message.failures + 1},
                {"retry_in_seconds", to_seconds(settlement.delay)},
                {"error", settlement.error},
                {"lines_left_out", *left_out}});
}

}  // namespace deliverd::relay
