// Which relay holds which shards of a lane: deliverd.shards and deliverd.relays.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "store/event_row.h"
#include "store/events.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

/// The part of EventOutbox that is about leases; contract and failures as there. Thread-safe.
class EventShards {
public:
    /// `pool` outlives it.
    EventShards(Pool& pool, std::string lane, std::int32_t shards)
        : pool_(pool), lane_(std::move(lane)), shards_(shards) {}

    Result<ShardShare> tend(std::string_view owner, Duration lease);
    Result<void> release(std::string_view owner, std::span<const ShardLease> leases);
    Result<void> leave(std::string_view owner);
    Result<void> set_asleep(std::string_view owner, bool asleep);

private:
    /// The answer of one transaction of tend().
    struct Tended {
        StoredShards stored;
        ShardShare share;  // only if the number fits
    };
    /// One transaction. `remake`: the lane gets this relay's number of shards unless another relay is alive.
    Result<Tended> try_tend(Connection& connection, std::string_view owner, double lease_seconds, bool remake);

    Pool& pool_;
    const std::string lane_;
    const std::int32_t shards_;
};

}  // namespace deliverd::store::postgres
