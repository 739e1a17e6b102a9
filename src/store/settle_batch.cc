#include "store/settle_batch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/text.h"
#include "store/memory_message.h"

namespace deliverd::store {

std::vector<std::size_t> settle_order(std::span<const Settlement> settlements) {
    std::vector<std::size_t> order(settlements.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto id = [&](std::size_t index) { return settlements[index].id; };
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return std::pair(id(a), a) < std::pair(id(b), b); });
    order.erase(std::unique(order.begin(), order.end(), [&](auto a, auto b) { return id(a) == id(b); }), order.end());
    return order;
}

std::optional<std::string> settle_note(const Settlement& settlement) {
    const bool failed = settlement.kind == SettleKind::retry || settlement.kind == SettleKind::dead;
    if (failed) return shorten(storable(settlement.error), kMaxStoredErrorBytes);
    if (!settlement.receipt) return std::nullopt;
    return "memory_id=" + storable(*settlement.receipt);
}

double settle_delay_seconds(const Settlement& settlement) {
    return std::clamp(to_seconds(settlement.delay), 0.0, kMaxDelaySeconds);
}

std::string_view settle_reason(SettleKind kind) {
    switch (kind) {
        case SettleKind::sent:
            return "outbox_flush_success";
        case SettleKind::duplicate:
            return "outbox_flush_dedup_hit";
        case SettleKind::retry:
            return "outbox_flush_retry";
        case SettleKind::dead:
            return "outbox_flush_dead";
    }
    return "unknown";
}

}  // namespace deliverd::store
