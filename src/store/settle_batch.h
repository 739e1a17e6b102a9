// What both stores do with a batch of settlements before it goes to the database.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/row_queue.h"

namespace deliverd::store {

/// Indexes of `items` in order of their keys, each key once: the first item that has it.
template <typename Items, typename Key>
[[nodiscard]] std::vector<std::size_t> firsts_by_key(const Items& items, Key key) {
    std::vector<std::size_t> firsts(std::size(items));
    std::iota(firsts.begin(), firsts.end(), std::size_t{0});
    const auto key_of = [&](std::size_t index) { return std::invoke(key, items[index]); };
    std::ranges::stable_sort(firsts, {}, key_of);
    const auto rest = std::ranges::unique(firsts, {}, key_of);
    firsts.erase(rest.begin(), rest.end());
    return firsts;
}

/// Indexes of the settlements to send, each id once: a second settlement of a row in one batch finds it settled
/// already. In order of their ids, so that overlapping batches lock rows in one order.
[[nodiscard]] std::vector<std::size_t> settle_order(std::span<const Settlement> settlements);

/// What the settlement leaves in last_error.
[[nodiscard]] std::optional<std::string> settle_note(const Settlement& settlement);

/// The longest time that is stored, about 31 years: it keeps the arithmetic on times finite.
inline constexpr double kMaxDelaySeconds = 1e9;

/// The settlement's delay, within 0 and kMaxDelaySeconds.
[[nodiscard]] double settle_delay_seconds(const Settlement& settlement);

/// outbox_audit.reason.
[[nodiscard]] std::string_view settle_reason(SettleKind kind);

}  // namespace deliverd::store
