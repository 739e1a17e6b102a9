#include "store/postgres/migrator.h"

#include <utility>

#include "base/try.h"
#include "store/migration_plan.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {

Result<PgResult> ask(Connection& connection, const Statement& statement, const Params& params) {
    return connection.run(Step{&statement, &params}, Effect::read, connection.statement_deadline());
}

namespace {

/// pg_advisory_xact_lock's key: "deliverd" in ASCII.
constexpr std::string_view kLockKey = "7234298753085371236";

Result<std::vector<AppliedMigration>> applied_migrations(Connection& connection) {
    static const Statement kHasTable{"migrate_has_table", sql::has_migrations};
    static const Statement kList{"migrate_list", sql::list_migrations};
    TRY_ASSIGN(auto has_table, ask(connection, kHasTable));
    std::vector<AppliedMigration> applied;
    if (PQntuples(has_table.get()) == 0) return applied;
    TRY_ASSIGN(auto result, ask(connection, kList));
    for (int row = 0; row < PQntuples(result.get()); ++row) {
        AppliedMigration& one = applied.emplace_back();
        read_row(result.get(), row, one.version, one.name, one.checksum, one.schema);
    }
    return applied;
}

Result<void> apply(Connection& connection, const MigrationStep& step, Deadline deadline) {
    auto done = connection.script(step.sql, Effect::write, deadline);
    if (!done) {
        done.error().message =
            "migration " + std::to_string(step.version) + " (" + step.name + "): " + done.error().message;
    }
    return done;
}

Result<std::vector<MigrationStep>> steps_for(Connection& connection, const std::string& schema) {
    TRY_ASSIGN(auto applied, applied_migrations(connection));
    return missing_steps(postgres_migrations(), applied, {"deliverd.migrations", schema, quoted(schema)});
}

/// Inside the transaction. A second process waits here and then finds nothing left to do.
Result<std::vector<MigrationStep>> migrate_locked(Connection& connection, const std::string& schema,
                                                  Deadline deadline) {
    const std::string lock =
        "set local lock_timeout = '" + std::to_string(kMigrationLockWait / std::chrono::milliseconds(1)) +
        "ms'; set local statement_timeout = 0; select pg_advisory_xact_lock(" + std::string(kLockKey) + ")";
    TRY(connection.script(lock, Effect::write, deadline));
    auto steps = steps_for(connection, schema);
    if (!steps) return steps;
    for (const MigrationStep& step : *steps) {
        TRY(apply(connection, step, deadline));
    }
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
    // A failure leaves the transaction open; the pool throws such a connection away, which rolls it back.
    auto steps = migrate_locked(connection, schema, deadline);
    if (!steps) return steps;
    TRY(connection.script("commit", Effect::write, deadline));
    return steps;
}

}  // namespace deliverd::store::postgres
