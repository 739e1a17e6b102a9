// What a database has, what the program wants, and what is to be done about it: pure code for both stores.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"
#include "store/database.h"

namespace deliverd::store {

/// A numbered schema change, embedded in the program from sql/<database>/.
struct Migration {
    int version;
    std::string_view name;
    std::string_view sql;  // `${schema}` is replaced by the quoted schema of the outbox tables
};

/// In order of their versions, which start at 1. One that only the other database needed is left out.
std::span<const Migration> postgres_migrations();
std::span<const Migration> sqlite_migrations();

/// A line of the database's own list of applied migrations.
struct AppliedMigration {
    int version = 0;
    std::string name;
    std::string checksum;
    std::string schema;  // of the outbox tables; empty where the database has no schemas
};

/// SHA-256 of the migration as the program has it, before `${schema}` is replaced.
[[nodiscard]] std::string migration_checksum(const Migration& migration);

/// `schema` is the one configured, empty where there is none. `applied` in order of versions.
[[nodiscard]] SchemaReport assess(std::span<const Migration> wanted, std::span<const AppliedMigration> applied,
                                  std::string_view schema);

/// How a store writes its dialect into a migration.
struct MigrationDialect {
    std::string_view table;          // the list of applied migrations
    std::string_view schema;         // as in assess()
    std::string_view quoted_schema;  // what `${schema}` becomes
};

/// The missing migrations, each with the statement that enters it in the list. Run unchanged, by the program or by
/// hand, they make the same database. Refused (permanent, `db_error`) where assess() says newer or changed.
[[nodiscard]] Result<std::vector<MigrationStep>> missing_steps(std::span<const Migration> wanted,
                                                               std::span<const AppliedMigration> applied,
                                                               const MigrationDialect& dialect);

/// Runs the steps in their order up to the first failure, whose message then names the migration.
[[nodiscard]] Result<void> run_steps(std::span<const MigrationStep> steps,
                                     const std::function<Result<void>(const std::string& sql)>& run);

}  // namespace deliverd::store
