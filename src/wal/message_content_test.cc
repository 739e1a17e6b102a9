#include "wal/message_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace deliverd::wal {
namespace {

using testing::HasSubstr;

/// Why the text is no event; "" if it is one.
std::string reason(std::string_view text) {
    MessageContent content;
    return read_message_content(text, content).value_or("");
}

TEST(MessageContentTest, EveryMemberIsRead) {
    const std::string text =
        R"({"event_id":"0b5ff1c2-12ab-4cde-8f00-0123456789ab","aggregate_id":"order-1","event_type":"OrderPaid",)"
        R"("payload":{"total":42},"metadata":{"tenant":"acme"},"created_at":"2026-02-20T10:30:00.123456+01:00"})";
    MessageContent content;
    ASSERT_EQ(read_message_content(text, content), std::nullopt);
    EXPECT_EQ(content.event_id, "0b5ff1c2-12ab-4cde-8f00-0123456789ab");
    EXPECT_EQ(content.aggregate_id, "order-1");
    EXPECT_EQ(content.event_type, "OrderPaid");
    EXPECT_EQ(content.payload, R"({"total":42})");
    EXPECT_EQ(content.metadata, R"({"tenant":"acme"})");
    EXPECT_EQ(content.created_at, "2026-02-20T09:30:00.123456Z");
}

TEST(MessageContentTest, ThreeMembersAreEnoughAndThePayloadStaysAsWritten) {
    const std::string text =
        " { \"payload\" : { \"n\": 1.50E+2,\n \"n\":12345678901234567890.10 } , "
        "\"aggregate_id\":\"\\u00fc\",\"event_type\":\"\",\"other\":[1]}";
    MessageContent content;
    ASSERT_EQ(read_message_content(text, content), std::nullopt);
    EXPECT_EQ(content.payload, "{ \"n\": 1.50E+2,\n \"n\":12345678901234567890.10 }");
    EXPECT_EQ(content.aggregate_id, "ü");
    EXPECT_EQ(content.event_type, "");
    EXPECT_EQ(content.event_id, "");
    EXPECT_EQ(content.metadata, "");
    EXPECT_EQ(content.created_at, "");
}

TEST(MessageContentTest, APayloadIsAnyValue) {
    for (const char* payload : {"null", "7", "\"text\"", "[]", "true"}) {
        MessageContent content;
        const std::string text = std::string(R"({"aggregate_id":"a","event_type":"T","payload":)") + payload + "}";
        ASSERT_EQ(read_message_content(text, content), std::nullopt);
        EXPECT_EQ(content.payload, payload);
    }
}

TEST(MessageContentTest, NullIsAbsentWhereAMemberIsOptional) {
    MessageContent content;
    ASSERT_EQ(read_message_content(R"({"aggregate_id":"a","event_type":"T","payload":1,"event_id":null,)"
                                   R"("metadata":null,"created_at":null})",
                                   content),
              std::nullopt);
    EXPECT_EQ(content.event_id + content.created_at, "");
    EXPECT_EQ(content.metadata, "");
}

TEST(MessageContentTest, OfTwoMembersTheLastOneCounts) {
    MessageContent content;
    ASSERT_EQ(read_message_content(R"({"aggregate_id":7,"event_type":"T","payload":1,"aggregate_id":"b","payload":2})",
                                   content),
              std::nullopt);
    EXPECT_EQ(content.aggregate_id, "b");
    EXPECT_EQ(content.payload, "2");
}

TEST(MessageContentTest, NothingIsLeftOfTheMessageBefore) {
    MessageContent content;
    ASSERT_EQ(
        read_message_content(R"({"aggregate_id":"a","event_type":"T","payload":1,"event_id":"x","metadata":{"k":1},)"
                             R"("created_at":"2026-02-20T10:30:00Z"})",
                             content),
        std::nullopt);
    ASSERT_EQ(read_message_content(R"({"aggregate_id":"b","event_type":"U","payload":2})", content), std::nullopt);
    EXPECT_EQ(content.event_id + content.created_at, "");
    EXPECT_EQ(content.metadata, "");
}

TEST(MessageContentTest, ARefusalSaysWhatIsWrong) {
    EXPECT_THAT(reason(""), HasSubstr("its content is not JSON"));
    EXPECT_THAT(reason("{"), HasSubstr("its content is not JSON"));
    EXPECT_THAT(reason("\xff"), HasSubstr("its content is not JSON"));
    EXPECT_THAT(reason("[]"), HasSubstr("its content is not a JSON object"));
    EXPECT_THAT(reason("{}"), HasSubstr("it has no aggregate_id"));
    EXPECT_THAT(reason(R"({"aggregate_id":"a"})"), HasSubstr("it has no event_type"));
    EXPECT_THAT(reason(R"({"aggregate_id":"a","event_type":"T"})"), HasSubstr("it has no payload"));
    EXPECT_THAT(reason(R"({"aggregate_id":null,"event_type":"T","payload":1})"),
                HasSubstr("its aggregate_id is not a string"));
    EXPECT_THAT(reason(R"({"aggregate_id":"a","event_type":7,"payload":1})"),
                HasSubstr("its event_type is not a string"));
    const std::string begin = R"({"aggregate_id":"a","event_type":"T","payload":1,)";
    EXPECT_EQ(reason(begin + R"("x":1})"), "");
    EXPECT_THAT(reason(begin + R"("event_id":7})"), HasSubstr("its event_id"));
    EXPECT_THAT(reason(begin + R"("event_id":""})"), HasSubstr("its event_id"));
    EXPECT_THAT(reason(begin + R"("metadata":[]})"), HasSubstr("its metadata is not a JSON object"));
    EXPECT_THAT(reason(begin + R"("created_at":"yesterday"})"), HasSubstr("its created_at is not a time"));
    EXPECT_THAT(reason(begin + R"("created_at":7})"), HasSubstr("its created_at is not a time"));
    EXPECT_THAT(reason(R"({"aggregate_id":"a\u0000","event_type":"T","payload":1})"), HasSubstr("U+0000"));
    EXPECT_THAT(reason("{}"), HasSubstr("; write a JSON object with aggregate_id, event_type and payload"));
}

}  // namespace
}  // namespace deliverd::wal
