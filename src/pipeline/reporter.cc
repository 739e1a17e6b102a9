#include "pipeline/reporter.h"

#include <algorithm>
#include <utility>

#include "deliverd/error_codes.h"
#include "pipeline/decide.h"
#include "store/events.h"

namespace deliverd::pipeline {

Reason reason_of(const Error& error) {
    return error.code == codes::kDbTimeout ? Reason::db_timeout : Reason::db_error;
}

void Reporter::settled(const store::Settlement& settlement) {
    observer_.on_settled(settlement);
    const auto ended = [this](std::uint64_t LaneTotals::* count, Reason reason) {
        add(count, 1);
        observer_.on_flush(reason, 1);
    };
    switch (settlement.kind) {
        case store::SettleKind::sent:
            return ended(&LaneTotals::sent, Reason::success);
        case store::SettleKind::duplicate:
            return ended(&LaneTotals::duplicates, Reason::dedup_hit);
        case store::SettleKind::retry:
            return ended(&LaneTotals::retried, Reason::retry);
        case store::SettleKind::dead:
            return ended(&LaneTotals::dead, Reason::dead);
    }
}

void Reporter::gave_up_settling(std::size_t rows, std::string_view first) {
    add(&LaneTotals::abandoned, rows);
    log_.error("could not record how these rows ended: they will be sent again",
               {{"lane", lane_}, {"rows", rows}, {"first", first}});
}

void Reporter::database_failed(Instant now, std::string_view operation, const Error& error, std::size_t rows) {
    add(&LaneTotals::database_errors, 1);
    // A call without rows, such as a claim, counts as one.
    observer_.on_flush(reason_of(error), std::max<std::size_t>(rows, 1));
    // Until the relays with another number of shards have ended, however long that takes, each tend fails so.
    const auto left_out =
        error.code == codes::kOtherShards ? other_shards_lines_.admit(now, error.message) : database_lines_.admit(now);
    if (!left_out) return;
    log_.warn("database call failed", {{"lane", lane_},
                                       {"operation", operation},
                                       {"rows", rows},
                                       {"class", to_string(error.error_class)},
                                       {"code", error.code},
                                       {"error", error.message},
                                       {"lines_left_out", *left_out}});
}

void Reporter::send_failed(Instant now, const Message& message, const Outcome& outcome,
                           const store::Settlement& settlement) {
    const auto left_out = failure_lines_.admit(now);
    if (!left_out) return;
    const bool dead = settlement.kind == store::SettleKind::dead;
    log_.write(dead ? LogLevel::error : LogLevel::warn, dead ? "gave up on a message" : "a send failed",
               {{"lane", lane_},
                {"message_id", message.message_id},
                {"outcome", to_string(outcome.kind)},
                {"failures", message.failures + 1},
                {"retry_in_seconds", to_seconds(settlement.delay)},
                {"error", settlement.error},
                {"lines_left_out", *left_out}});
}

void Reporter::put_off(Instant now, const Message& message, const Outcome& outcome, bool topic_alone) {
    add(&LaneTotals::put_off, 1);
    const auto left_out = put_off_lines_.admit(now, outcome.code);
    if (!left_out) return;
    log_.error(topic_alone ? "nothing can be sent to this topic: waiting" : "nothing can be sent: waiting",
               {{"lane", lane_},
                {"topic", message.topic},
                {"error", describe_failure(outcome)},
                {"lines_left_out", *left_out}});
}

void Reporter::send_rate(const std::optional<double>& before, const std::optional<double>& after) {
    if (after == before) return;
    observer_.on_send_rate(after.value_or(0));
    if (!after) {
        log_.info("sending without a limit again", {{"lane", lane_}});
    } else if (!before || *after < *before) {
        log_.warn("the receiver asked for less: sending slower", {{"lane", lane_}, {"per_second", *after}});
    }
}

}  // namespace deliverd::pipeline
