// From statements of sqlite_protocol.h to values, for the client library and the store.
#pragma once

#include <span>
#include <string>

#include "client/sqlite_statement.h"
#include "deliverd/lease.h"

namespace deliverd::client {

/// The row a statement that returns the columns of outbox_memory stands on.
[[nodiscard]] MemoryRow memory_row(const SqliteStatement& statement);

/// "-60.000 seconds", as strftime takes it.
[[nodiscard]] std::string lease_modifier(double lease_seconds);

/// "[1,2,3]", for json_each.
[[nodiscard]] std::string json_ids(std::span<const std::int64_t> ids);

/// What ack_sent leaves in last_error.
[[nodiscard]] std::optional<std::string> receipt_note(const std::optional<std::string>& memory_id);

}  // namespace deliverd::client
