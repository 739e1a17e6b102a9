// A look tells which writers had not committed at its moment: what the order of an aggregate hangs on.
#include <gtest/gtest.h>

#include "store/postgres/testing/test_server.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;

class EventWriters : public ::testing::Test {
protected:
    EventBatch read(std::optional<std::int64_t> end_above = {}, std::int32_t limit = 10) {
        const auto outbox = must(store_.database().event_outbox({.lane = "events", .shards = 1}));
        EventRead request;
        request.shards = {0};
        request.limit = limit;
        request.end_above = end_above;
        return must(outbox->read(request));
    }
    static std::uint64_t begin(PlainConnection& writer) {
        writer.column("begin");
        insert(writer);
        return std::stoull(writer.column("select pg_current_xact_id()").front());
    }
    static std::int64_t insert(PlainConnection& writer) {
        return std::stoll(
            writer.column("insert into outbox (aggregate_id, event_type, payload) values ('a', 'T', '{}') returning id")
                .front());
    }

    PostgresTestStore store_{true};
};

TEST_F(EventWriters, AreThoseThatHaveNotEnded) {
    PlainConnection left(store_.server().conninfo());
    PlainConnection right(store_.server().conninfo());
    const std::uint64_t first = begin(left);
    const std::uint64_t second = begin(right);
    EventBatch batch = read();
    EXPECT_TRUE(batch.rows.empty());
    EXPECT_TRUE(batch.writers.value().has(first));
    EXPECT_TRUE(batch.writers.value().has(second));
    left.column("commit");
    batch = read();
    EXPECT_EQ(batch.rows.size(), 1U);
    EXPECT_FALSE(batch.writers.value().has(first));
    EXPECT_TRUE(batch.writers.value().has(second));
    right.column("rollback");
    EXPECT_FALSE(read().writers.value().has(second));
}

/// A transaction that began first draws the higher id and commits first. What tells that the lower one is still to come
/// is the number of its writer, which is the higher one: the row's own says nothing.
TEST_F(EventWriters, OfALowerIdAreOpenEvenIfTheyBeganAfterThatOfTheHigher) {
    PlainConnection first(store_.server().conninfo());
    PlainConnection second(store_.server().conninfo());
    first.column("begin");
    const std::uint64_t older = std::stoull(first.column("select pg_current_xact_id()").front());
    const std::uint64_t younger = begin(second);
    const std::int64_t high = insert(first);
    first.column("commit");
    EventBatch batch = read(0);
    ASSERT_EQ(batch.rows.size(), 1U);
    EXPECT_EQ(batch.rows[0].sequence, high);
    EXPECT_EQ(batch.end, high);
    EXPECT_GT(younger, older);
    EXPECT_LE(batch.writers.value().oldest(), younger);
    EXPECT_GT(batch.writers.value().next, younger);
    const std::uint64_t next = batch.writers.value().next;
    second.column("commit");
    // Transactions of other tests on this server count as well: they end by themselves.
    ASSERT_TRUE(wait_until([&] { return (batch = read(0)).writers.value().oldest() >= next; }));
    ASSERT_EQ(batch.rows.size(), 2U);
    EXPECT_LT(batch.rows[0].sequence, high);
}

TEST_F(EventWriters, ThatWroteNothingHaveNoNumber) {
    PlainConnection reader(store_.server().conninfo());
    reader.column("begin transaction isolation level repeatable read");
    reader.column("select count(*) from outbox");
    std::uint64_t next = read(0).writers.value().next;
    ASSERT_TRUE(wait_until([&] { return read(0).writers.value().oldest() >= next; }));
    reader.column("savepoint a");
    insert(reader);
    next = read(0).writers.value().next;
    reader.column("release savepoint a");
    EXPECT_LT(read(0).writers.value().oldest(), next) << "a part of a transaction counts as it";
    reader.column("commit");
    ASSERT_TRUE(wait_until([&] { return read(0).writers.value().oldest() >= next; }));
}

TEST_F(EventWriters, TheEndIsTheHighestIdOfWhateverState) {
    EXPECT_FALSE(read(0).end) << "an empty table";
    for (int i = 0; i < 3; ++i) insert(store_.plain());
    store_.execute("update outbox set published = true where id = 3");
    EXPECT_EQ(read(0).end, 3);
    EXPECT_EQ(read(2).end, 3);
    EXPECT_FALSE(read(3).end);
    EXPECT_FALSE(read().end) << "not asked for";
    const EventBatch without_rows = read(0, 0);
    EXPECT_TRUE(without_rows.rows.empty());
    EXPECT_TRUE(without_rows.writers);
    EXPECT_EQ(without_rows.end, 3);
}

}  // namespace
}  // namespace deliverd::store::postgres
