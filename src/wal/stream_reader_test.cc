#include "wal/stream_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "wal/testing/changes.h"

namespace deliverd::wal {
namespace {

using testing::HasSubstr;
using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr std::uint32_t kOutbox = 16'400;
constexpr std::uint32_t kText = 25;
constexpr std::uint32_t kTime = 1184;

const std::string kEvent = R"({"aggregate_id":"a","event_type":"T","payload":{"n":1.50}})";

class StreamReaderTest : public testing::Test {
protected:
    static StreamReaderOptions options() {
        StreamReaderOptions options;
        options.tables = {{"public", "outbox"}};
        options.message_prefix = "deliverd.events";
        options.system_identifier = "7000";
        return options;
    }
    /// id, aggregate_id, event_type, payload, event_id, metadata, created_at, and one that no event has.
    static std::string outbox_relation() {
        return relation_change(kOutbox, "public", "outbox",
                               {{"id", 20},
                                {"aggregate_id", kText},
                                {"event_type", kText},
                                {"payload", 3802},
                                {"event_id", 2950},
                                {"metadata", 3802},
                                {"created_at", kTime},
                                {"note", kText}});
    }

    Result<StreamItem> read(const std::string& change, Lsn start = 0x10) {
        bytes_ = change;
        return reader_->read(LogData{start, start, bytes_});
    }
    template <typename Kind>
    Kind item(const std::string& change, Lsn start = 0x10) {
        auto read_item = read(change, start);
        EXPECT_TRUE(read_item) << read_item.error().message;
        if (!read_item || !std::holds_alternative<Kind>(*read_item)) {
            ADD_FAILURE() << "another kind of item";
            return {};
        }
        return std::get<Kind>(std::move(*read_item));
    }
    void nothing(const std::string& change) { item<std::monostate>(change); }
    std::string refusal(const std::string& change) {
        const auto read_item = read(change);
        if (read_item) return "";
        EXPECT_EQ(read_item.error().error_class, ErrorClass::permanent);
        return read_item.error().code + ": " + read_item.error().message;
    }

    std::optional<StreamReader> reader_{options()};
    std::string bytes_;
};

TEST_F(StreamReaderTest, ATransactionsRowsAreEvents) {
    const auto begin = item<TransactionBegin>(begin_change(0x100, 742, 1'000'000));
    EXPECT_EQ(begin.transaction, 742U);
    EXPECT_EQ(begin.commit_lsn, 0x100U);
    nothing(outbox_relation());
    const auto event =
        item<StreamedEvent>(insert_change(kOutbox, {"17", "order-1", "OrderPaid", R"({"total": 1.50})", "id-1",
                                                    R"({"tenant": "acme"})", "2026-02-20 10:30:00.5+00", "x"}),
                            0x80);
    EXPECT_TRUE(event.has_row());
    EXPECT_EQ(event.row_id, "17");
    EXPECT_EQ(event.aggregate_id, "order-1");
    EXPECT_EQ(event.event_type, "OrderPaid");
    EXPECT_EQ(event.payload, R"({"total": 1.50})");
    EXPECT_EQ(event.metadata, R"({"tenant": "acme"})");
    EXPECT_EQ(event.message_id, "id-1");
    EXPECT_EQ(event.created_at, "2026-02-20T10:30:00.500000Z");
    EXPECT_EQ(event.aggregate_type, "");
    EXPECT_EQ(event.place.transaction, 742U);
    EXPECT_EQ(event.place.commit_lsn, 0x100U);
    EXPECT_EQ(event.place.lsn, 0x80U);
    EXPECT_EQ(event.place.ordinal, 0U);
    EXPECT_FALSE(event.place.stands_alone);
    EXPECT_EQ(event.payload.data(), bytes_.data() + bytes_.find(R"({"total")")) << "a payload is not copied";
    EXPECT_EQ(
        item<StreamedEvent>(insert_change(kOutbox, {"18", "a", "T", "1", "e", "{}", std::nullopt, "x"})).place.ordinal,
        1U);
    const auto end = item<TransactionEnd>(commit_change(0x100, 0x108));
    EXPECT_EQ(end.end_lsn, 0x108U);
    EXPECT_EQ(end.items, 2U);
    item<TransactionBegin>(begin_change(0x200, 743));
    EXPECT_EQ(
        item<StreamedEvent>(insert_change(kOutbox, {"19", "a", "T", "1", "e", "{}", std::nullopt, "x"})).place.ordinal,
        0U);
}

TEST_F(StreamReaderTest, AnEventBecomesTheRowThatPollingReads) {
    item<TransactionBegin>(begin_change(0x100, 1));
    nothing(outbox_relation());
    const auto row = event_row(
        item<StreamedEvent>(insert_change(kOutbox, {"17", "order-1", "OrderPaid", "{}", "id-1",
                                                    R"({"tenant":"acme","n":1.50})", "2026-02-20 10:30:00+00", "x"})));
    EXPECT_EQ(row.row_id, "17");
    EXPECT_EQ(row.sequence, 17);
    EXPECT_EQ(row.message.id, 17);
    EXPECT_EQ(row.message.message_id, "id-1");
    EXPECT_EQ(row.message.key, "order-1");
    EXPECT_EQ(row.message.type, "OrderPaid");
    EXPECT_EQ(row.message.body, "{}");
    EXPECT_EQ(row.message.content_type, "application/json");
    EXPECT_EQ(row.message.created_at, "2026-02-20T10:30:00.000000Z");
    EXPECT_EQ(row.message.headers, (Headers{{"tenant", "acme"}, {"n", "1.50"}}));
}

TEST_F(StreamReaderTest, NullsAreEmptyAndTheRowsIdStandsInForTheEvents) {
    item<TransactionBegin>(begin_change(0x100, 1));
    nothing(outbox_relation());
    const std::optional<std::string> none;
    const auto event = item<StreamedEvent>(insert_change(kOutbox, {"17", none, none, none, none, none, none, none}));
    EXPECT_EQ(event.message_id, "17");
    for (const auto& text : {event.aggregate_id, event.event_type, event.payload, event.metadata, event.created_at}) {
        EXPECT_EQ(text, "");
    }
    nothing(insert_change(kOutbox, {none, "a", "T", "1", "e", "{}", none, "x"}));
    EXPECT_EQ(item<TransactionEnd>(commit_change(0x100, 0x108)).items, 1U) << "a row without an id is no event";
}

TEST_F(StreamReaderTest, OptionalColumnsMayBeMissing) {
    item<TransactionBegin>(begin_change(0x100, 1));
    nothing(relation_change(kOutbox, "public", "outbox",
                            {{"payload", 17}, {"event_type", kText}, {"id", 20}, {"aggregate_id", 1042}}));
    const auto event = item<StreamedEvent>(insert_change(kOutbox, {"\\x6869", "T", "5", "a   "}));
    EXPECT_EQ(event.payload, "hi");
    EXPECT_EQ(event.event_type, "T");
    EXPECT_EQ(event.row_id, "5");
    EXPECT_EQ(event.aggregate_id, "a");
    EXPECT_EQ(event.message_id, "5");
    EXPECT_EQ(event.metadata, "");
}

TEST_F(StreamReaderTest, ARequiredColumnMayNot) {
    item<TransactionBegin>(begin_change(0x100, 1));
    EXPECT_THAT(refusal(relation_change(kOutbox, "public", "outbox", {{"id", 20}, {"event_type", kText}})),
                HasSubstr("wal_column_missing: the rows of public.outbox arrive without the column aggregate_id, "
                          "payload: "));
    EXPECT_THAT(refusal(relation_change(kOutbox, "public", "outbox", {})), HasSubstr("id, aggregate_id, event_type"));
}

TEST_F(StreamReaderTest, TheColumnsAreFoundByTheirMappedNames) {
    StreamReaderOptions mapped;
    mapped.tables = {{"app", "events"}};
    mapped.columns = store::EventColumns::debezium();
    reader_.emplace(mapped);
    item<TransactionBegin>(begin_change(0x100, 1));
    nothing(relation_change(
        kOutbox, "app", "events",
        {{"id", 2950}, {"aggregatetype", kText}, {"aggregateid", kText}, {"type", kText}, {"payload", 3802}}));
    const auto event = item<StreamedEvent>(insert_change(kOutbox, {"u-u-i-d", "order", "o-1", "Paid", "{}"}));
    EXPECT_EQ(event.message_id, "u-u-i-d");
    EXPECT_EQ(event.aggregate_type, "order");
    EXPECT_EQ(event.aggregate_id, "o-1");
    EXPECT_EQ(event_row(event).message.aggregate_type, "order");
    EXPECT_EQ(event_row(event).sequence, 0);
}

TEST_F(StreamReaderTest, AnAlteredOrRenamedTableIsFollowed) {
    item<TransactionBegin>(begin_change(0x100, 1));
    nothing(outbox_relation());
    nothing(relation_change(kOutbox, "public", "outbox",
                            {{"id", 20}, {"payload", 3802}, {"event_type", kText}, {"aggregate_id", kText}}));
    EXPECT_EQ(item<StreamedEvent>(insert_change(kOutbox, {"1", "{}", "T", "a"})).aggregate_id, "a");
    EXPECT_THAT(refusal(insert_change(kOutbox, {"1", "{}", "T"})), HasSubstr("another number of columns"));
    nothing(relation_change(kOutbox, "public", "outbox_old", {{"id", 20}}));
    nothing(insert_change(kOutbox, {"1"}));
}

TEST_F(StreamReaderTest, OtherTablesAndOtherChangesArePassedOver) {
    item<TransactionBegin>(begin_change(0x100, 1));
    nothing(relation_change(5, "public", "orders", {{"id", 20}}));
    nothing(relation_change(6, "other", "outbox", {{"id", 20}}));
    nothing(insert_change(5, {"1"}));
    nothing(insert_change(6, {"1"}));
    for (const char kind : {'U', 'D', 'T', 'Y', 'O'}) nothing(std::string(1, kind));
    EXPECT_EQ(item<TransactionEnd>(commit_change(0x100, 0x108)).items, 0U);
}

TEST_F(StreamReaderTest, PartitionsArriveUnderTheirOwnNames) {
    StreamReaderOptions several = options();
    several.tables = {{"public", "outbox_1"}, {"public", "outbox_2"}};
    StreamReader reader(several);
    const auto give = [&](const std::string& change) {
        bytes_ = change;
        return reader.read(LogData{1, 1, bytes_}).value();
    };
    give(begin_change(0x100, 1));
    std::uint32_t oid = 1;
    for (const char* table : {"outbox_1", "outbox_2", "outbox"}) {
        give(relation_change(++oid, "public", table,
                             {{"id", 20}, {"aggregate_id", kText}, {"event_type", kText}, {"payload", 3802}}));
        const auto got = give(insert_change(oid, {"1", "a", "T", "{}"}));
        EXPECT_EQ(std::holds_alternative<StreamedEvent>(got), std::string_view(table) != "outbox");
    }
}

TEST_F(StreamReaderTest, ATransactionalMessageIsAnEventOfItsTransaction) {
    item<TransactionBegin>(begin_change(0x100, 9, 1'500'000));
    const auto event = item<StreamedEvent>(message_change(true, 0x90, "deliverd.events", kEvent));
    EXPECT_FALSE(event.has_row());
    EXPECT_EQ(event.aggregate_id, "a");
    EXPECT_EQ(event.payload, R"({"n":1.50})");
    EXPECT_EQ(event.created_at, "2000-01-01T00:00:01.500000Z") << "of its commit";
    EXPECT_EQ(event.place.transaction, 9U);
    EXPECT_EQ(event.place.lsn, 0x90U);
    EXPECT_FALSE(event.place.stands_alone);
    const auto row = event_row(event);
    EXPECT_EQ(row.row_id, "");
    EXPECT_EQ(row.message.message_id, event.message_id);
    EXPECT_EQ(item<TransactionEnd>(commit_change(0x100, 0x108)).items, 1U);
}

TEST_F(StreamReaderTest, AMessageOutsideATransactionStandsAlone) {
    const auto event = item<StreamedEvent>(message_change(false, 0x90, "deliverd.events", kEvent));
    EXPECT_TRUE(event.place.stands_alone);
    EXPECT_EQ(event.place.lsn, 0x90U);
    EXPECT_EQ(event.place.transaction, 0U);
    EXPECT_EQ(event.created_at, "") << "nobody knows when it was written";
}

TEST_F(StreamReaderTest, AnIdThatIsMissingFollowsFromThePosition) {
    const auto id = [&](Lsn lsn) {
        return std::string(item<StreamedEvent>(message_change(false, lsn, "deliverd.events", kEvent)).message_id);
    };
    EXPECT_EQ(id(0x90), id(0x90));
    EXPECT_NE(id(0x90), id(0x91));
    EXPECT_THAT(id(0x90), testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}"));
    StreamReaderOptions elsewhere = options();
    elsewhere.system_identifier = "7001";
    const std::string change = message_change(false, 0x90, "deliverd.events", kEvent);
    StreamReader another(elsewhere);
    const auto other = another.read(LogData{1, 1, change}).value();
    EXPECT_NE(id(0x90), std::get<StreamedEvent>(other).message_id) << "another server has the same positions";
    const std::string named = R"({"event_id":"e-1","aggregate_id":"a","event_type":"T","payload":1})";
    EXPECT_EQ(item<StreamedEvent>(message_change(false, 0x90, "deliverd.events", named)).message_id, "e-1");
}

TEST_F(StreamReaderTest, ContentThatIsNoEventIsHandedOnWithItsReason) {
    const auto alone = item<MalformedMessage>(message_change(false, 0x90, "deliverd.events", "hello"));
    EXPECT_EQ(alone.content, "hello");
    EXPECT_THAT(alone.reason, HasSubstr("its content is not JSON"));
    EXPECT_TRUE(alone.place.stands_alone);
    const std::string id(alone.message_id);
    EXPECT_EQ(id, item<StreamedEvent>(message_change(false, 0x90, "deliverd.events", kEvent)).message_id);
    item<TransactionBegin>(begin_change(0x100, 1));
    EXPECT_FALSE(item<MalformedMessage>(message_change(true, 0x91, "deliverd.events", "{}")).place.stands_alone);
    EXPECT_EQ(item<TransactionEnd>(commit_change(0x100, 0x108)).items, 1U);
}

TEST_F(StreamReaderTest, OtherPrefixesAreOnlyPositions) {
    EXPECT_EQ(item<StreamPosition>(message_change(false, 0x90, "deliverd.heartbeat", "")).lsn, 0x90U);
    item<TransactionBegin>(begin_change(0x100, 1));
    nothing(message_change(true, 0x95, "deliverd.event", kEvent));
    nothing(message_change(true, 0x96, "deliverd.events2", kEvent));
    StreamReaderOptions without = options();
    without.message_prefix = "";
    const std::string change = message_change(false, 0x90, "", kEvent);
    StreamReader another(without);
    const auto other = another.read(LogData{1, 1, change}).value();
    EXPECT_TRUE(std::holds_alternative<StreamPosition>(other)) << "no prefix is not the empty prefix";
}

TEST_F(StreamReaderTest, AKeepaliveIsAPositionOutsideTransactionsOnly) {
    const auto keepalive = reader_->read(Keepalive{0x500, true}).value();
    ASSERT_TRUE(std::holds_alternative<StreamPosition>(keepalive));
    EXPECT_EQ(std::get<StreamPosition>(keepalive).lsn, 0x500U);
    item<TransactionBegin>(begin_change(0x600, 1));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(reader_->read(Keepalive{0x700, false}).value()));
}

TEST_F(StreamReaderTest, WhatCannotFollowIsRefused) {
    EXPECT_THAT(refusal(commit_change(1, 2)), HasSubstr("wal_malformed: "));
    EXPECT_THAT(refusal(insert_change(kOutbox, {"1"})), HasSubstr("a row outside a transaction"));
    EXPECT_THAT(refusal(message_change(true, 1, "p", "")), HasSubstr("a logical message at the wrong place"));
    EXPECT_THAT(refusal("?"), HasSubstr("its kind is unknown"));
    item<TransactionBegin>(begin_change(0x100, 1));
    EXPECT_THAT(refusal(begin_change(0x100, 1)), HasSubstr("begins within another one"));
    EXPECT_THAT(refusal(message_change(false, 1, "p", "")), HasSubstr("a logical message at the wrong place"));
    EXPECT_THAT(refusal(insert_change(kOutbox, {"1"})), HasSubstr("was not described"));
}

}  // namespace
}  // namespace deliverd::wal
