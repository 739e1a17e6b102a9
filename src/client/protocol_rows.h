// The columns of what the protocols answer, in the order in which the statements for either database answer them.
#pragma once

#include <tuple>

#include "deliverd/lease.h"
#include "deliverd/outbox.h"

namespace deliverd::client {

inline auto columns_of(MemoryRow& row) {
    return std::tie(row.outbox_id, row.item_id, row.target_space, row.payload_md, row.payload_sha, row.status,
                    row.retry_count, row.next_attempt_at, row.locked_at, row.locked_by, row.last_error, row.created_at,
                    row.updated_at);
}

inline auto columns_of(DedupHit& hit) {
    return std::tie(hit.outbox_id, hit.memory_id);
}

inline auto columns_of(Event& event) {
    return std::tie(event.id, event.aggregate_id, event.event_type, event.payload, event.metadata, event.event_id,
                    event.created_at, event.published, event.published_at, event.retry_count, event.next_attempt_at,
                    event.last_error, event.dead_at);
}

inline auto columns_of(OutboxStats& stats) {
    return std::tie(stats.total, stats.unpublished, stats.published, stats.dead, stats.oldest_unpublished_age_seconds,
                    stats.max_retries);
}

/// `row` has read(targets…): a SqliteStatement or a PostgresRow.
template <typename T, typename Row>
[[nodiscard]] T row_as(const Row& row) {
    T out;
    std::apply([&](auto&... columns) { row.read(columns...); }, columns_of(out));
    return out;
}

}  // namespace deliverd::client
