#include "base/try.h"
#include "store/migration_plan.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/parts.h"
#include "store/postgres/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {

Result<PgResult> ask(Connection& connection, std::string_view sql, const Params& params) {
    const Statement statement = statement_by_text("schema", std::string(sql));
    return connection.run(Step{&statement, &params}, Effect::read, connection.statement_deadline());
}

namespace {

/// How long one `deliverd migrate` waits for another, and then for its own statements.
constexpr Duration kMigrationLockWait = std::chrono::seconds(60);
constexpr Duration kMigrationTimeout = std::chrono::minutes(30);

/// pg_advisory_xact_lock's key: "deliverd" in ASCII.
constexpr std::string_view kLockKey = "7234298753085371236";

Result<std::vector<AppliedMigration>> applied_migrations(Connection& connection) {
    // Asked first, because a statement on a table that is not there would be an error, and end the transaction.
    TRY_ASSIGN(auto has_table, ask(connection, sql::has_migrations));
    if (PQntuples(has_table.get()) == 0) return std::vector<AppliedMigration>{};
    TRY_ASSIGN(auto result, ask(connection, sql::list_migrations));
    return rows_as(result.get(), [](const Row& row) {
        AppliedMigration one;
        row.read(one.version, one.name, one.checksum, one.schema);
        return one;
    });
}

Result<std::vector<MigrationStep>> steps_for(Connection& connection, const std::string& schema) {
    TRY_ASSIGN(auto applied, applied_migrations(connection));
    return missing_steps(postgres_migrations(), applied, {"deliverd.migrations", schema, quoted(schema)});
}

/// Inside the transaction. A second process waits here and then finds nothing left to do.
Result<std::vector<MigrationStep>> migrate_locked(Connection& connection, const std::string& schema,
                                                  Deadline deadline) {
    // The statement timeout is off, because an index on a large table takes as long as it takes; kMigrationTimeout ends
    // it all. An advisory lock, because there is no table yet that could be locked.
    const std::string lock =
        "set local lock_timeout = '" + std::to_string(kMigrationLockWait / std::chrono::milliseconds(1)) +
        "ms'; set local statement_timeout = 0; select pg_advisory_xact_lock(" + std::string(kLockKey) + ")";
    TRY(connection.script(lock, Effect::write, deadline));
    TRY_ASSIGN(auto steps, steps_for(connection, schema));
    TRY(run_steps(steps, [&](const std::string& sql) { return connection.script(sql, Effect::write, deadline); }));
    return steps;
}

}  // namespace

Result<SchemaReport> schema_report(Connection& connection, const std::string& schema) {
    TRY_ASSIGN(auto applied, applied_migrations(connection));
    return assess(postgres_migrations(), applied, schema);
}

Result<std::vector<MigrationStep>> migrate(Connection& connection, const std::string& schema, bool dry_run) {
    if (dry_run) return steps_for(connection, schema);
    const Deadline deadline = std::chrono::steady_clock::now() + kMigrationTimeout;
    TRY(connection.script("begin", Effect::read, deadline));
    // A failure leaves the transaction open; the pool closes such a connection, which rolls it back.
    TRY_ASSIGN(auto steps, migrate_locked(connection, schema, deadline));
    TRY(connection.script("commit", Effect::write, deadline));
    return steps;
}

}  // namespace deliverd::store::postgres
