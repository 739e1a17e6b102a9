// PostgreSQL by libpq: a bounded pool, prepared statements, one round trip per batch.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "store/database.h"

namespace deliverd::store {

struct PostgresOptions {
    std::string conninfo;  // URL or key=value; may hold a password: never logged
    /// Asked before each new connection, when set: a password file may have changed. Thread-safe, does not throw.
    std::function<std::string()> refresh_conninfo;
    std::string schema = "public";  // of the outbox tables
    std::size_t max_connections = 8;
    Duration connect_timeout = std::chrono::seconds(5);
    Duration statement_timeout = std::chrono::seconds(30);
    Duration lock_timeout = std::chrono::seconds(5);
    Duration pool_wait = std::chrono::seconds(10);  // for a free connection
    std::int64_t max_payload_bytes = kDefaultMaxPayloadBytes;
};

/// Refuses a conninfo as open_postgres() does (permanent, `bad_argument`), for the check of a configuration: it cannot
/// be read, or its port or sslmode is wrong. Does not connect; never repeats a password.
[[nodiscard]] Result<void> check_conninfo(const std::string& conninfo);

/// Connects lazily: the first call reports an unreachable server, and every later call tries again (with backoff), so
/// that a lane survives its database. Fails only for unusable options.
[[nodiscard]] Result<std::unique_ptr<Database>> open_postgres(PostgresOptions options, Log& log);

}  // namespace deliverd::store
