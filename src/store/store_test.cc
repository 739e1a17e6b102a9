// The pure code both stores share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <boost/json.hpp>

#include "base/text.h"
#include "store/event_row.h"
#include "store/migration_plan.h"
#include "store/outbox_row.h"
#include "store/sql_text.h"
#include "store/wait_limit.h"

namespace deliverd::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MemoryMessage, BodyHasTheFieldsInOrder) {
    const Message message = memory_message({12, std::nullopt, "s", "a\tb", "abc", 3});
    EXPECT_EQ(message.body,
              R"({"outbox_id":12,"item_id":null,"target_space":"s","payload_md":"a\tb","payload_sha":"abc"})");
    EXPECT_EQ(message.message_id, "memory-12");
    EXPECT_EQ(message.failures, 3);
    EXPECT_EQ(message.dedup_key, std::string("s\0abc", 5));
}

RC_GTEST_PROP(MemoryMessage, AnyBytesGiveABodyThatReadsBack, (std::string payload, std::string space)) {
    const Message message = memory_message({1, -5, space, payload, "sha", 0});
    const auto body = boost::json::parse(message.body).as_object();
    RC_ASSERT(std::string(body.at("payload_md").as_string()) == valid_utf8(payload));
    RC_ASSERT(std::string(body.at("target_space").as_string()) == valid_utf8(space));
    RC_ASSERT(body.at("item_id").as_int64() == -5);
}

TEST(OrderRow, IsAMessageUnderItsKey) {
    const Message message = order_message({7, "key-1", R"({"a":1e2})", "t-1", 3});
    EXPECT_EQ(message.id, 7);
    EXPECT_EQ(message.message_id, "key-1");
    EXPECT_EQ(message.body, R"({"a":1e2})");
    EXPECT_EQ(message.failures, 3);
    EXPECT_THAT(message.headers, ElementsAre(::testing::Pair("X-Trace-Id", "t-1")));
    EXPECT_TRUE(order_message({7, "key-1", "{}", "", 0}).headers.empty());
    // Only rows inserted by hand have such trace ids; they are sent all the same.
    for (const std::string_view trace_id : {"a\nb", "\r", "\x01", "a\x7f"}) {
        EXPECT_TRUE(order_message({7, "key-1", "{}", trace_id, 0}).headers.empty()) << trace_id;
    }
    EXPECT_EQ(order_message({7, "key-1", "{}", "a\t\xC3\xA9", 0}).headers.size(), 1U);
}

TEST(OrderRow, KeepsOfASettlementWhatItsKindHas) {
    Settlement settlement{.id = 1, .kind = SettleKind::sent, .receipt = "B-1", .answer = ReceiverAnswer{"{}", "d"}};
    EXPECT_EQ(order_settled(settlement).broker_order_id, "B-1");
    EXPECT_EQ(order_settled(settlement).result_digest, "d");
    EXPECT_EQ(order_settled(settlement).result_json, "{}");
    EXPECT_FALSE(order_settled(settlement).last_error || order_settled(settlement).last_error_detail);
    settlement.kind = SettleKind::retry;
    settlement.code = "BROKER_5XX";
    settlement.error = std::string(100'000, 'e');
    const OrderSettled failed = order_settled(settlement);
    EXPECT_FALSE(failed.broker_order_id || failed.result_digest || failed.result_json);
    EXPECT_EQ(failed.last_error, "BROKER_5XX");
    EXPECT_LE(failed.last_error_detail.value().size(), kMaxStoredErrorBytes);
    EXPECT_EQ(order_settle_reason(SettleKind::duplicate), "outbox_flush_success");
}

RC_GTEST_PROP(Storable, IsAlwaysTextBothDatabasesTake, (std::string bytes)) {
    const std::string clean = storable(bytes);
    RC_ASSERT(!find_invalid_utf8(clean));
    RC_ASSERT(clean.find('\0') == std::string::npos);
}

TEST(SettleBatch, GoesInOrderOfIdsAndEachIdOnce) {
    const std::array<Settlement, 4> batch = {Settlement{5}, Settlement{2}, Settlement{5}, Settlement{1}};
    EXPECT_THAT(settle_order(batch), ElementsAre(3U, 1U, 0U)) << "the first of two settlements of a row counts";
}

TEST(SqlText, PutsValuesIntoStatements) {
    EXPECT_EQ(filled("select {a}, '{}' from {table}", {{"table", quoted("a{b}\"")}, {"a", "1"}, {"b", "2"}}),
              "select 1, '{}' from \"a{b}\"\"\"");
    EXPECT_EQ(filled("select 1 {", {}), "select 1 {");
    EXPECT_DEATH(static_cast<void>(filled("select {a}", {{"b", "2"}})), "assertion failed");
}

TEST(SettleBatch, NotesAndDelaysAreBounded) {
    Settlement failed{1, SettleKind::retry, 0};
    failed.error = std::string(100'000, 'e');
    EXPECT_LE(settle_note(failed).value().size(), kMaxStoredErrorBytes);
    failed.delay = Duration::min();
    EXPECT_EQ(settle_delay_seconds(failed), 0);
    failed.delay = Duration::max();
    EXPECT_EQ(settle_delay_seconds(failed), kMaxDelaySeconds);
    EXPECT_EQ(settle_note({1, SettleKind::sent, 0}), std::nullopt);
    EXPECT_EQ(settle_note({1, SettleKind::duplicate, 0, "m"}), "memory_id=m");
}

TEST(WaitLimit, CapsDeadlinesAndIsOnlyEverBroughtForward) {
    const auto now = std::chrono::steady_clock::now();
    WaitLimit limit;
    EXPECT_EQ(limit.cap(WaitLimit::Deadline::max()), WaitLimit::Deadline::max());
    EXPECT_FALSE(limit.passed());
    limit.set(Duration::max());
    limit.set(std::chrono::hours(2));
    EXPECT_FALSE(limit.passed());
    EXPECT_LT(limit.cap(WaitLimit::Deadline::max()), now + std::chrono::hours(3));
    EXPECT_EQ(limit.cap(now), now) << "an earlier deadline remains";
    limit.set(Duration::min());
    EXPECT_TRUE(limit.passed());
    limit.set(std::chrono::hours(1));
    EXPECT_TRUE(limit.passed()) << "a hurried stop stays hurried";
}

TEST(EventHeaders, AreTheEntriesInOrderWithTheirOwnText) {
    using Headers = std::vector<std::pair<std::string, std::string>>;
    EXPECT_EQ(event_headers("{}"), Headers());
    EXPECT_EQ(
        event_headers(R"( { "b" : "x y", "a": 1.50 ,"n":null,"q":"say \"hi\" \u00fc","o": {"k": ["}", 1]} } )"),
        (Headers{{"b", "x y"}, {"a", "1.50"}, {"n", "null"}, {"q", "say \"hi\" ü"}, {"o", R"({"k": ["}", 1]})"}}));
    for (const char* other :
         {"", "[]", "7", "{", R"({"a")", R"({"a":})", R"({"a":1)", R"({"a":"x)", R"({"a":[1})", R"({"a":"\)"}) {
        EXPECT_EQ(event_headers(other), Headers()) << other;
    }
}

TEST(EventTableCheck, RefusesWhatCannotBeRelayed) {
    const auto refused = [](const std::function<void(EventTable&)>& change) {
        EventTable table{.lane = "events"};
        change(table);
        const auto answer = check_event_table(table);
        return answer ? std::string() : answer.error().code + ": " + answer.error().message;
    };
    EXPECT_EQ(refused([](EventTable&) {}), "");
    EXPECT_EQ(refused([](EventTable& table) { table.columns = EventColumns::debezium(); }), "");
    EXPECT_EQ(refused([](EventTable& table) { table.columns.event_id = "id"; }), "");
    EXPECT_THAT(refused([](EventTable& table) { table.lane = ""; }), HasSubstr("bad_argument: lane"));
    EXPECT_THAT(refused([](EventTable& table) { table.table = "a.b.c"; }), HasSubstr("schema.name"));
    EXPECT_THAT(refused([](EventTable& table) { table.columns.payload = ""; }), HasSubstr("columns.payload"));
    EXPECT_THAT(refused([](EventTable& table) { table.columns.dead_at = ""; }), HasSubstr("or none"));
    EXPECT_THAT(refused([](EventTable& table) { table.columns.published = ""; }), HasSubstr("published_at"));
    EXPECT_THAT(refused([](EventTable& table) { table.columns.metadata = "payload"; }), HasSubstr("twice"));
    EXPECT_THAT(refused([](EventTable& table) { table.shards = 0; }), HasSubstr("between 1 and"));
    EXPECT_THAT(refused([](EventTable& table) { table.shards = kMaxShards + 1; }), HasSubstr("between 1 and"));
}

TEST(ShardShare, IsEvenAndTheSharesMakeTheWhole) {
    for (const std::int32_t shards : {1, 7, 64}) {
        for (std::int32_t relays = 1; relays < 70; ++relays) {
            std::int32_t sum = 0;
            for (std::int32_t rank = 0; rank < relays; ++rank) {
                const std::int32_t share = shard_share(shards, relays, rank);
                EXPECT_LE(shards / relays, share);
                EXPECT_LE(share, shards / relays + 1);
                sum += share;
            }
            EXPECT_EQ(sum, shards);
        }
    }
}

constexpr std::array<Migration, 3> kWanted = {Migration{1, "one", "create table ${schema}.a (); -- ${schema}"},
                                              Migration{2, "two", "select 2;"}, Migration{3, "three", "select 3;"}};

std::vector<AppliedMigration> applied(std::size_t count) {
    std::vector<AppliedMigration> out;
    for (std::size_t i = 0; i < count; ++i) {
        out.push_back({kWanted[i].version, std::string(kWanted[i].name), migration_checksum(kWanted[i]), "public"});
    }
    return out;
}

TEST(MigrationPlan, SaysWhatIsMissing) {
    EXPECT_EQ(assess(kWanted, applied(0), "public").state, SchemaState::missing);
    EXPECT_EQ(assess(kWanted, applied(2), "public").state, SchemaState::old);
    EXPECT_EQ(assess(kWanted, applied(3), "public").state, SchemaState::current);
    const auto steps = missing_steps(kWanted, applied(1), {"list", "public", "\"public\""}).value();
    ASSERT_EQ(steps.size(), 2U);
    EXPECT_EQ(steps[0].version, 2);
    EXPECT_EQ(steps[1].name, "three");
}

TEST(MigrationPlan, WritesSchemaAndRecordIntoTheSql) {
    const auto steps = missing_steps(kWanted, {}, {"list", "o'dd", "\"o'dd\""}).value();
    EXPECT_EQ(steps.at(0).sql,
              "create table \"o'dd\".a (); -- \"o'dd\"\n"
              "insert into list (version, name, checksum, outbox_schema) values (1, 'one', '" +
                  migration_checksum(kWanted[0]) + "', 'o''dd');\n");
}

TEST(MigrationPlan, RefusesWhatItDoesNotKnow) {
    auto changed = applied(3);
    changed[1].checksum = "other";
    EXPECT_EQ(assess(kWanted, changed, "public").state, SchemaState::changed);
    EXPECT_THAT(missing_steps(kWanted, changed, {"list", "public", ""}).error().message, HasSubstr("(two)"));

    auto newer = applied(3);
    newer.push_back({4, "four", "x", "public"});
    EXPECT_EQ(assess(kWanted, newer, "public").state, SchemaState::newer);
    EXPECT_FALSE(missing_steps(kWanted, newer, {"list", "public", ""}));

    const SchemaReport moved = assess(kWanted, applied(3), "elsewhere");
    EXPECT_EQ(moved.state, SchemaState::changed);
    EXPECT_THAT(moved.advice, HasSubstr("database.schema"));
}

}  // namespace
}  // namespace deliverd::store
