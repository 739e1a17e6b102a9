#include <utility>

#include "base/try.h"
#include "store/migration_plan.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/parts.h"
#include "store/postgres/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

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

Result<std::string> creators_in(Connection& connection, const std::string& schema) {
    TRY_ASSIGN(auto result, ask(connection, sql::creators_in_schema, Params(std::optional(schema))));
    return std::string(text_at(result.get(), 0, 0));
}

Finding finding(std::string check, bool ok, std::string good, std::string bad) {
    return Finding{std::move(check), ok, ok ? std::move(good) : std::move(bad)};
}

}  // namespace

Result<std::vector<Finding>> inspect(Connection& connection, const std::string& schema) {
    TRY_ASSIGN(auto facts, ask(connection, sql::server_facts));
    std::string version;
    std::string synchronous_commit;
    bool standby = false;
    read_row(facts.get(), 0, version, synchronous_commit, standby);
    TRY_ASSIGN(auto missing, missing_grants(connection, schema));
    TRY_ASSIGN(auto creators, creators_in(connection, schema));
    auto report = schema_report(connection, schema);
    // Without the right to look at the schema the grants are the finding.
    if (!report && missing.empty()) return Failure(std::move(report.error()));

    std::vector<Finding> findings;
    findings.push_back(finding("server version", connection.server_version() >= kOldestServerVersion,
                               "PostgreSQL " + version,
                               "PostgreSQL " + version + " is too old: 13 or newer is needed"));
    findings.push_back(finding("primary", !standby, "the server takes writes",
                               "the server is a standby and takes no writes: connect to the primary"));
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
        findings.push_back(finding("privileges", missing.empty(), "the user may do all that is needed",
                                   "the user lacks privileges; run as the owner of the tables: " + missing));
    }
    // deliverd itself takes no operator or function from there. The application's sessions and triggers may.
    findings.push_back(finding(
        "schema " + schema, !creators.starts_with("everyone"),
        creators.empty() ? "only its owner creates objects in it" : "others may create objects in it: " + creators,
        "others may create objects in it, and what they create may run with the rights of whoever "
        "uses the schema: " +
            creators + "; run as its owner: revoke create on schema " + quoted(schema) + " from public;"));
    return findings;
}

}  // namespace deliverd::store::postgres
