// Reads database URLs, and masks the secrets in URLs.
#pragma once

#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::config {

struct DatabaseTarget {
    enum class Kind { postgres, sqlite };
    Kind kind = Kind::sqlite;
    std::string target;  // SQLite: the path; PostgreSQL: what libpq takes, password included
};

/// postgres://…, postgresql://… or sqlite:PATH; refuses anything else with the reason (permanent, `bad_url`). Adds
/// `password`, unless it is empty, to a PostgreSQL URL without one.
[[nodiscard]] Result<DatabaseTarget> parse_database_url(std::string_view url, std::string_view password);

/// A database URL with every password replaced by "***"; only "***" for text that is no URL but may hold a password.
[[nodiscard]] std::string mask_url(std::string_view url);

/// An http URL with its password, or a user name without password, and every value of its query replaced by "***": each
/// of them may be a key.
[[nodiscard]] std::string mask_http_url(std::string_view url);

/// `word` quoted for a libpq key=value string.
[[nodiscard]] std::string quote_conninfo(std::string_view word);

}  // namespace deliverd::config
