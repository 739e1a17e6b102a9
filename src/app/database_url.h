// What a database URL says, and how to show URLs without their secrets.
#pragma once

#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::app {

struct DatabaseTarget {
    enum class Kind { postgres, sqlite };
    Kind kind = Kind::sqlite;
    std::string target;  // SQLite: the path; PostgreSQL: what libpq takes, password included
};

/// postgres://…, postgresql://… or sqlite:PATH; anything else is refused with the reason (permanent, `bad_url`).
/// `password` is put into a PostgreSQL URL that has none of its own; empty: nothing to put in.
[[nodiscard]] Result<DatabaseTarget> parse_database_url(std::string_view url, std::string_view password);

/// A database URL with every password in it replaced by "***"; "***" alone for what is no URL but may hold one.
[[nodiscard]] std::string mask_url(std::string_view url);

/// An http URL with its password, a name without password, and every value of the query replaced by "***":
/// a key may stand in any of them.
[[nodiscard]] std::string mask_http_url(std::string_view url);

/// `word` quoted for a libpq key=value string.
[[nodiscard]] std::string quote_conninfo(std::string_view word);

}  // namespace deliverd::app
