// What every store's event outbox does in the same way: which tables and arguments it accepts, and what a row becomes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deliverd/result.h"
#include "store/events.h"

namespace deliverd::store {

/// More shards than this only cost: each is a row that every batch locks.
inline constexpr std::int32_t kMaxShards = 1024;

/// Refuses what no database could relay: a lane, table or column without a name, some but not all of the four columns
/// for failures, a column named twice, shards outside 1..kMaxShards. Failure: permanent, `bad_argument`.
[[nodiscard]] Result<void> check_event_table(const EventTable& table);

/// Where an EventTable lies.
struct TablePlace {
    std::string schema;
    std::string table;

    /// "schema.table", or a name in `default_schema`.
    static TablePlace of(const EventTable& table, const std::string& default_schema);
    [[nodiscard]] std::string quoted_name() const;
    /// For people.
    [[nodiscard]] std::string text() const { return schema + "." + table; }
};

/// Whether the table itself keeps failures; otherwise they are in event_failures.
[[nodiscard]] bool keeps_failures(const EventColumns& columns);

/// Whether the table has an event id other than the row's id, which may be used again.
[[nodiscard]] bool tells_events_apart(const EventColumns& columns);

/// The names of the columns that the table has.
[[nodiscard]] std::vector<std::string> mapped_columns(const EventColumns& columns);

/// "a, b".
[[nodiscard]] std::string listed(const std::vector<std::string>& names);

/// Each refuses what a method of EventOutbox cannot be asked for. Failure: permanent, `bad_argument`.
[[nodiscard]] Result<void> check_read(const EventRead& request);
[[nodiscard]] Result<void> check_owner(std::string_view owner);
[[nodiscard]] Result<void> check_tend(std::string_view owner, Duration lease);
[[nodiscard]] Result<void> check_remove_published(Duration age, std::int32_t limit);

/// A relay is forgotten this many leases after its last heartbeat.
inline constexpr double kForgetAfterLeases = 10;

/// The entries of a JSON object in their order: strings as they are, other values as their text. None if it is not an
/// object, which a mapped table may hold.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> event_headers(std::string_view metadata);

/// Fills in what follows from the row's id and its metadata: the sequence, and the message's id, headers and content
/// type.
void complete_event(EventRow& row, std::string_view metadata);

/// The share of the relay that is number `rank` (from 0) of `relays` in the order of their names.
[[nodiscard]] std::int32_t shard_share(std::int32_t shards, std::int32_t relays, std::int32_t rank);

/// How many shards a lane has in the database, and who else counts on that number.
struct StoredShards {
    std::int64_t count = 0;
    std::int64_t last = -1;   // the highest number of one
    std::int64_t others = 0;  // relays that are alive, the asking one not counted

    [[nodiscard]] bool fits(std::int32_t shards) const { return count == shards && last == shards - 1; }
};

/// codes::kOtherShards, with what to do.
[[nodiscard]] Failure other_shards(const std::string& lane, std::int32_t shards, const StoredShards& stored);

}  // namespace deliverd::store
