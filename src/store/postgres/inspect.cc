#include <utility>

#include "store/migration_plan.h"
#include "store/postgres/migrator.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

constexpr int kOldestServerVersion = 130000;

struct Facts {
    std::string version;
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
                                     "select current_setting('server_version'), current_setting('synchronous_commit'),"
                                     " pg_is_in_recovery()"};
    auto result = ask(connection, kFacts, Params());
    if (!result) return Failure(std::move(result.error()));
    return Facts{cell(*result, 0, 0), cell(*result, 0, 1), cell(*result, 0, 2) == "t"};
}

/// What this user lacks on what is there, as the grants to run; empty when nothing. Asks the catalog by oid: the
/// functions that take names fail where the schema itself may not be used. Functions that only triggers call are
/// nobody's: they run with their owner's rights.
Result<std::string> missing_grants(Connection& connection, const std::string& schema) {
    static const Statement kGrants = {
        "inspect_grants",
        "with needed_table (nspname, relname, privileges) as (values"
        "  ('deliverd'::name, 'migrations'::name, '{select}'::text[]),"
        "  ('deliverd', 'leases', '{select,insert,update}'), ('deliverd', 'chores', '{select,insert,update}'),"
        "  ('deliverd', 'shards', '{select,insert,update,delete}'), ('deliverd', 'relays', "
        "'{select,insert,update,delete}'),"
        "  ('deliverd', 'event_failures', '{select,insert,update,delete}'),"
        "  ('deliverd', 'imports', '{select,insert,delete}'),"
        "  ('deliverd', 'redrives', '{select,insert,update,delete}'), ('deliverd', 'event_tables', "
        "'{select,insert,update}'),"
        "  ('dlq', 'dlq_messages', '{select,insert,update,delete}'), ('dlq', 'dlq_counts', '{select}'),"
        "  ('dlq', 'dlq_dead', '{select}'),"
        "  ('dlq', 'dlq_audit', '{select,insert,delete}'),"
        "  ($1::name, 'outbox_memory', '{select,insert,update}'), ($1::name, 'outbox_audit', '{select,insert}'),"
        "  ($1::name, 'outbox_orders', '{select,insert,update}'),"
        "  ($1::name, 'idempo_ledger', '{select,insert,update,delete}')),"
        " present as (select c.oid, n.nspname, c.relname, t.privileges from needed_table t"
        "  join pg_catalog.pg_namespace n using (nspname)"
        "  join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.relname),"
        " lacking (place, what) as ("
        "  select 1, 'usage on schema ' || quote_ident(nspname) from pg_catalog.pg_namespace"
        "   where nspname in ('deliverd', 'dlq', $1::name) and not has_schema_privilege(oid, 'usage')"
        "  union all"
        "  select 2, array_to_string(privileges, ', ') || ' on ' || quote_ident(nspname) || '.' || quote_ident(relname)"
        "   from present where exists ("
        "    select from unnest(privileges) as p (name) where not has_table_privilege(present.oid, p.name))"
        "  union all"
        "  select 3, 'usage on sequence ' || quote_ident(p.nspname) || '.' || quote_ident(s.relname)"
        "   from present p join pg_catalog.pg_depend d on d.refobjid = p.oid and d.deptype = 'a'"
        "    and d.refclassid = 'pg_catalog.pg_class'::regclass and d.classid = 'pg_catalog.pg_class'::regclass"
        "   join pg_catalog.pg_class s on s.oid = d.objid"
        "   where case when s.relkind = 'S' then not has_sequence_privilege(s.oid, 'usage') end"
        "  union all"
        "  select 4, 'execute on function ' || string_agg(p.oid::regprocedure::text, ', ' order by p.proname)"
        "   from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace"
        "   where n.nspname = 'deliverd' and p.prorettype <> 'trigger'::regtype and p.proname <> 'sum_up_letters'"
        "    and not has_function_privilege(p.oid, 'execute')"
        "   having count(*) > 0)"
        " select 'grant ' || what || ' to ' || quote_ident(current_user) || ';' from lacking order by place, what"};
    Params params;
    params.literal(schema);
    auto result = ask(connection, kGrants, params);
    if (!result) return Failure(std::move(result.error()));
    std::string missing;
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        missing += (missing.empty() ? "" : " ") + cell(*result, row, 0);
    }
    return missing;
}

/// Who else may create objects in the schema, as a list for people; `everyone` among them: PUBLIC.
Result<std::string> creators_in(Connection& connection, const std::string& schema) {
    static const Statement kCreators = {
        "inspect_creators",
        "select coalesce(string_agg(case when a.grantee = 0 then 'everyone' else r.rolname::text end, ', '"
        "  order by a.grantee), '')"
        " from pg_catalog.pg_namespace n"
        " cross join lateral aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a"
        " left join pg_catalog.pg_roles r on r.oid = a.grantee"
        " where n.nspname = $1::name and a.privilege_type = 'CREATE' and a.grantee <> n.nspowner"
        "  and r.rolname is distinct from current_user"};
    Params params;
    params.literal(schema);
    auto result = ask(connection, kCreators, params);
    if (!result) return Failure(std::move(result.error()));
    return cell(*result, 0, 0);
}

Finding finding(std::string check, bool ok, std::string good, std::string bad) {
    return Finding{std::move(check), ok, ok ? std::move(good) : std::move(bad)};
}

}  // namespace

Result<std::vector<Finding>> inspect(Connection& connection, const std::string& schema) {
    auto facts = facts_of(connection);
    if (!facts) return Failure(std::move(facts.error()));
    auto missing = missing_grants(connection, schema);
    if (!missing) return Failure(std::move(missing.error()));
    auto creators = creators_in(connection, schema);
    if (!creators) return Failure(std::move(creators.error()));
    auto report = schema_report(connection, schema);
    // Without the right to look at the schema the grants are the finding.
    if (!report && missing->empty()) return Failure(std::move(report.error()));

    std::vector<Finding> findings;
    findings.push_back(finding("server version", connection.server_version() >= kOldestServerVersion,
                               "PostgreSQL " + facts->version,
                               "PostgreSQL " + facts->version + " is too old: 13 or newer is needed"));
    findings.push_back(finding("primary", !facts->standby, "the server takes writes",
                               "the server is a standby and takes no writes: connect to the primary"));
    findings.push_back(finding("synchronous_commit", facts->synchronous_commit != "off",
                               "synchronous_commit is " + facts->synchronous_commit,
                               "synchronous_commit is off: after a crash settled messages may be sent again; "
                               "set it to on for this user"));
    const bool current = report && report->state == SchemaState::current;
    if (report) {
        findings.push_back(
            finding("schema", current, "schema version " + std::to_string(report->found_version), report->advice));
    }
    if (current || !missing->empty()) {
        findings.push_back(finding("privileges", missing->empty(), "the user may do all that is needed",
                                   "the user lacks privileges; run as the owner of the tables: " + *missing));
    }
    // deliverd itself takes no operator or function from there. The application's sessions and triggers may.
    findings.push_back(finding(
        "schema " + schema, !creators->starts_with("everyone"),
        creators->empty() ? "only its owner creates objects in it" : "others may create objects in it: " + *creators,
        "others may create objects in it, and what they create may run with the rights of whoever "
        "uses the schema: " +
            *creators + "; run as its owner: revoke create on schema " + quoted(schema) + " from public;"));
    return findings;
}

}  // namespace deliverd::store::postgres
