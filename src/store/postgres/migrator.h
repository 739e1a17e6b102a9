// Migrations and inspection of a PostgreSQL database.
#pragma once

#include <string>
#include <vector>

#include "store/database.h"
#include "store/postgres/connection/connection.h"

namespace deliverd::store::postgres {

/// How long one `deliverd migrate` waits for another, and then for its own statements.
inline constexpr Duration kMigrationLockWait = std::chrono::seconds(60);
inline constexpr Duration kMigrationTimeout = std::chrono::minutes(30);

/// Runs a statement that only reads.
[[nodiscard]] Result<PgResult> ask(Connection& connection, const Statement& statement, const Params& params = {});

[[nodiscard]] Result<SchemaReport> schema_report(Connection& connection, const std::string& schema);
[[nodiscard]] Result<std::vector<MigrationStep>> migrate(Connection& connection, const std::string& schema,
                                                         bool dry_run);
[[nodiscard]] Result<std::vector<Finding>> inspect(Connection& connection, const std::string& schema);

}  // namespace deliverd::store::postgres
