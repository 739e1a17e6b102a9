// Numbered schema changes, embedded in the program from sql/<database>/.
#pragma once

#include <span>
#include <string_view>

namespace deliverd::store {

struct Migration {
    int version;
    std::string_view name;
    std::string_view sql;  // `${schema}` is replaced by the quoted schema of the outbox tables
};

/// In order of their versions, which start at 1. One that only the other database needed is left out.
std::span<const Migration> postgres_migrations();
std::span<const Migration> sqlite_migrations();

}  // namespace deliverd::store
