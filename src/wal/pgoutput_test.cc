#include "wal/pgoutput.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "wal/stream_message.h"
#include "wal/testing/stream_writer.h"

namespace deliverd::wal {
namespace {

using testing::HasSubstr;

std::string begin_bytes() {
    return StreamWriter('B').integer<Lsn>(0x100).integer<std::int64_t>(1'000'000).integer<std::uint32_t>(742);
}

std::string commit_bytes() {
    return StreamWriter('C').integer<char>(0).integer<Lsn>(0x100).integer<Lsn>(0x108).integer<std::int64_t>(1'000'000);
}

std::string relation_bytes(std::string_view schema) {
    return StreamWriter('R')
        .integer<std::uint32_t>(16'400)
        .text(schema)
        .text("outbox")
        .integer<char>('d')
        .integer<std::uint16_t>(2)
        .integer<char>(1)
        .text("id")
        .integer<std::uint32_t>(20)
        .integer<std::int32_t>(-1)
        .integer<char>(0)
        .text("payload")
        .integer<std::uint32_t>(3802)
        .integer<std::int32_t>(-1);
}

std::string insert_bytes() {
    return StreamWriter('I')
        .integer<std::uint32_t>(16'400)
        .integer<char>('N')
        .integer<std::uint16_t>(4)
        .integer<char>('t')
        .counted("17")
        .integer<char>('n')
        .integer<char>('b')
        .counted(std::string_view("\0\1", 2))
        .integer<char>('t')
        .counted("");
}

std::string message_bytes(char flags) {
    return StreamWriter('M').integer<char>(flags).integer<Lsn>(0x90).text("deliverd.events").counted("{}");
}

/// The decoded change; fails the test where there is none of that kind.
template <typename Kind>
Kind decoded(Decoder& decoder, const std::string& bytes) {
    const auto change = decoder.decode(bytes);
    EXPECT_TRUE(change) << change.error().message;
    if (!change || !std::holds_alternative<Kind>(*change)) {
        ADD_FAILURE() << "another kind of change";
        return {};
    }
    return std::get<Kind>(*change);
}

std::string refusal(const std::string& bytes) {
    Decoder decoder;
    const auto change = decoder.decode(bytes);
    if (change) return "";
    EXPECT_EQ(change.error().code, kMalformed);
    EXPECT_EQ(change.error().error_class, ErrorClass::permanent);
    return change.error().message;
}

TEST(PgoutputTest, ATransactionBeginsAndEnds) {
    Decoder decoder;
    const auto begin = decoded<Begin>(decoder, begin_bytes());
    EXPECT_EQ(begin.commit_lsn, 0x100);
    EXPECT_EQ(begin.transaction, 742U);
    EXPECT_EQ(rfc3339_millis(begin.committed_at), "2000-01-01T00:00:01.000Z");

    const auto commit = decoded<Commit>(decoder, commit_bytes());
    EXPECT_EQ(commit.commit_lsn, 0x100);
    EXPECT_EQ(commit.end_lsn, 0x108);
    EXPECT_EQ(rfc3339_millis(commit.committed_at), "2000-01-01T00:00:01.000Z");
}

TEST(PgoutputTest, ARelationNamesItsColumnsInOrder) {
    Decoder decoder;
    const std::string bytes = relation_bytes("public");
    const auto relation = decoded<Relation>(decoder, bytes);
    EXPECT_EQ(relation.id, 16'400U);
    EXPECT_EQ(relation.schema, "public");
    EXPECT_EQ(relation.table, "outbox");
    ASSERT_EQ(relation.columns.size(), 2U);
    EXPECT_EQ(relation.columns[0].name, "id");
    EXPECT_EQ(relation.columns[0].type, 20U);
    EXPECT_EQ(relation.columns[1].name, "payload");
    EXPECT_EQ(relation.columns[1].type, 3802U);
}

TEST(PgoutputTest, AnEmptySchemaIsTheCatalogs) {
    Decoder decoder;
    const std::string bytes = relation_bytes("");
    EXPECT_EQ(decoded<Relation>(decoder, bytes).schema, "pg_catalog");
}

TEST(PgoutputTest, ARowKeepsNullsTextsAndBytesApart) {
    Decoder decoder;
    const std::string bytes = insert_bytes();
    const auto insert = decoded<Insert>(decoder, bytes);
    EXPECT_EQ(insert.relation, 16'400U);
    ASSERT_EQ(insert.row.size(), 4U);
    EXPECT_EQ(insert.row[0].kind, Cell::Kind::text);
    EXPECT_EQ(insert.row[0].bytes, "17");
    EXPECT_EQ(insert.row[1].kind, Cell::Kind::null);
    EXPECT_EQ(insert.row[2].kind, Cell::Kind::binary);
    EXPECT_EQ(insert.row[2].bytes, std::string_view("\0\1", 2));
    EXPECT_EQ(insert.row[3].kind, Cell::Kind::text) << "an empty text is no null";
    EXPECT_EQ(insert.row[3].bytes, "");
}

TEST(PgoutputTest, ARowIsNotCopied) {
    Decoder decoder;
    const std::string bytes = insert_bytes();
    const auto insert = decoded<Insert>(decoder, bytes);
    ASSERT_FALSE(insert.row.empty());
    EXPECT_GE(insert.row[0].bytes.data(), bytes.data());
    EXPECT_LT(insert.row[0].bytes.data(), bytes.data() + bytes.size());
}

TEST(PgoutputTest, ASecondRowReplacesTheFirst) {
    Decoder decoder;
    const std::string first = insert_bytes();
    const std::string second = StreamWriter('I')
                                   .integer<std::uint32_t>(7)
                                   .integer<char>('N')
                                   .integer<std::uint16_t>(1)
                                   .integer<char>('t')
                                   .counted("x");
    decoded<Insert>(decoder, first);
    const auto insert = decoded<Insert>(decoder, second);
    ASSERT_EQ(insert.row.size(), 1U);
    EXPECT_EQ(insert.row[0].bytes, "x");
}

TEST(PgoutputTest, ALogicalMessageSaysWhetherItsTransactionMatters) {
    for (const char flags : {'\0', '\1'}) {
        Decoder decoder;
        const std::string bytes = message_bytes(flags);
        const auto message = decoded<LogicalMessage>(decoder, bytes);
        EXPECT_EQ(message.transactional, flags == '\1');
        EXPECT_EQ(message.lsn, 0x90);
        EXPECT_EQ(message.prefix, "deliverd.events");
        EXPECT_EQ(message.content, "{}");
    }
}

TEST(PgoutputTest, WhatAnOutboxDoesNotNeedIsPassedOver) {
    for (const char kind : {'U', 'D', 'T', 'Y', 'O'}) {
        Decoder decoder;
        EXPECT_EQ(decoded<Other>(decoder, StreamWriter(kind).bytes("whatever")).kind, kind);
    }
}

TEST(PgoutputTest, EveryCutIsRefused) {
    for (const std::string& whole :
         {begin_bytes(), commit_bytes(), relation_bytes("public"), insert_bytes(), message_bytes(1)}) {
        ASSERT_EQ(refusal(whole), "");
        for (std::size_t size = 0; size < whole.size(); ++size) {
            EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("it ends too early")) << whole.front() << size;
        }
    }
}

TEST(PgoutputTest, NothingMayFollow) {
    for (const std::string& whole :
         {begin_bytes(), commit_bytes(), relation_bytes("public"), insert_bytes(), message_bytes(1)}) {
        EXPECT_THAT(refusal(whole + "x"), HasSubstr("more follows than belongs to it")) << whole.front();
    }
}

TEST(PgoutputTest, ARefusalNamesTheKindAndTheByte) {
    EXPECT_THAT(refusal("S123"),
                HasSubstr("a message 'S' of the replication stream cannot be read: its kind is unknown "
                          "(byte 0 of 4)"));
    EXPECT_THAT(refusal("\x01"), HasSubstr("a message 0x01"));
    EXPECT_THAT(refusal(""), HasSubstr("an empty message"));
}

TEST(PgoutputTest, ANewRowHasAllItsValues) {
    const auto row = [](char kind) -> std::string {
        return StreamWriter('I').integer<std::uint32_t>(1).integer<char>('N').integer<std::uint16_t>(1).integer<char>(
            kind);
    };
    EXPECT_THAT(refusal(row('u')), HasSubstr("marked as unchanged (byte 9 of 9)"));
    EXPECT_THAT(refusal(row('x')), HasSubstr("a value has an unknown kind"));
    const std::string old_row =
        StreamWriter('I').integer<std::uint32_t>(1).integer<char>('K').integer<std::uint16_t>(0);
    EXPECT_THAT(refusal(old_row), HasSubstr("it has no new row"));
}

TEST(PgoutputTest, ALengthBeyondTheMessageIsRefused) {
    const std::string lying = StreamWriter('I')
                                  .integer<std::uint32_t>(1)
                                  .integer<char>('N')
                                  .integer<std::uint16_t>(1)
                                  .integer<char>('t')
                                  .integer<std::uint32_t>(0xFFFF'FFFF)
                                  .bytes("short");
    EXPECT_THAT(refusal(lying), HasSubstr("it ends too early"));
}

}  // namespace
}  // namespace deliverd::wal
