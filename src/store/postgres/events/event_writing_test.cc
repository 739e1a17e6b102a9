// Writing events on PostgreSQL, and hearing of it: the function, plain INSERTs by a user with few rights,
// notifications.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "store/events.h"
#include "store/postgres/testing/test_server.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;
using std::chrono::seconds;

class EventWriting : public ::testing::Test {
protected:
    static EventTable table() {
        EventTable table;
        table.lane = "events";
        return table;
    }
    std::string add(PlainConnection& connection, const std::string& aggregate = "a") {
        return connection.column("select deliverd.add_event('" + aggregate + "', 'OrderCreated', '{\"n\": 1}')").at(0);
    }
    void sleep_now(bool asleep = true) {
        must(outbox_->tend("r", seconds(60)));
        must(outbox_->set_asleep("r", asleep));
    }
    /// What a plain listener heard so far.
    static int heard(PlainConnection& connection) {
        connection.column("select 1");  // what was committed before is delivered with the answer
        int count = 0;
        while (PGnotify* notification = PQnotifies(connection.raw())) {
            ++count;
            PQfreemem(notification);
        }
        return count;
    }

    PostgresTestStore store_{true};
    PlainConnection writer_{store_.server().conninfo()};
    std::unique_ptr<EventOutbox> outbox_ = must(store_.database().event_outbox(table()));
};

TEST_F(EventWriting, NotifiesOnceATransactionAndOnlyWhileSomeoneSleeps) {
    PlainConnection ear(store_.server().conninfo());
    ear.column("listen deliverd_outbox");
    add(writer_);
    EXPECT_EQ(heard(ear), 0) << "nobody sleeps";
    sleep_now();
    writer_.column("begin");
    for (int n = 0; n < 3; ++n) add(writer_);
    writer_.column("insert into outbox (aggregate_id, event_type, payload) values ('b', 'T', '{}'), ('c', 'T', '{}')");
    EXPECT_EQ(heard(ear), 0) << "not before the commit";
    writer_.column("commit");
    EXPECT_EQ(heard(ear), 1);
    writer_.column("begin");
    add(writer_);
    writer_.column("rollback");
    EXPECT_EQ(heard(ear), 0);
    writer_.column("set deliverd.notify = off");
    add(writer_);
    EXPECT_EQ(heard(ear), 0) << "not wanted";
    writer_.column("reset deliverd.notify");
    add(writer_);
    EXPECT_EQ(heard(ear), 1);
    sleep_now(false);
    add(writer_);
    EXPECT_EQ(heard(ear), 0) << "awake";
    sleep_now();
    store_.execute("update deliverd.relays set expires_at = now() - interval '1 s'");
    add(writer_);
    EXPECT_EQ(heard(ear), 0) << "it sleeps for ever";
}

TEST_F(EventWriting, AListenerHearsWritersAndReconnects) {
    std::atomic<int> calls = 0;
    sleep_now();
    auto listener = outbox_->listen([&] { ++calls; });
    ASSERT_NE(listener, nullptr);
    EXPECT_TRUE(wait_until([&] { return calls == 1; })) << "connected";
    add(writer_);
    EXPECT_TRUE(wait_until([&] { return calls == 2; }));
    add(writer_);
    EXPECT_TRUE(wait_until([&] { return calls == 3; }));
    store_.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'deliverd'"
        " and datname = current_database() and query ilike 'listen%'");
    EXPECT_TRUE(wait_until([&] { return calls == 4; })) << "connected again";
    add(writer_);
    EXPECT_TRUE(wait_until([&] { return calls == 5; }));
    listener.reset();
    add(writer_);
    EXPECT_TRUE(wait_until([&] {
        return store_.value(
                   "select count(*) from pg_stat_activity where application_name = 'deliverd'"
                   " and datname = current_database() and query ilike 'listen%'") == "0";
    }));
    EXPECT_EQ(calls, 5);
}

/// The server does not let anyone in: the thread waits between its attempts, and still ends at once.
TEST_F(EventWriting, AListenerWithoutAServerStops) {
    NullLog log;
    PostgresOptions options = store_.server().options();
    options.conninfo += " dbname=nowhere";
    const auto database = must(open_postgres(std::move(options), log));
    std::atomic<int> calls = 0;
    {
        const auto nowhere = must(database->event_outbox(table()));
        const auto listener = nowhere->listen([&] { ++calls; });
    }
    EXPECT_EQ(calls, 0);
}

TEST_F(EventWriting, AUserWhoMayOnlyInsertCanWrite) {
    store_.execute(
        "drop role if exists deliverd_app_writer; create role deliverd_app_writer;"
        " grant usage on schema deliverd to deliverd_app_writer; grant insert on outbox to deliverd_app_writer;"
        " grant usage on sequence outbox_id_seq to deliverd_app_writer");
    sleep_now();
    PlainConnection ear(store_.server().conninfo());
    ear.column("listen deliverd_outbox");
    writer_.column("set role deliverd_app_writer");
    EXPECT_EQ(add(writer_), "1");
    writer_.column("insert into outbox (aggregate_id, event_type, payload) values ('a', 'T', '{}')");
    EXPECT_EQ(heard(ear), 2);
    EXPECT_EQ(store_.value("select count(*) from outbox"), "2");
    EXPECT_THROW(writer_.column("select * from outbox"), std::runtime_error);
    EXPECT_THROW(writer_.column("select * from deliverd.relays"), std::runtime_error);
    writer_.column("reset role");
    store_.execute("drop owned by deliverd_app_writer; drop role deliverd_app_writer");
}

TEST_F(EventWriting, TheFunctionRefusesWhatIsNoEvent) {
    for (const char* call :
         {"('', 'T', '{}')", "('a', '', '{}')", "('a', 'T', null)", "('a', 'T', '{}', '[]')", "(null, 'T', '{}')",
          "(repeat('x', 256), 'T', '{}')", "('a', 'T', to_jsonb(repeat('x', 16777215)))",
          "('a', 'T', '{}', jsonb_build_object('a', repeat('x', 65536)))"}) {
        EXPECT_THROW(writer_.column("select deliverd.add_event" + std::string(call)), std::runtime_error) << call;
    }
    writer_.column("select deliverd.add_event('a', 'T', '{}', null)");
    EXPECT_EQ(store_.value("select metadata from outbox"), "{}");
    writer_.column("select deliverd.add_event('a', 'T', to_jsonb(repeat('x', 16777214)))");
}

TEST(EventMigration, LeavesATableOfThatNameAsItIs) {
    PostgresTestStore store(false);
    store.execute("create table outbox (id serial primary key, what text); insert into outbox (what) values ('mine')");
    must(store.database().migrate(false));
    EXPECT_EQ(must(store.database().schema()).state, SchemaState::current);
    EXPECT_EQ(store.value("select what from outbox"), "mine");
    EXPECT_EQ(store.value("select count(*) from pg_trigger where tgrelid = 'outbox'::regclass"), "0");
    EXPECT_EQ(store.value("select count(*) from information_schema.columns where table_name = 'outbox'"), "2");
    EXPECT_THROW(store.execute("select deliverd.add_event('a', 'T', '{}')"), std::runtime_error);
    const auto findings = must(must(store.database().event_outbox({.lane = "events"}))->inspect());
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_FALSE(findings[0].ok);
}

}  // namespace
}  // namespace deliverd::store::postgres
