// Rows that were dead before there were letters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "store/migration_plan.h"
#include "store/sqlite/testing/test_store.h"

namespace deliverd::store::sqlite {
namespace {

/// A database as it was before 0004, with rows that are dead.
class SqliteEarlierDeadRows : public ::testing::Test {
protected:
    void SetUp() override {
        for (const Migration& migration : sqlite_migrations()) {
            if (migration.version > 3) continue;
            store_.execute(std::string(migration.sql));
            store_.execute("insert into deliverd_migrations (version, name, checksum) values (" +
                           std::to_string(migration.version) + ", '" + std::string(migration.name) + "', '" +
                           migration_checksum(migration) + "')");
        }
    }
    std::string letter(const std::string& outbox, const std::string& columns) {
        return store_.value("select " + columns + " from dlq_messages where outbox = '" + outbox + "'");
    }

    SqliteTestStore store_{false};
};

TEST_F(SqliteEarlierDeadRows, GetLetters) {
    store_.execute(
        "insert into outbox_memory (target_space, payload_md, payload_sha, status, last_error, updated_at) values"
        " ('s', 'text', 'x', 'dead', 'HTTP_500: no', '2026-01-02T00:00:00.000Z'), ('s', 't', 'x', 'sent', null,"
        " 'not a time'), ('s', 't', 'x', 'dead', null, 'not a time');"
        "insert into outbox_orders (idempotency_key, request_json, request_digest, status, next_attempt_at, last_error,"
        " last_error_detail) values ('k', '{\"a\":1}', 'd', 'dead', '2026-01-01T00:00:00.000Z', 'BROKER_4XX',"
        " 'BROKER_4XX: margin');"
        "insert into outbox (aggregate_id, event_type, payload, last_error, dead_at) values ('a', 'T', '{\"n\": 1}',"
        " 'KAFKA: no', '2026-01-03T00:00:00.000Z');"
        "insert into deliverd_event_failures values ('shop', '7', 'b', 4, null, 'X: y', '2026-01-04T00:00:00.000Z'),"
        " ('events', '1', 'b', 4, null, 'X: y', '2026-01-04T00:00:00.000Z'), ('shop', '8', 'b', 4, null, 'X: y', "
        "null)");
    must(store_.database().migrate(false));
    const auto letters = store_.database().dead_letters();
    EXPECT_EQ(must(letters->list({})).total, 5);
    const Letter memory = must(letters->list({.source = "lane:memory", .error_class = "HTTP_500"})).letters.at(0);
    EXPECT_EQ(rfc3339_millis(memory.created_at), "2026-01-02T00:00:00.000Z");
    EXPECT_EQ(memory.lane_row->row_id, "1");
    EXPECT_EQ(letter("orders", "status || error_class || record_key || payload"), "DEADBROKER_4XXk{\"a\":1}");
    EXPECT_EQ(letter("orders", "error_message"), "BROKER_4XX: margin");
    const Letter shop = must(letters->list({.topic = "shop"})).letters.at(0);
    EXPECT_EQ(shop.lane_row->row_id, "7");
    EXPECT_FALSE(shop.payload);
    EXPECT_EQ(rfc3339_millis(shop.created_at), "2026-01-04T00:00:00.000Z");
    const RetryRequest request{"o", "ann", std::chrono::seconds(60)};
    for (const Letter& back : {memory, shop}) {
        must(letters->begin_retry(std::span(&back.id, 1), request));
        EXPECT_EQ(must(letters->return_to_lane("o", "ann", std::span(&back.id, 1))).at(0), "");
    }
    EXPECT_EQ(store_.value("select status from outbox_memory where outbox_id = 1"), "pending");
    EXPECT_EQ(store_.value("select dead_at is null from deliverd_event_failures where row_id = '7'"), "1");
}

TEST_F(SqliteEarlierDeadRows, OfTheOwnEventTableGoBack) {
    store_.execute(
        "insert into outbox (aggregate_id, event_type, payload, last_error, dead_at, retry_count) values"
        " ('a', 'T', '{\"n\": 1}', 'KAFKA: no', '2026-01-03T00:00:00.000Z', 3)");
    must(store_.database().migrate(false));
    const auto letters = store_.database().dead_letters();
    const auto page = must(letters->list({.topic = "events"}));
    ASSERT_EQ(page.letters.size(), 1U);
    EXPECT_EQ(page.letters[0].payload, "{\"n\": 1}");
    const std::string id = page.letters[0].id;
    must(letters->begin_retry(std::span(&id, 1), {"o", "ann", std::chrono::seconds(60)}));
    EXPECT_EQ(must(letters->return_to_lane("o", "ann", std::span(&id, 1))).at(0), "");
    EXPECT_EQ(store_.value("select dead_at is null and retry_count = 1 from outbox"), "1");
}

TEST(SqliteEarlierOutbox, OfAnotherProgramIsLeftAlone) {
    SqliteTestStore store(false);
    store.execute("create table outbox (number integer primary key, dead_at text)");
    store.execute("insert into outbox (dead_at) values ('x')");
    must(store.database().migrate(false));
    EXPECT_EQ(must(store.database().schema()).state, SchemaState::current);
    EXPECT_EQ(store.value("select count(*) from dlq_messages"), "0");
    EXPECT_THAT(must(store.database().migrate(false)), ::testing::IsEmpty());
}

}  // namespace
}  // namespace deliverd::store::sqlite
