// What to do with a message once an attempt has ended: pure code, no clock, no I/O.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "message/message.h"
#include "message/retry_policy.h"
#include "store/row_queue.h"

namespace deliverd::pipeline {

/// delivered → sent; permanent, or the policy gives up → dead; everything else → retry, after the policy's wait or the
/// one that the receiver asked for (at most `retry_after_cap`), whichever is longer.
[[nodiscard]] store::Settlement decide(const Message& message, const Outcome& outcome, const RetryPolicy& policy,
                                       Duration retry_after_cap, Random& random);

/// An equal message was delivered before, under this receipt: neither a send nor a failure.
[[nodiscard]] store::Settlement settle_as_duplicate(const Message& message, std::optional<std::string> receipt);

/// What is stored as last_error: "CODE: detail", and whether the receiver may have the message all the same.
[[nodiscard]] std::string describe_failure(const Outcome& outcome);

/// For a settle that was repeated because the answer to the first try was lost, and that then found the row no longer
/// ours: true when the row is as the first try would have left it. That one took effect, and there is no conflict.
[[nodiscard]] bool took_effect_earlier(const store::Settlement& settlement, const store::RowState& row);

/// The store skipped the settlement because someone has the row locked at this moment: it is still ours to record.
[[nodiscard]] bool still_ours(const store::Settlement& settlement, const store::RowState& row,
                              std::string_view worker_id);

}  // namespace deliverd::pipeline
