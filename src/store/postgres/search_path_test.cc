// What other roles create in a schema that everyone searches never runs as deliverd's role.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/postgres/testing/test_events.h"
#include "store/postgres/testing/test_role.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SearchPath : public PostgresEvents {
protected:
    /// Operators that fit the columns better than PostgreSQL's own and note who called them.
    static void set_traps(PlainConnection& attacker) {
        attacker.column(
            "create table public.caught (who text); grant insert on public.caught to public;"
            " create function public.trap(a varchar, b varchar) returns boolean language plpgsql as"
            " 'begin insert into public.caught values (current_user); return a::text = b::text; end';"
            " create function public.trap(a varchar, b text) returns boolean language plpgsql as"
            " 'begin insert into public.caught values (current_user); return a::text = b; end';"
            " create operator public.= (leftarg = varchar, rightarg = varchar, function = public.trap);"
            " create operator public.= (leftarg = varchar, rightarg = text, function = public.trap)");
    }

    Finding creators() {
        for (const Finding& finding : must(store_.database().inspect())) {
            if (finding.check == "schema public") return finding;
        }
        return Finding{};
    }
};

TEST_F(SearchPath, OperatorsOfOtherRolesAreNotRun) {
    TestRole attacker(store_, "deliverd_trapper");
    attacker.grant("create, usage on schema public");
    PlainConnection hand = attacker.connect();
    set_traps(hand);

    const auto database = store_.open_again();
    const auto events = must(database->event_outbox(table()));
    add("a");
    add("a");
    const std::vector<EventRow> rows = read(*events);
    ASSERT_EQ(rows.size(), 2U);
    const ShardLease held = lease(*events, "r", rows[0].shard);
    EXPECT_EQ(settle(*events, "r", settlement(rows[0], held, SettleKind::retry)), EventSettled::applied);
    EventRead behind;
    behind.shards = {0, 1, 2, 3};
    behind.follow = {{"a", std::nullopt}};
    behind.follow_limit = 10;
    behind.limit = 10;
    must(events->read(behind));
    EXPECT_EQ(must(must(database->events("cli:ann"))->by_aggregate("a", 10)).size(), 2U);
    EXPECT_THAT(hand.column("select count(*) from public.caught"), ElementsAre("0"));
}

/// Triggers of others run in deliverd's session: one that finds its tables by the search_path says so itself.
TEST_F(SearchPath, TablesOfOtherSchemasAndTypesAreStillRelayed) {
    store_.execute(
        "create extension citext; create schema shop; create type shop.kind as enum ('Paid');"
        " create domain shop.key as varchar(40);"
        " create table shop.events (id int primary key, aggregateid citext not null, aggregatetype shop.key,"
        " type shop.kind, payload text);"
        " create table shop.keyed (id int primary key, aggregateid shop.key, aggregatetype text, type text,"
        " payload text);"
        " insert into shop.events values (1, 'A', 'order', 'Paid', '{}'), (2, 'A', 'order', 'Paid', '{}');"
        " insert into shop.keyed values (1, 'A', 'order', 'Paid', '{}'), (2, 'A', 'order', 'Paid', '{}')");
    for (const char* name : {"shop.events", "shop.keyed"}) {
        EventTable foreign = table();
        foreign.lane = name;
        foreign.table = name;
        foreign.columns = EventColumns::debezium();
        const auto theirs = outbox(foreign);
        const std::vector<EventRow> rows = read(*theirs);
        ASSERT_THAT(ids(rows), ElementsAre("1", "2")) << name;
        EXPECT_EQ(rows[0].message.type, "Paid");
        EXPECT_EQ(rows[0].message.aggregate_type, "order");
        const ShardLease held = lease(*theirs, "r", rows[0].shard);
        EXPECT_EQ(settle(*theirs, "r", settlement(rows[0], held, SettleKind::retry)), EventSettled::applied);
        EXPECT_THAT(ids(read(*theirs)), ElementsAre("1")) << "due at once, and the other waits: " << name;
        EventRead follow;
        follow.shards = {0, 1, 2, 3};
        follow.follow = {{"A", std::nullopt}};
        follow.follow_limit = 10;
        EXPECT_THAT(ids(must(theirs->read(follow)).rows), ElementsAre("1", "2")) << name;
    }
}

TEST_F(SearchPath, TheDoctorNamesWhoMayCreateInTheSchema) {
    EXPECT_TRUE(creators().ok) << creators().message;
    TestRole builder(store_, "deliverd_builder");
    builder.grant("create on schema public");
    EXPECT_TRUE(creators().ok) << creators().message;
    EXPECT_THAT(creators().message, HasSubstr(builder.name()));
    store_.execute("grant create on schema public to public");
    EXPECT_FALSE(creators().ok);
    EXPECT_THAT(creators().message, HasSubstr("revoke create on schema \"public\" from public"));
}

}  // namespace
}  // namespace deliverd::store::postgres
