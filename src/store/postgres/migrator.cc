#include <utility>

#include "base/try.h"
#include "store/migration_plan.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/parts.h"
#include "store/postgres/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

/// Runs a statement that only reads.
Result<PgResult> ask(Connection& connection, std::string_view sql, Params params = {}) {
    const Statement statement = statement_by_text("schema", std::string(sql));
    return connection.run(Step{&statement, std::move(params)}, Effect::read);
}

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

constexpr int kOldestServerVersion = 130000;

/// The grants to run; empty when this user lacks none.
Result<std::string> missing_grants(Connection& connection, const std::string& schema) {
    TRY_ASSIGN(auto result, ask(connection, sql::missing_grants, Params(std::optional(schema))));
    std::string missing;
    for (const Row& row : rows_of(result.get())) {
        missing += missing.empty() ? "" : " ";
        missing += row.get<std::string_view>();
    }
    return missing;
}

Finding finding(std::string check, bool ok, std::string good, std::string bad) {
    return Finding{std::move(check), ok, ok ? std::move(good) : std::move(bad)};
}

}  // namespace

Result<SchemaReport> schema_report(Connection& connection, const std::string& schema) {
    TRY_ASSIGN(auto applied, applied_migrations(connection));
    return assess(postgres_migrations(), applied, schema);
}

Result<std::vector<MigrationStep>> migrate(Connection& connection, const std::string& schema, bool dry_run) {
    if (dry_run) return steps_for(connection, schema);
    const Deadline deadline = std::chrono::steady_clock::now() + kMigrationTimeout;
    // A failure leaves the transaction open; the pool closes such a connection, which rolls it back.
    TRY(connection.script("begin", Effect::read, deadline));
    // The statement timeout is off, because an index on a large table takes as long as it takes; kMigrationTimeout ends
    // it all. An advisory lock, because there is no table yet that could be locked: a second process waits for it and
    // then finds nothing left to do.
    const std::string lock =
        "set local lock_timeout = '" + std::to_string(kMigrationLockWait / std::chrono::milliseconds(1)) +
        "ms'; set local statement_timeout = 0; select pg_advisory_xact_lock(" + std::string(kLockKey) + ")";
    TRY(connection.script(lock, Effect::write, deadline));
    TRY_ASSIGN(auto steps, steps_for(connection, schema));
    TRY(run_steps(steps, [&](const std::string& sql) { return connection.script(sql, Effect::write, deadline); }));
    TRY(connection.script("commit", Effect::write, deadline));
    return steps;
}

Result<std::vector<Finding>> inspect(Connection& connection, const std::string& schema) {
    TRY_ASSIGN(auto facts, ask(connection, sql::server_facts));
    std::string version;
    std::string synchronous_commit;
    bool standby = false;
    Row(facts.get()).read(version, synchronous_commit, standby);
    TRY_ASSIGN(auto missing, missing_grants(connection, schema));
    TRY_ASSIGN(auto in_schema, ask(connection, sql::creators_in_schema, Params(std::optional(schema))));
    const auto creators = Row(in_schema.get()).get<std::string>();
    auto report = schema_report(connection, schema);
    // Without the right to look at the schema the grants are the finding.
    if (!report && missing.empty()) return Failure(std::move(report.error()));

    std::vector<Finding> findings;
    findings.push_back(finding("server version", connection.server_version() >= kOldestServerVersion,
                               "PostgreSQL " + version,
                               "PostgreSQL " + version + " is too old: 13 or newer is needed"));
    findings.push_back(finding("primary", !standby, "the server accepts writes",
                               "the server is a standby and accepts no writes: connect to the primary"));
    findings.push_back(finding("synchronous_commit", synchronous_commit != "off",
                               "synchronous_commit is " + synchronous_commit,
                               "synchronous_commit is off: after a crash settled messages may be sent again; "
                               "set it to on for this user"));
    const bool current = report && report->state == SchemaState::current;
    if (report) {
        findings.push_back(
            finding("schema", current, "schema version " + std::to_string(report->found_version), report->advice));
    }
    if (current || !missing.empty()) {
        findings.push_back(finding("privileges", missing.empty(), "the user has all privileges needed",
                                   "the user lacks privileges; run as the owner of the tables: " + missing));
    }
    // deliverd itself takes no operator or function from there. The application's sessions and triggers may.
    findings.push_back(finding(
        "schema " + schema, !creators.starts_with("everyone"),
        creators.empty() ? "only its owner creates objects in it" : "others may create objects in it: " + creators,
        "others may create objects in it, and what they create may run with the rights of any user of the schema: " +
            creators + "; run as its owner: revoke create on schema " + quoted(schema) + " from public;"));
    return findings;
}

}  // namespace deliverd::store::postgres
