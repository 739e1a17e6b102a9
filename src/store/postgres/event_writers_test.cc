// A look tells which writers had not committed at its moment: what the order of an aggregate hangs on.
#include <gtest/gtest.h>

#include "store/postgres/test_server.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;

class EventWriters : public ::testing::Test {
protected:
    EventBatch read(bool strict = false) {
        const auto outbox =
            must(store_.database().event_outbox({.lane = "events", .strict_order = strict, .shards = 1}));
        EventRead request;
        request.shards = {0};
        request.limit = 10;
        return must(outbox->read(request));
    }
    static std::uint64_t begin(PlainConnection& writer) {
        writer.column("begin");
        writer.column("insert into outbox (aggregate_id, event_type, payload) values ('a', 'T', '{}')");
        return std::stoull(writer.column("select pg_current_xact_id()").front());
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
    ASSERT_TRUE(batch.writers);
    EXPECT_TRUE(batch.writers->has(first));
    EXPECT_TRUE(batch.writers->has(second));
    left.column("commit");
    batch = read();
    EXPECT_EQ(batch.rows.size(), 1U);
    EXPECT_FALSE(batch.writers->has(first));
    EXPECT_TRUE(batch.writers->has(second));
    right.column("rollback");
    EXPECT_FALSE(read().writers->has(second));
}

TEST_F(EventWriters, AreNotNeededInStrictOrder) {
    EXPECT_FALSE(read(true).writers);
}

}  // namespace
}  // namespace deliverd::store::postgres
