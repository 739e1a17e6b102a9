#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/postgres/testing/test_role.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;
using ::testing::ElementsAreArray;

/// A new function needs a line here. `public` is only for what every role with USAGE on the schema may call; `granted`
/// functions are called by roles that were granted EXECUTE; nobody but the owner needs `internal` ones.
TEST(FunctionGrants, EveryFunctionHasALine) {
    PostgresTestStore store(true);
    const TestRole anyone(store, "deliverd_anyone");
    const std::vector<std::string> expected = {
        "deliverd.ack_sent(bigint,text,text) granted",
        "deliverd.add_event(text,text,jsonb,jsonb) public",
        "deliverd.check_dedup(text,text) granted",
        "deliverd.claim_outbox(text,integer,double precision) granted",
        "deliverd.count_letters() internal definer",
        "deliverd.count_no_letters() internal definer",
        "deliverd.delete_published(double precision,integer) granted",
        "deliverd.drop_published_partition(regclass,regclass,name) granted",
        "deliverd.enqueue_memory(text,text,bigint,bigint) granted",
        "deliverd.events_by_aggregate(text,integer) granted",
        "deliverd.fail_retry(bigint,text,text,timestamp with time zone) granted",
        "deliverd.fetch_unpublished(integer) granted",
        "deliverd.headers_of(jsonb) granted",
        "deliverd.increment_retry_count(bigint,text) granted",
        "deliverd.json_or_null(bytea) granted",
        "deliverd.json_or_null(text) granted",
        "deliverd.keep_dead_memory(bigint,text,text) granted definer",
        "deliverd.keep_other_letter() internal definer",
        "deliverd.list_dead_letters() internal definer",
        "deliverd.list_no_dead_letters() internal definer",
        "deliverd.mark_dead_by_worker(bigint,text,text) granted",
        "deliverd.mark_published(bigint) granted",
        "deliverd.outbox_stats() granted",
        "deliverd.published_partition(regclass,name,name,name,interval) granted",
        "deliverd.renew_lease(bigint,text) granted",
        "deliverd.renew_lease_batch(bigint[],text) granted",
        "deliverd.show_event(bigint) granted",
        "deliverd.show_memory(bigint) granted",
        "deliverd.sum_up_letters(bigint) internal definer",
        "deliverd.wake_relays() internal definer",
    };
    // A role that follows the doctor's advice is what tells granted from internal.
    TestRole relay(store, "deliverd_relay");
    NullLog log;
    PostgresOptions options = store.server().options();
    options.conninfo += " user=" + relay.name();
    const auto database = must(open_postgres(options, log));
    for (const Finding& finding : must(database->inspect())) {
        if (finding.check != "privileges") continue;
        ASSERT_FALSE(finding.ok);
        store.execute(finding.message.substr(finding.message.find("grant ")));
    }
    EXPECT_THAT(
        store.plain().column("select p.oid::regprocedure || case when has_function_privilege('" + anyone.name() +
                             "', p.oid, 'execute') then ' public' when has_function_privilege('" + relay.name() +
                             "', p.oid, 'execute') then ' granted' else ' internal' end"
                             " || case when p.prosecdef then ' definer' else '' end"
                             " from pg_proc p where p.pronamespace in ('deliverd'::regnamespace, 'dlq'::regnamespace,"
                             " 'public'::regnamespace) order by p.oid::regprocedure::text collate \"C\""),
        ElementsAreArray(expected));
    EXPECT_THAT(store.plain().column("select proname from pg_proc where pronamespace = 'deliverd'::regnamespace"
                                     " and not coalesce('search_path=pg_catalog, pg_temp' = any (proconfig), false)"),
                ::testing::IsEmpty());
}

/// The trigger functions run with their owner's rights: on a table of the attacker's own they emptied these two.
TEST(FunctionGrants, AWriterOfEventsCannotAttachTriggerFunctions) {
    PostgresTestStore store(true);
    store.execute(
        "insert into dlq.dlq_messages (original_topic, status) values ('a', 'DEAD'), ('a', 'DEAD'), ('b', 'PENDING')");
    TestRole writer(store, "deliverd_writer");
    writer.grant("usage on schema deliverd");
    writer.grant("insert on outbox");
    writer.grant("usage on sequence outbox_id_seq");
    PlainConnection attacker = writer.connect();
    EXPECT_THAT(attacker.column("select deliverd.add_event('a', 'T', '{}')"), ::testing::ElementsAre("1"));
    attacker.column("create temp table mine (id int)");
    for (const char* function : {"count_no_letters", "list_no_dead_letters", "count_letters", "list_dead_letters"}) {
        const std::string attack = "create trigger attack_" + std::string(function) +
                                   " after truncate on mine for each statement execute function deliverd." + function +
                                   "()";
        EXPECT_THROW(attacker.column(attack), std::runtime_error) << function;
    }
    attacker.column("truncate mine");
    EXPECT_THROW(attacker.column("select deliverd.sum_up_letters(1)"), std::runtime_error);
    EXPECT_EQ(store.value("select sum(letters) from dlq.dlq_counts"), "3");
    EXPECT_EQ(store.value("select count(*) from dlq.dlq_dead"), "2");
}

/// The functions were everybody's before: the migration keeps them for the roles that could use them.
TEST(FunctionGrants, RolesThatWorkedBeforeTheMigrationStillDo) {
    PostgresTestStore store(false);
    const auto steps = must(store.database().migrate(true));
    for (const MigrationStep& step : steps) {
        if (step.version < 10) store.execute(step.sql);
    }
    TestRole worker(store, "deliverd_worker");
    worker.grant("usage on schema deliverd, public");
    worker.grant(
        "select, insert, update (status, retry_count, next_attempt_at, locked_at, locked_by, last_error,"
        " updated_at) on outbox_memory");
    worker.grant("usage on sequence outbox_memory_outbox_id_seq");
    TestRole reader(store, "deliverd_reader");
    reader.grant("usage on schema deliverd, public");
    reader.grant("select on outbox, outbox_memory");
    TestRole relay(store, "deliverd_old_relay");
    relay.grant("usage on schema deliverd, public");
    relay.grant("select, insert, update on deliverd.leases");
    must(store.database().migrate(false));

    PlainConnection at_work = worker.connect();
    EXPECT_THAT(at_work.column("select deliverd.enqueue_memory('s', 'p')"), ::testing::ElementsAre("1"));
    EXPECT_THAT(at_work.column("select outbox_id from deliverd.claim_outbox('w')"), ::testing::ElementsAre("1"));
    EXPECT_THAT(at_work.column("select deliverd.renew_lease(1, 'w')"), ::testing::ElementsAre("t"));
    EXPECT_THAT(at_work.column("select deliverd.mark_dead_by_worker(1, 'w', 'no')"), ::testing::ElementsAre("t"));
    EXPECT_THROW(at_work.column("select deliverd.mark_published(1)"), std::runtime_error);
    PlainConnection looking = reader.connect();
    EXPECT_THAT(looking.column("select total from deliverd.outbox_stats()"), ::testing::ElementsAre("0"));
    EXPECT_THAT(looking.column("select status from deliverd.show_memory(1)"), ::testing::ElementsAre("dead"));
    EXPECT_THROW(looking.column("select deliverd.claim_outbox('w')"), std::runtime_error);
    EXPECT_THAT(relay.connect().column("select deliverd.json_or_null('1'::text)"), ::testing::ElementsAre("1"));
    EXPECT_EQ(store.value("select count(*) from dlq.dlq_messages"), "1");
}

}  // namespace
}  // namespace deliverd::store::postgres
