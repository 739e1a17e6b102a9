// The decoder reads what a real PostgreSQL writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "store/postgres/testing/test_server.h"
#include "wal/pgoutput.h"

namespace deliverd::wal {
namespace {

using store::postgres::PlainConnection;
using store::postgres::TestDatabase;
using testing::ElementsAre;

/// A database with a table, its publication and a slot. decoded() reads the slot to its end through SQL, which gives
/// the same messages as streaming.
class PgoutputServerTest : public testing::Test {
protected:
    PgoutputServerTest() : plain_(database_.conninfo()) {
        run("create table outbox (id bigserial primary key, aggregate_id text not null, payload jsonb, metadata "
            "jsonb)");
        run("create publication events for table outbox");
        // Slots belong to the whole server: their name must be as unique as the database's. In a statement of its own:
        // where other databases change meanwhile, PostgreSQL 15 mixes up the buffers of a table that is scanned with it
        // ("buffer 1 is not owned by resource owner").
        const auto oid = plain_.column("select oid from pg_database where datname = current_database()");
        run("select pg_create_logical_replication_slot('slot_" + oid.at(0) + "', 'pgoutput')");
    }
    void TearDown() override {
        plain_.column(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = current_database()");
    }

    void run(const std::string& sql) { plain_.column(sql); }

    /// One line per change: rows as "insert TABLE: COLUMN=VALUE …" of aggregate and payload.
    std::vector<std::string> decoded() {
        std::vector<std::string> lines;
        const std::string sql =
            "select data from pg_logical_slot_get_binary_changes((select slot_name from pg_replication_slots where"
            " database = current_database()), null, null, 'proto_version', '1', 'publication_names', 'events',"
            " 'messages', 'true')";
        PGresult* result = PQexecParams(plain_.raw(), sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 1);
        EXPECT_EQ(PQresultStatus(result), PGRES_TUPLES_OK) << PQresultErrorMessage(result);
        Decoder decoder;
        std::map<std::uint32_t, std::pair<std::string, std::vector<std::string>>> tables;
        for (int row = 0; row < PQntuples(result); ++row) {
            const std::string_view bytes(PQgetvalue(result, row, 0),
                                         static_cast<std::size_t>(PQgetlength(result, row, 0)));
            const auto change = decoder.decode(bytes);
            if (!change) {
                lines.push_back(change.error().message);
                continue;
            }
            if (std::holds_alternative<Begin>(*change)) lines.emplace_back("begin");
            if (std::holds_alternative<Commit>(*change)) lines.emplace_back("commit");
            if (const auto* relation = std::get_if<Relation>(&*change)) {
                auto& [name, columns] = tables[relation->id];
                name = std::string(relation->schema) + "." + std::string(relation->table);
                columns.clear();
                for (const RelationColumn& column : relation->columns) columns.emplace_back(column.name);
            }
            if (const auto* insert = std::get_if<Insert>(&*change)) {
                const auto& [name, columns] = tables[insert->relation];
                EXPECT_EQ(columns.size(), insert->row.size());
                std::string line = "insert " + name + ":";
                for (std::size_t i = 1; i < insert->row.size(); ++i) {
                    const Cell& cell = insert->row[i];
                    if (cell.kind != Cell::Kind::null) line += " " + columns[i] + "=" + std::string(cell.bytes);
                }
                lines.push_back(std::move(line));
            }
            if (const auto* message = std::get_if<LogicalMessage>(&*change)) {
                lines.push_back((message->transactional ? "message " : "immediate ") + std::string(message->prefix) +
                                ": " + std::string(message->content));
            }
            if (const auto* other = std::get_if<Other>(&*change)) lines.emplace_back(1, other->kind);
        }
        PQclear(result);
        return lines;
    }

    TestDatabase database_;
    PlainConnection plain_;
};

TEST_F(PgoutputServerTest, RowsArriveInTheirTransaction) {
    run("insert into outbox (aggregate_id, payload) values ('a', '{\"n\": 1.50}'), ('b', null)");
    EXPECT_THAT(decoded(), ElementsAre("begin", "insert public.outbox: aggregate_id=a payload={\"n\": 1.50}",
                                       "insert public.outbox: aggregate_id=b", "commit"));
}

TEST_F(PgoutputServerTest, ARowThatNoSelectEverSeesArrives) {
    run("begin; insert into outbox (aggregate_id) values ('a'); delete from outbox; commit");
    EXPECT_THAT(decoded(), ElementsAre("begin", "insert public.outbox: aggregate_id=a", "D", "commit"));
}

TEST_F(PgoutputServerTest, WhatWasRolledBackDoesNotArrive) {
    run("begin; insert into outbox (aggregate_id) values ('gone'); rollback");
    run("begin; insert into outbox (aggregate_id) values ('a'); savepoint s; insert into outbox (aggregate_id) values"
        " ('gone'); rollback to s; insert into outbox (aggregate_id) values ('b'); commit");
    EXPECT_THAT(decoded(), ElementsAre("begin", "insert public.outbox: aggregate_id=a",
                                       "insert public.outbox: aggregate_id=b", "commit"));
}

TEST_F(PgoutputServerTest, MessagesArriveWithTheirTransactionOrAtOnce) {
    run("begin; select pg_logical_emit_message(true, 'deliverd.events', 'in'); rollback");
    run("begin; select pg_logical_emit_message(false, 'deliverd.events', 'out'); rollback");
    run("begin; select pg_logical_emit_message(true, 'deliverd.events', 'in'); commit");
    EXPECT_THAT(decoded(),
                ElementsAre("immediate deliverd.events: out", "begin", "message deliverd.events: in", "commit"));
}

TEST_F(PgoutputServerTest, AnAlteredTableIsDescribedAgain) {
    run("insert into outbox (aggregate_id) values ('a')");
    run("alter table outbox drop column metadata");
    run("alter table outbox rename column payload to content");
    run("alter table outbox add column note text");
    run("insert into outbox (aggregate_id, content, note) values ('b', '1', 'x')");
    EXPECT_THAT(decoded(), ElementsAre("begin", "insert public.outbox: aggregate_id=a", "commit", "begin",
                                       "insert public.outbox: aggregate_id=b content=1 note=x", "commit"));
}

TEST_F(PgoutputServerTest, ALargeValueArrivesWhole) {
    run("insert into outbox (aggregate_id, payload) select 'a', to_jsonb(string_agg(md5(i::text), ''))"
        " from generate_series(1, 100000) i");
    const auto lines = decoded();
    ASSERT_EQ(lines.size(), 3U);
    const auto expected =
        plain_.column("select 'insert public.outbox: aggregate_id=a payload=' || payload::text from outbox");
    EXPECT_EQ(lines[1], expected.front());
}

}  // namespace
}  // namespace deliverd::wal
