#include "pipeline/decide.h"

#include <algorithm>
#include <utility>

namespace deliverd::pipeline {

using store::SettleKind;
using store::Settlement;

Settlement decide(const Message& message, const Outcome& outcome, const RetryPolicy& policy, Duration retry_after_cap,
                  Random& random) {
    Settlement settlement{.id = message.id, .failures_before = message.failures, .code = outcome.code};
    if (outcome.kind == OutcomeKind::delivered) {
        settlement.kind = SettleKind::sent;
        settlement.receipt = outcome.receipt;
        settlement.answer = outcome.answer;
        return settlement;
    }
    settlement.error = describe_failure(outcome);
    settlement.in_doubt = outcome.kind == OutcomeKind::ambiguous;
    // The ambiguous attempt counts too: otherwise a receiver that always answers late would get a message for ever.
    const std::int32_t failures = message.failures + 1;
    if (outcome.kind == OutcomeKind::permanent || policy.gives_up_at(failures)) {
        settlement.kind = SettleKind::dead;
        return settlement;
    }
    settlement.kind = SettleKind::retry;
    // As a delay, not as a time: the database's clock decides when the row is due.
    settlement.delay = policy.wait_after(failures, random);
    if (outcome.retry_after) {
        settlement.delay = std::max(settlement.delay, std::min(*outcome.retry_after, retry_after_cap));
    }
    return settlement;
}

Settlement settle_as_duplicate(const Message& message, std::optional<std::string> receipt) {
    return {.id = message.id,
            .kind = SettleKind::duplicate,
            .failures_before = message.failures,
            .receipt = std::move(receipt)};
}

std::string describe_failure(const Outcome& outcome) {
    std::string text = outcome.code.empty() ? std::string("FAILED") : outcome.code;
    if (outcome.kind == OutcomeKind::ambiguous) text += " (ambiguous: the receiver may have it)";
    if (!outcome.detail.empty()) text += ": " + outcome.detail;
    return text;
}

bool took_effect_earlier(const Settlement& settlement, const store::RowState& row) {
    switch (settlement.kind) {
        case SettleKind::sent:
        case SettleKind::duplicate:
            return row.phase == store::RowPhase::sent;
        // The error is compared because another worker may have settled the row in the same way.
        case SettleKind::dead:
            return row.phase == store::RowPhase::dead && row.last_error == settlement.error;
        case SettleKind::retry:
            return row.phase == store::RowPhase::open && row.failures == settlement.failures_before + 1 &&
                   row.last_error == settlement.error;
    }
    return false;
}

bool still_ours(const Settlement& settlement, const store::RowState& row, std::string_view worker_id) {
    // The same count: the worker may have settled the row and claimed it again meanwhile.
    return row.phase == store::RowPhase::open && row.locked_by == worker_id &&
           row.failures == settlement.failures_before;
}

}  // namespace deliverd::pipeline
