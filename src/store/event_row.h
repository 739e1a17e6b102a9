// What every store's event outbox does alike: which tables it accepts, and what of a row travels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deliverd/result.h"
#include "store/events.h"

namespace deliverd::store {

/// More parts than this only cost: each is a row that is locked with every batch.
inline constexpr std::int32_t kMaxShards = 1024;

/// What no database could relay: a lane, table or column without a name, some but not all of the four columns for
/// failures, a column named twice, shards outside 1..kMaxShards. Failure: permanent, `bad_argument`.
[[nodiscard]] Result<void> check_event_table(const EventTable& table);

/// Whether the table itself keeps failures; else they are in event_failures.
[[nodiscard]] bool keeps_failures(const EventColumns& columns);

/// The entries of a JSON object in their order: strings as they are, other values as their text. Empty for what is not
/// an object, which a mapped table may hold.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> event_headers(std::string_view metadata);

/// How many of `shards` are those of the relay that is number `rank` (from 0) of `relays` in the order of their names.
[[nodiscard]] std::int32_t shard_share(std::int32_t shards, std::int32_t relays, std::int32_t rank);

/// How many shards a lane has in the database, and who else counts on that number.
struct StoredShards {
    std::int64_t count = 0;
    std::int64_t last = -1;   // the highest number of one
    std::int64_t others = 0;  // relays that are alive, the asking one not counted

    [[nodiscard]] bool fits(std::int32_t shards) const { return count == shards && last == shards - 1; }
};

/// kOtherShards, with what to do.
[[nodiscard]] Failure other_shards(const std::string& lane, std::int32_t shards, const StoredShards& stored);

}  // namespace deliverd::store
