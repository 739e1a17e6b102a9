// Which part of a table an aggregate belongs to, in SQL and in C++.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string_view>

namespace deliverd::store::sqlite {

/// 0 to shards - 1, the same in every process and for ever: relays on one file must agree. `shards` at least 1.
[[nodiscard]] std::int32_t shard_of(std::string_view aggregate_id, std::int32_t shards);

/// deliverd_shard(aggregate, shards) for statements on this connection; answers SQLite's code.
[[nodiscard]] int add_shard_function(sqlite3* connection);

}  // namespace deliverd::store::sqlite
