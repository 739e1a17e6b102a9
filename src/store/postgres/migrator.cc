#include "store/postgres/migrator.h"

#include <cstdlib>
#include <utility>

#include "store/migration_plan.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

/// pg_advisory_xact_lock's key: "deliverd" in ASCII.
constexpr std::string_view kLockKey = "7234298753085371236";

std::string migration_cell(const PgResult& result, int row, int column) {
    return {PQgetvalue(result.get(), row, column), static_cast<std::size_t>(PQgetlength(result.get(), row, column))};
}

Result<bool> exists(Connection& connection, const Statement& statement, const std::string& name) {
    Params params;
    params.literal(name);
    auto result =
        connection.run(Step{&statement, &params, Format::text}, Effect::read, connection.statement_deadline());
    if (!result) return Failure(std::move(result.error()));
    return PQntuples(result->get()) > 0;
}

Result<std::vector<AppliedMigration>> applied_migrations(Connection& connection) {
    static const Statement kHasTable = {
        "migrate_has_table",
        "select 1 from pg_catalog.pg_tables where schemaname = 'deliverd' and tablename = $1::text"};
    static const Statement kList = {
        "migrate_list", "select version, name, checksum, outbox_schema from deliverd.migrations order by version"};
    auto has_table = exists(connection, kHasTable, "migrations");
    if (!has_table) return Failure(std::move(has_table.error()));
    std::vector<AppliedMigration> applied;
    if (!*has_table) return applied;
    const Params none;
    auto result = connection.run(Step{&kList, &none, Format::text}, Effect::read, connection.statement_deadline());
    if (!result) return Failure(std::move(result.error()));
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        applied.push_back(AppliedMigration{std::atoi(migration_cell(*result, row, 0).c_str()),
                                           migration_cell(*result, row, 1), migration_cell(*result, row, 2),
                                           migration_cell(*result, row, 3)});
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
    auto applied = applied_migrations(connection);
    if (!applied) return Failure(std::move(applied.error()));
    return missing_steps(postgres_migrations(), *applied, {"deliverd.migrations", schema, quoted(schema)});
}

/// Inside the transaction. Whoever comes second waits here and then finds nothing left to do.
Result<std::vector<MigrationStep>> migrate_locked(Connection& connection, const std::string& schema,
                                                  Deadline deadline) {
    const std::string lock =
        "set local lock_timeout = '" + std::to_string(kMigrationLockWait / std::chrono::milliseconds(1)) +
        "ms'; set local statement_timeout = 0; select pg_advisory_xact_lock(" + std::string(kLockKey) + ")";
    if (auto locked = connection.script(lock, Effect::write, deadline); !locked) {
        return Failure(std::move(locked.error()));
    }
    auto steps = steps_for(connection, schema);
    if (!steps) return steps;
    for (const MigrationStep& step : *steps) {
        if (auto done = apply(connection, step, deadline); !done) return Failure(std::move(done.error()));
    }
    return steps;
}

}  // namespace

Result<SchemaReport> schema_report(Connection& connection, const std::string& schema) {
    auto applied = applied_migrations(connection);
    if (!applied) return Failure(std::move(applied.error()));
    return assess(postgres_migrations(), *applied, schema);
}

Result<std::vector<MigrationStep>> migrate(Connection& connection, const std::string& schema, bool dry_run) {
    if (dry_run) return steps_for(connection, schema);
    const Deadline deadline = std::chrono::steady_clock::now() + kMigrationTimeout;
    if (auto begun = connection.script("begin", Effect::read, deadline); !begun) {
        return Failure(std::move(begun.error()));
    }
    // A failure leaves the transaction open; the pool throws such a connection away, which rolls it back.
    auto steps = migrate_locked(connection, schema, deadline);
    if (!steps) return steps;
    if (auto ended = connection.script("commit", Effect::write, deadline); !ended) {
        return Failure(std::move(ended.error()));
    }
    return steps;
}

}  // namespace deliverd::store::postgres
