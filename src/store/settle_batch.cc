#include "store/settle_batch.h"

#include <algorithm>

#include "base/text.h"
#include "store/memory_message.h"

namespace deliverd::store {

std::vector<std::size_t> settle_order(std::span<const Settlement> settlements) {
    return firsts_by_key(settlements, &Settlement::id);
}

std::optional<std::string> settle_note(const Settlement& settlement) {
    if (failed(settlement)) return shorten(storable(settlement.error), kMaxStoredErrorBytes);
    if (!settlement.receipt) return std::nullopt;
    // The column of the error holds the receipt of a row that was sent: check_dedup reads it back by this prefix.
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
