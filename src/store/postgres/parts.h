// The parts of a PostgreSQL database that are too small for a room of their own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "store/database.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

// `schema` is that of the outbox tables.
[[nodiscard]] Result<SchemaReport> schema_report(Connection& connection, const std::string& schema);
[[nodiscard]] Result<std::vector<MigrationStep>> migrate(Connection& connection, const std::string& schema,
                                                         bool dry_run);
[[nodiscard]] Result<std::vector<Finding>> inspect(Connection& connection, const std::string& schema);

/// `pool` outlives the answers.
[[nodiscard]] std::unique_ptr<Imports> make_imports(Pool& pool, std::string_view schema);
[[nodiscard]] std::unique_ptr<Upkeep> make_upkeep(Pool& pool, std::string_view schema);

}  // namespace deliverd::store::postgres
