// A batch of settlements made ready for a database, the same for both stores.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/row_queue.h"

namespace deliverd::store {

/// Indexes of the settlements to send, in order of their ids (so that overlapping batches lock rows in one
/// order) and each id once: a second settlement of a row in one batch finds it settled already.
[[nodiscard]] std::vector<std::size_t> settle_order(std::span<const Settlement> settlements);

/// What the settlement leaves in last_error.
[[nodiscard]] std::optional<std::string> settle_note(const Settlement& settlement);

/// The longest wait that is stored, about 31 years: it keeps the arithmetic on times finite.
inline constexpr double kMaxDelaySeconds = 1e9;

/// The settlement's delay, within 0 and kMaxDelaySeconds.
[[nodiscard]] double settle_delay_seconds(const Settlement& settlement);

/// outbox_audit.reason.
[[nodiscard]] std::string_view settle_reason(SettleKind kind);

}  // namespace deliverd::store
