// Every statement of the rooms' .sql files is one that PostgreSQL can prepare after the migrations.
#include "store/postgres/connection/statements.h"

#include <gtest/gtest.h>

#include "store/postgres/events/event_sql.h"
#include "store/postgres/events/statements.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/statements.h"
#include "store/postgres/queues/statements.h"
#include "store/postgres/statements.h"
#include "store/postgres/testing/test_events.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;

class PostgresStatements : public PostgresEvents {
protected:
    void expect_prepares(std::string_view name, std::string_view text) {
        SCOPED_TRACE(name);
        PGconn* connection = store_.plain().raw();
        const client::PgResult prepared(PQprepare(connection, "", std::string(text).c_str(), 0, nullptr));
        EXPECT_EQ(PQresultStatus(prepared.get()), PGRES_COMMAND_OK) << PQerrorMessage(connection) << text;
    }
    /// All that name {schema} at most.
    void expect_all_prepare(Statements::Texts texts) {
        for (const auto& [name, text] : texts) {
            const std::string sql = replaced(std::string(text), "{schema}", "public");
            if (sql.find('{') == std::string::npos || sql.find("'{") != std::string::npos) expect_prepares(name, sql);
        }
    }
    void expect_all_prepare(const EventStatements& sql) {
        for (const Statement* statement :
             {&sql.of_all.due, &sql.of_all.follow, &sql.of_all.forward, &sql.of_some.due, &sql.of_some.follow,
              &sql.of_some.forward, &sql.settle.sent, &sql.settle.failed, &sql.settle_past_locks.sent,
              &sql.settle_past_locks.failed, &sql.letters, &sql.keep_table, &sql.lag, &sql.counts}) {
            expect_prepares(statement->name, statement->sql);
        }
    }
    EventStatements statements_for(const EventTable& table) {
        const SessionSettings settings{std::chrono::seconds(30), std::chrono::seconds(5), std::chrono::seconds(30)};
        const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        const WaitLimit limit;
        auto connection = must(Connection::open(store_.server().conninfo(), settings, deadline, limit));
        const TablePlace place = TablePlace::of(table, "public");
        return {table, place, must(read_shape(*connection, place, table.columns)), "public"};
    }
};

TEST_F(PostgresStatements, ArePrepared) {
    expect_all_prepare(sql::all);
    expect_all_prepare(connection::sql::all);
    expect_all_prepare(queues::sql::all);
    expect_all_prepare(events::sql::all);
    expect_all_prepare(letters::sql::all);
}

TEST_F(PostgresStatements, OfEventTablesArePrepared) {
    EventTable own = table();
    own.block_behind_dead = true;
    expect_all_prepare(statements_for(own));
    store_.execute(
        "create table foreign_events (id uuid primary key, aggregatetype text, aggregateid text, type text,"
        " payload jsonb, created timestamptz, event text)");
    EventTable foreign = own;
    foreign.table = "foreign_events";
    foreign.columns = EventColumns::debezium();
    expect_all_prepare(statements_for(foreign));
    foreign.columns.event_id = "event";
    foreign.columns.created_at = "created";
    expect_all_prepare(statements_for(foreign));
}

TEST_F(PostgresStatements, WithPartsArePrepared) {
    for (const char* payload : {"i.payload::jsonb", "deliverd.json_or_null(i.payload)"}) {
        expect_prepares("store_letters", filled(letters::sql::store_letters, {{"once", "(id)"}, {"payload", payload}}));
    }
    LetterQuery query;
    query.topic = "t";
    query.text = "x";
    expect_prepares("list_letters", select_page(query).statement.sql);
    query.status = LetterStatus::dead;
    expect_prepares("list_letters", select_page(query).statement.sql);
    expect_prepares("count", select_total(query).statement.sql);
    expect_prepares("return_events", filled(letters::sql::return_events, {{"table", "public.outbox"},
                                                                          {"id", "id"},
                                                                          {"id_type", "bigint"},
                                                                          {"dead_at", "dead_at"},
                                                                          {"retry_count", "retry_count"},
                                                                          {"next_attempt_at", "next_attempt_at"},
                                                                          {"unpublished", "true"}}));
    expect_prepares("return_event_lines", filled(letters::sql::return_event_lines, {{"table", "public.outbox"},
                                                                                    {"id", "id"},
                                                                                    {"id_type", "bigint"},
                                                                                    {"same_event", "true"},
                                                                                    {"unpublished", "true"}}));
    expect_prepares("remove_published", filled(events::sql::remove_published, {{"table", "public.outbox"},
                                                                               {"id", "id"},
                                                                               {"id_type", "bigint"},
                                                                               {"published", "published"},
                                                                               {"published_at", "published_at"}}));
}

}  // namespace
}  // namespace deliverd::store::postgres
