// What to do with a message once an attempt has ended: pure code, no clock, no I/O.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "message/message.h"
#include "message/retry_policy.h"
#include "store/outbox.h"

namespace deliverd::pipeline {

/// delivered → sent; permanent, or the policy gives up → dead; everything else → retry, after the policy's
/// wait or the receiver's own (at most `retry_after_cap`), whichever is longer.
[[nodiscard]] store::Settlement decide(const Message& message, const Outcome& outcome, const RetryPolicy& policy,
                                       Duration retry_after_cap, Random& random);

/// An equal message was already delivered under this receipt: no send, no failure.
[[nodiscard]] store::Settlement settle_as_duplicate(const Message& message, std::optional<std::string> receipt);

/// What is stored as last_error: "CODE: detail", and plainly whether the receiver may have it after all.
[[nodiscard]] std::string describe_failure(const Outcome& outcome);

/// An earlier try to record `settlement` ended without an answer, and a repeat found the row no longer ours.
/// True when the row is just as that earlier try would have left it: it took effect, there is no conflict.
[[nodiscard]] bool took_effect_earlier(const store::Settlement& settlement, const store::RowState& row);

/// The settlement was left out because someone has the row locked at this moment: it is still ours to record.
[[nodiscard]] bool still_ours(const store::Settlement& settlement, const store::RowState& row,
                              std::string_view worker_id);

}  // namespace deliverd::pipeline
