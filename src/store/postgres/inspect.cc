#include <utility>

#include "store/migration_plan.h"
#include "store/postgres/migrator.h"
#include "store/postgres/outbox_sql.h"

namespace deliverd::store::postgres {
namespace {

constexpr int kOldestServerVersion = 130000;

struct Facts {
    std::string version;
    std::string encoding;
    std::string synchronous_commit;
    bool standby = false;
};

Result<PgResult> ask(Connection& connection, const Statement& statement, const Params& params) {
    return connection.run(Step{&statement, &params, Format::text}, Effect::read, connection.statement_deadline());
}

std::string cell(const PgResult& result, int row, int column) {
    return PQgetvalue(result.get(), row, column);
}

Result<Facts> facts_of(Connection& connection) {
    static const Statement kFacts = {"inspect_facts",
                                     "select current_setting('server_version'), current_setting('server_encoding'),"
                                     " current_setting('synchronous_commit'), pg_is_in_recovery()"};
    auto result = ask(connection, kFacts, Params());
    if (!result) return Failure(std::move(result.error()));
    return Facts{cell(*result, 0, 0), cell(*result, 0, 1), cell(*result, 0, 2), cell(*result, 0, 3) == "t"};
}

/// What this user lacks, as the grants to type; empty when nothing.
Result<std::string> missing_grants(Connection& connection, const std::string& schema) {
    static const Statement kGrants = {
        "inspect_grants",
        "select what from (values"
        "  (has_schema_privilege($1, 'usage'), 'usage on schema ' || quote_ident($1)),"
        "  (has_schema_privilege('deliverd', 'usage'), 'usage on schema deliverd'),"
        "  (has_table_privilege('deliverd.migrations', 'select'), 'select on deliverd.migrations'),"
        "  (has_table_privilege($2, 'select') and has_table_privilege($2, 'insert')"
        "     and has_table_privilege($2, 'update'), 'select, insert, update on ' || $2),"
        "  (has_table_privilege($3, 'select') and has_table_privilege($3, 'insert'), 'select, insert on ' || $3),"
        "  (has_sequence_privilege(pg_get_serial_sequence($2, 'outbox_id'), 'usage'),"
        "     'usage on sequence ' || pg_get_serial_sequence($2, 'outbox_id')),"
        "  (has_sequence_privilege(pg_get_serial_sequence($3, 'audit_id'), 'usage'),"
        "     'usage on sequence ' || pg_get_serial_sequence($3, 'audit_id'))"
        ") as wanted (granted, what) where not granted"};
    Params params;
    params.literal(schema).literal(quoted(schema) + ".outbox_memory").literal(quoted(schema) + ".outbox_audit");
    auto result = ask(connection, kGrants, params);
    if (!result) return Failure(std::move(result.error()));
    std::string missing;
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        missing += (missing.empty() ? "" : "; ") + ("grant " + cell(*result, row, 0));
    }
    return missing;
}

Finding finding(std::string check, bool ok, std::string good, std::string bad) {
    return Finding{std::move(check), ok, ok ? std::move(good) : std::move(bad)};
}

}  // namespace

Result<std::vector<Finding>> inspect(Connection& connection, const std::string& schema) {
    auto facts = facts_of(connection);
    if (!facts) return Failure(std::move(facts.error()));
    auto report = schema_report(connection, schema);
    if (!report) return Failure(std::move(report.error()));

    std::vector<Finding> findings;
    findings.push_back(finding("server version", connection.server_version() >= kOldestServerVersion,
                               "PostgreSQL " + facts->version,
                               "PostgreSQL " + facts->version + " is too old: 13 or newer is needed"));
    findings.push_back(finding("primary", !facts->standby, "the server takes writes",
                               "the server is a standby and takes no writes: connect to the primary"));
    findings.push_back(
        finding("encoding", facts->encoding == "UTF8", "the database is UTF8",
                "the database is " + facts->encoding + " and refuses some payloads: create it with encoding UTF8"));
    findings.push_back(finding("synchronous_commit", facts->synchronous_commit != "off",
                               "synchronous_commit is " + facts->synchronous_commit,
                               "synchronous_commit is off: after a crash settled messages may be sent again; "
                               "set it to on for this user"));
    const bool current = report->state == SchemaState::current;
    findings.push_back(
        finding("schema", current, "schema version " + std::to_string(report->found_version), report->advice));
    if (!current) return findings;
    auto missing = missing_grants(connection, schema);
    if (!missing) return Failure(std::move(missing.error()));
    findings.push_back(finding("privileges", missing->empty(), "the user may do all that is needed",
                               "the user lacks privileges: " + *missing));
    return findings;
}

}  // namespace deliverd::store::postgres
