// Slots and publications of a real PostgreSQL.
#include "wal/slot_care.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deliverd/error_codes.h"
#include "wal/testing/test_slot.h"

namespace deliverd::wal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using store::TablePlace;
using store::postgres::PlainConnection;
using store::postgres::Pool;
using store::postgres::wait_until;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> texts(const std::vector<TablePlace>& places) {
    std::vector<std::string> out;
    for (const TablePlace& place : places) out.push_back(place.text());
    return out;
}

class SlotCareTest : public SlotTest {
protected:
    [[nodiscard]] static store::postgres::PoolOptions pool_options(const std::string& conninfo) {
        return {.conninfo = conninfo,
                .refresh_conninfo = {},
                .max_connections = 2,
                .connect_timeout = seconds(20),
                .wait = seconds(20),
                .session = {.statement_timeout = seconds(20),
                            .lock_timeout = seconds(20),
                            .idle_in_transaction_timeout = seconds(20)}};
    }
    SlotNames names() { return {slot_, "Events \"1\"", {"public", "outbox"}}; }
    PublicationState published() { return care_.publication().value(); }

    NullLog log_;
    Pool pool_{pool_options(database_.conninfo()), log_};
    SlotCare care_{pool_, names()};
};

TEST_F(SlotCareTest, WithoutASlotTheServerIsDescribed) {
    const auto state = care_.slot().value();
    EXPECT_FALSE(state.exists);
    EXPECT_FALSE(state.active);
    EXPECT_FALSE(state.invalidated());
    EXPECT_FALSE(state.foreign());
    EXPECT_EQ(state.confirmed, 0U);
    EXPECT_EQ(state.lag_bytes, 0);
    EXPECT_EQ(state.retained_bytes, 0);
    EXPECT_GT(state.current, 0U);
    EXPECT_FALSE(state.in_recovery);
    EXPECT_EQ(state.system_identifier, value("select system_identifier from pg_control_system()"));
    EXPECT_EQ(state.wal_level, "logical");
    EXPECT_EQ(state.here, value("select current_database()"));
    EXPECT_EQ(state.role, value("select current_user"));
    EXPECT_TRUE(state.may_replicate);
}

TEST_F(SlotCareTest, ASlotIsMadeOnceAndDescribed) {
    const auto made = care_.create_slot().value();
    EXPECT_TRUE(made.made);
    EXPECT_EQ(made.confirmed, confirmed_by_server());
    const auto again = care_.create_slot().value();
    EXPECT_FALSE(again.made);
    EXPECT_EQ(again.confirmed, made.confirmed);

    run("insert into outbox (aggregate_id) values ('a')");
    const auto state = care_.slot().value();
    EXPECT_TRUE(state.exists);
    EXPECT_EQ(state.plugin, "pgoutput");
    EXPECT_EQ(state.database, state.here);
    EXPECT_FALSE(state.foreign());
    EXPECT_FALSE(state.active);
    EXPECT_EQ(state.active_pid, std::nullopt);
    EXPECT_EQ(state.wal_status, "reserved");
    EXPECT_EQ(state.confirmed, made.confirmed);
    EXPECT_EQ(state.lag_bytes, static_cast<std::int64_t>(state.current - state.confirmed));
    EXPECT_GT(state.lag_bytes, 0);
    EXPECT_LE(state.restart, state.confirmed);
    EXPECT_EQ(state.retained_bytes, static_cast<std::int64_t>(state.current - state.restart));
}

TEST_F(SlotCareTest, AReaderShowsAndKeepsItsSlotFromBeingDropped) {
    make_publication_and_slot();
    auto stream = started();
    const auto state = care_.slot().value();
    EXPECT_TRUE(state.active);
    EXPECT_EQ(std::to_string(state.active_pid.value_or(0)),
              value("select active_pid from pg_replication_slots where slot_name = '" + slot_ + "'"));
    const auto refused = care_.drop_slot();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, kSlotInUse);
    EXPECT_EQ(refused.error().error_class, ErrorClass::retryable);
    stream.reset();
    ASSERT_TRUE(wait_until([&] { return !active(); }));
    EXPECT_TRUE(care_.drop_slot());
    EXPECT_FALSE(care_.slot().value().exists);
    EXPECT_TRUE(care_.drop_slot()) << "it is gone already";
}

TEST_F(SlotCareTest, ASlotOfSomethingElseIsForeign) {
    run("select pg_create_logical_replication_slot('" + slot_ + "', 'test_decoding')");
    EXPECT_TRUE(care_.slot().value().foreign());
    const store::postgres::TestDatabase elsewhere;
    Pool pool(pool_options(elsewhere.conninfo()), log_);
    EXPECT_TRUE(SlotCare(pool, names()).slot().value().foreign());
}

TEST_F(SlotCareTest, ASlotWaitsForOpenTransactions) {
    auto options = pool_options(database_.conninfo());
    options.session.statement_timeout = milliseconds(300);
    Pool pool(options, log_);
    SlotCare hasty(pool, names());
    PlainConnection writer(database_.conninfo());
    writer.column("begin; insert into outbox (aggregate_id) values ('a')");
    const auto made = hasty.create_slot();
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, kSlotMustWait) << made.error().message;
    EXPECT_EQ(made.error().error_class, ErrorClass::retryable);
    EXPECT_THAT(made.error().message, HasSubstr("all transactions that are open now"));
    EXPECT_FALSE(care_.slot().value().exists) << "half a slot would keep the log";
    writer.column("commit");
    EXPECT_TRUE(care_.create_slot().value().made);
}

TEST_F(SlotCareTest, APublicationIsMadeOnceAndComplete) {
    EXPECT_FALSE(published().exists);
    EXPECT_FALSE(published().complete());
    EXPECT_TRUE(published().table_exists);
    EXPECT_TRUE(published().table_owned);
    EXPECT_TRUE(published().may_create);
    ASSERT_TRUE(care_.create_publication());
    ASSERT_TRUE(care_.create_publication());
    const auto state = published();
    EXPECT_TRUE(state.complete());
    EXPECT_TRUE(state.exists);
    EXPECT_TRUE(state.publishes_inserts);
    EXPECT_TRUE(state.via_root);
    EXPECT_FALSE(state.filters_rows);
    EXPECT_EQ(state.partitions, 0);
    EXPECT_THAT(texts(state.arrives_as), ElementsAre("public.outbox"));
    EXPECT_EQ(value("select pubinsert::int::text || pubupdate::int || pubdelete::int || pubtruncate::int"
                    " from pg_publication"),
              "1000")
        << "nothing else is sent";
}

TEST_F(SlotCareTest, APublicationThatLacksSomethingIsNotComplete) {
    run("create table other (id int)");
    run(R"(create publication "Events ""1""" for table other)");
    EXPECT_THAT(published().arrives_as, IsEmpty());
    EXPECT_FALSE(published().complete());
    run(R"(alter publication "Events ""1""" add table outbox)");
    EXPECT_TRUE(published().complete());
    run(R"(alter publication "Events ""1""" set (publish = 'update'))");
    EXPECT_FALSE(published().publishes_inserts);
    EXPECT_FALSE(published().complete());
    run(R"(drop publication "Events ""1"""; create publication "Events ""1""" for all tables)");
    EXPECT_TRUE(published().complete());
    run("drop table outbox");
    EXPECT_FALSE(published().table_exists);
    EXPECT_FALSE(published().complete());
}

TEST_F(SlotCareTest, APublicationThatLeavesRowsOutIsNotComplete) {
    if (PQserverVersion(plain_.raw()) < 150'000) return;  // older ones have no conditions
    run(R"(create publication "Events ""1""" for table outbox where (id > 5))");
    EXPECT_TRUE(published().filters_rows);
    EXPECT_FALSE(published().complete());
    for (const std::string& statement : care_.missing_statements(care_.slot().value(), published())) run(statement);
    EXPECT_TRUE(published().complete());
}

TEST_F(SlotCareTest, PartitionsArriveThroughTheRootOrByThemselves) {
    run("drop table outbox; create table outbox (id int, aggregate_id text) partition by range (id);"
        " create table outbox_1 partition of outbox for values from (0) to (10);"
        " create table outbox_2 partition of outbox for values from (10) to (20) partition by range (id);"
        " create table outbox_2a partition of outbox_2 for values from (10) to (15)");
    ASSERT_TRUE(care_.create_publication());
    EXPECT_EQ(published().partitions, 2);
    EXPECT_THAT(texts(published().arrives_as), ElementsAre("public.outbox"));
    EXPECT_TRUE(published().complete());

    run(R"(alter publication "Events ""1""" set (publish_via_partition_root = false))");
    EXPECT_FALSE(published().via_root);
    EXPECT_THAT(texts(published().arrives_as), ElementsAre("public.outbox_1", "public.outbox_2a"));
    EXPECT_TRUE(published().complete());

    run(R"(alter publication "Events ""1""" set table outbox_1)");
    EXPECT_THAT(texts(published().arrives_as), ElementsAre("public.outbox_1"));
    EXPECT_FALSE(published().complete()) << "rows of the other partition never arrive";
}

TEST_F(SlotCareTest, AHeartbeatIsAPositionInTheStream) {
    make_publication_and_slot();
    const Lsn first = care_.heartbeat("deliverd.heartbeat").value();
    const Lsn second = care_.heartbeat("deliverd.heartbeat").value();
    EXPECT_LT(first, second);
    run("insert into outbox (aggregate_id) values ('a')");  // its commit makes the server write the log out
    const auto stream = started();
    StreamReader reader(reader_options());
    std::vector<Lsn> positions;
    while (positions.size() < 2) {
        ASSERT_TRUE(stream->read(kPlenty, soon(), [&](const StreamMessage& message) -> Result<void> {
            const auto item = reader.read(message).value();
            const auto* position = std::get_if<StreamPosition>(&item);
            if (position != nullptr && std::holds_alternative<LogData>(message)) positions.push_back(position->lsn);
            return {};
        }));
    }
    EXPECT_THAT(positions, ElementsAre(first, second));
}

TEST_F(SlotCareTest, WhatASuperuserHasToRunIsListedAndSuffices) {
    const std::string role = "plain_" + slot_;
    run("create role " + role + " login; grant select on outbox to " + role);
    {
        Pool pool(pool_options(database_.conninfo() + " user=" + role), log_);
        SlotCare care(pool, names());
        EXPECT_FALSE(care.slot().value().may_replicate);
        EXPECT_FALSE(care.publication().value().table_owned);
        EXPECT_FALSE(care.publication().value().may_create);
        const auto slot = care.create_slot();
        ASSERT_FALSE(slot);
        EXPECT_EQ(slot.error().code, kReplicationDenied) << slot.error().message;
        const auto publication = care.create_publication();
        ASSERT_FALSE(publication);
        EXPECT_EQ(publication.error().error_class, ErrorClass::permanent);

        const auto missing = care.missing_statements(care.slot().value(), care.publication().value());
        EXPECT_THAT(missing, ElementsAre("alter role \"" + role + "\" replication",
                                         R"(create publication "Events ""1""" for table "public"."outbox" )"
                                         "with (publish = 'insert', publish_via_partition_root = true)",
                                         "select pg_create_logical_replication_slot('" + slot_ + "', 'pgoutput')"));
        for (const std::string& statement : missing) run(statement);
        EXPECT_THAT(care.missing_statements(care.slot().value(), care.publication().value()), IsEmpty());

        run("insert into outbox (aggregate_id) values ('a')");
        const auto stream = open(settings("user=" + role)).value();
        ASSERT_TRUE(stream->start({.slot = slot_, .publications = {"Events \"1\""}}, soon()));
        StreamLines lines(*stream, reader_options());
        ASSERT_TRUE(lines.read(2));
        EXPECT_TRUE(care.heartbeat("deliverd.heartbeat"));
    }
    run("drop owned by " + role + "; drop role " + role);
}

TEST_F(SlotCareTest, AServerThatDecodesNothingIsListedFirst) {
    SlotState slot;
    slot.wal_level = "replica";
    slot.may_replicate = true;
    slot.exists = true;
    PublicationState publication;
    publication.exists = true;
    EXPECT_THAT(care_.missing_statements(slot, publication),
                ElementsAre("alter system set wal_level = 'logical' -- and restart the server",
                            R"(alter publication "Events ""1""" set (publish = 'insert'))",
                            R"(alter publication "Events ""1""" add table "public"."outbox")"));
}

}  // namespace
}  // namespace deliverd::wal
