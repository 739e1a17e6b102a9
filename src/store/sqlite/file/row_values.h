// Values of rows as SQLite compares them, and what it has no function for.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string_view>
#include <variant>

#include "store/events.h"

namespace deliverd::store::sqlite {

/// Ids of rows as text (numbers, or whatever else a mapped table has) in SQLite's own order: numbers by value and
/// before all text, text by its bytes.
[[nodiscard]] inline bool before(std::string_view a, std::string_view b) {
    const auto left = sequence_of(a);
    const auto right = sequence_of(b);
    if (left && right) return *left < *right;
    return left || (!right && a < b);
}

/// To be bound: as a number where it is one, so that a column of any type compares as it should.
[[nodiscard]] inline std::variant<std::int64_t, std::string_view> row_id_value(const RowId& row_id) {
    if (const auto number = sequence_of(row_id)) return *number;
    return std::string_view(row_id);
}

/// Which part of a table an aggregate belongs to: 0 to shards - 1, the same in every process and for ever: relays on
/// one file must agree. `shards` at least 1.
[[nodiscard]] std::int32_t shard_of(std::string_view aggregate_id, std::int32_t shards);

/// deliverd_shard(aggregate, shards) for statements on this connection; answers SQLite's code.
[[nodiscard]] int add_shard_function(sqlite3* connection);

}  // namespace deliverd::store::sqlite
