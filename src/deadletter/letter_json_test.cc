#include "deadletter/letter_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "deadletter/retry_rules.h"

namespace deliverd::deadletter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kId = "550e8400-e29b-41d4-a716-446655440000";

WallTime at(std::int64_t millis) {
    return WallTime(std::chrono::milliseconds(1'771'583'400'000 + millis));  // 2026-02-20T10:30:00Z
}

store::LetterDetail letter() {
    store::LetterDetail detail;
    store::Letter& letter = detail.letter;
    letter.id = kId;
    letter.source = "kafka";
    letter.provenance.original_topic = "orders.events.v1";
    letter.provenance.error_message = "processing failed";
    letter.payload = R"({"order_id": "123", "n": 12345678901234567890.10})";
    letter.created_at = letter.updated_at = at(0);
    letter.topic = "orders.dlq.v1";
    letter.partition = 2;
    letter.offset = 17;
    letter.value_bytes = 49;
    detail.record.topic = "orders.dlq.v1";
    detail.record.partition = 2;
    detail.record.offset = 17;
    detail.record.key = "k-1";
    detail.record.value = letter.payload;
    return detail;
}

std::vector<std::string> names(const boost::json::object& object) {
    std::vector<std::string> found;
    for (const auto& member : object) found.emplace_back(member.key());
    return found;
}

boost::json::object parsed(const std::string& text) {
    return boost::json::parse(text).as_object();
}

TEST(LetterJson, TheSeedsFieldsStandFirstInItsOrder) {
    const std::string text = detail_json(letter());
    EXPECT_THAT(text,
                testing::StartsWith(
                    R"({"id":"550e8400-e29b-41d4-a716-446655440000","original_topic":"orders.events.v1",)"
                    R"("error_message":"processing failed","retry_count":0,"max_retries":3,)"
                    R"("payload":{"order_id": "123", "n": 12345678901234567890.10},"status":"PENDING",)"
                    R"("created_at":"2026-02-20T10:30:00.000+00:00","updated_at":"2026-02-20T10:30:00.000+00:00",)"
                    R"("last_retry_at":null,"source":"kafka","topic":"orders.dlq.v1","partition":2,"offset":17,)"));
    EXPECT_THAT(names(parsed(text)),
                ElementsAre("id", "original_topic", "error_message", "retry_count", "max_retries", "payload", "status",
                            "created_at", "updated_at", "last_retry_at", "source", "topic", "partition", "offset",
                            "error_class", "original_partition", "original_offset", "producer", "lane", "outbox",
                            "outbox_row_id", "value_bytes", "truncated", "in_doubt", "last_retry_error", "retryable",
                            "not_retryable_reason", "payload_left_out", "key", "stack_trace"));
}

TEST(LetterJson, APageSaysWhichPayloadItLeftOut) {
    store::LetterPage page{.letters = {letter().letter, letter().letter}};
    page.letters[1].payload.reset();
    page.letters[1].payload_left_out = true;
    const auto text = parsed(page_json(std::move(page), 1, 20));
    const auto& messages = text.at("messages").as_array();
    EXPECT_TRUE(messages[0].at("payload").is_object());
    EXPECT_FALSE(messages[0].at("payload_left_out").as_bool());
    EXPECT_TRUE(messages[1].at("payload").is_null());
    EXPECT_TRUE(messages[1].at("payload_left_out").as_bool());
}

TEST(LetterJson, ShowsWhatIsKnownOfAFailure) {
    auto detail = letter();
    store::Letter& it = detail.letter;
    it.provenance.error_class = "java.lang.IllegalStateException";
    it.provenance.stack_trace = "at A\n\tat B \xFF";
    it.provenance.original_partition = 4;
    it.provenance.original_offset = 9'007'199'254'740'993;
    it.provenance.producer = "spring-kafka";
    it.status = store::LetterStatus::retrying;
    it.retry_count = 1;
    it.last_retry_at = at(60'000);
    it.in_doubt = true;
    it.last_retry_error = "no answer";
    const std::string text = detail_json(detail);
    EXPECT_THAT(text, HasSubstr(R"("status":"RETRYING")"));
    EXPECT_THAT(text, HasSubstr(R"("last_retry_at":"2026-02-20T10:31:00.000+00:00")"));
    EXPECT_THAT(text, HasSubstr(R"("error_class":"java.lang.IllegalStateException","original_partition":4,)"
                                R"("original_offset":9007199254740993,"producer":"spring-kafka")"));
    EXPECT_THAT(text, HasSubstr("\"stack_trace\":\"at A\\n\\tat B \xEF\xBF\xBD\""));
    EXPECT_THAT(text, HasSubstr(R"("in_doubt":true,"last_retry_error":"no answer","retryable":true,)"
                                R"("not_retryable_reason":null,"payload_left_out":false,"key":"k-1")"));
}

TEST(LetterJson, SaysWhyALetterIsNotRetryable) {
    auto detail = letter();
    EXPECT_EQ(not_retryable_reason(detail), "");
    detail.letter.retry_count = 3;
    EXPECT_EQ(not_retryable_reason(detail), "status=PENDING, retry_count=3/3");
    detail.letter.status = store::LetterStatus::dead;
    EXPECT_EQ(not_retryable_reason(detail), "status=DEAD, retry_count=3/3");
    detail.letter.retry_count = 1;
    detail.letter.status = store::LetterStatus::resolved;
    EXPECT_EQ(not_retryable_reason(detail), "status=RESOLVED, retry_count=1/3");
    EXPECT_THAT(detail_json(detail),
                HasSubstr(R"("retryable":false,"not_retryable_reason":"status=RESOLVED, retry_count=1/3")"));
    auto cut = letter();
    cut.letter.truncated = true;
    EXPECT_NE(not_retryable_reason(cut), "");
    EXPECT_FALSE(parsed(detail_json(cut)).at("retryable").as_bool());
    EXPECT_EQ(not_retryable_reason(letter(), "*-dlt"), "");
    EXPECT_NE(not_retryable_reason(letter(), "orders.*"), "") << "its origin is one of the topics that are read";
}

TEST(LetterJson, AKeyThatIsNoTextIsNull) {
    auto detail = letter();
    for (const char* bytes : {"\x01", "\xFF\xFE", "a\x7F"}) {
        detail.record.key = bytes;
        EXPECT_TRUE(parsed(detail_json(detail)).at("key").is_null());
    }
    detail.record.key = "";
    EXPECT_EQ(parsed(detail_json(detail)).at("key").as_string(), "");
    detail.record.key.reset();
    EXPECT_TRUE(parsed(detail_json(detail)).at("key").is_null());
}

TEST(LetterJson, ALanesLetterNamesItsRow) {
    auto detail = letter();
    detail.letter.source = "lane:events";
    detail.letter.topic.reset();
    detail.letter.partition.reset();
    detail.letter.offset.reset();
    detail.letter.lane_row = store::LaneRow{"events", "events", "42"};
    const std::string text = detail_json(detail);
    EXPECT_THAT(text, HasSubstr(R"("source":"lane:events","topic":null,"partition":null,"offset":null)"));
    EXPECT_THAT(text, HasSubstr(R"("lane":"events","outbox":"events","outbox_row_id":"42")"));
}

TEST(LetterJson, APageHasTheSeedsPaginationAndACursor) {
    store::LetterPage page;
    page.letters.push_back(letter().letter);
    page.letters[0].payload.reset();
    page.total = 150;
    page.has_next = true;
    const auto body = parsed(page_json(page, 1, 20));
    EXPECT_THAT(names(body), ElementsAre("messages", "pagination"));
    const auto& message = body.at("messages").at(0).as_object();
    EXPECT_TRUE(message.at("payload").is_null());
    EXPECT_FALSE(message.contains("stack_trace"));
    EXPECT_FALSE(message.contains("key"));
    EXPECT_EQ(boost::json::serialize(body.at("pagination")),
              R"({"total_count":150,"page":1,"page_size":20,"has_next":true,)"
              R"("next_cursor":"1771583400000000_550e8400-e29b-41d4-a716-446655440000","total_is_minimum":false})");
    EXPECT_EQ(page_json({}, std::nullopt, 5),
              R"({"messages":[],"pagination":{"total_count":0,"page":null,"page_size":5,"has_next":false,)"
              R"("next_cursor":null,"total_is_minimum":false}})");
}

TEST(LetterJson, TheRawFormKeepsEveryByteAndTellsNullFromEmpty) {
    auto detail = letter();
    Record& record = detail.record;
    record.key = std::string("\x00\xFF", 2);
    record.value = "hello\n";
    record.headers = {{"a", "1"}, {"a", std::nullopt}, {"b", ""}, {"bad\xFF", std::string("\x01")}};
    record.timestamp_ms = 1'771'583'400'123;
    record.timestamp_type = RecordTime::created;
    EXPECT_EQ(
        raw_json(detail),
        "{\"key_base64\":\"AP8=\",\"value_base64\":\"aGVsbG8K\",\"headers\":["
        "{\"name\":\"a\",\"value_base64\":\"MQ==\",\"value_text\":\"1\"},"
        "{\"name\":\"a\",\"value_base64\":null,\"value_text\":null},"
        "{\"name\":\"b\",\"value_base64\":\"\",\"value_text\":\"\"},"
        "{\"name\":\"bad\xEF\xBF\xBD\",\"name_base64\":\"YmFk/w==\",\"value_base64\":\"AQ==\",\"value_text\":null}],"
        "\"topic\":\"orders.dlq.v1\",\"partition\":2,\"offset\":17,"
        "\"timestamp\":\"2026-02-20T10:30:00.123+00:00\",\"timestamp_ms\":1771583400123,"
        "\"timestamp_type\":\"created\",\"truncated\":false,"
        "\"key_text\":null,\"value_text\":\"hello\\n\"}");
    record = {};
    record.value.reset();
    detail.letter.topic.reset();
    detail.letter.partition.reset();
    detail.letter.offset.reset();
    EXPECT_EQ(raw_json(detail),
              R"({"key_base64":null,"value_base64":null,"headers":[],"topic":null,"partition":null,"offset":null,)"
              R"("timestamp":null,"timestamp_ms":null,"timestamp_type":null,"truncated":false,)"
              R"("key_text":null,"value_text":null})");
}

TEST(LetterJson, ATimeNobodyCanShowIsANumber) {
    auto detail = letter();
    detail.record.timestamp_type = RecordTime::created;
    for (const std::int64_t micros : {1'700'000'000'000'000, 9'000'000'000'000'000'000, -9'000'000'000'000'000'000}) {
        detail.record.timestamp_ms = micros;
        EXPECT_THAT(raw_json(detail), HasSubstr("\"timestamp\":null,\"timestamp_ms\":" + std::to_string(micros) + ","));
    }
}

TEST(LetterJson, CountsByTopic) {
    const std::vector<store::TopicCounts> topics{{"orders.dlq.v1", "kafka", 4, 3, 2, 1, at(5)}};
    EXPECT_EQ(topics_json(topics),
              R"({"topics":[{"topic":"orders.dlq.v1","source":"kafka","total":10,"pending":4,"retrying":3,)"
              R"("resolved":2,"dead":1,"newest_at":"2026-02-20T10:30:00.005+00:00"}]})");
    EXPECT_EQ(topics_json({}), R"({"topics":[]})");
}

TEST(LetterJson, TheAuditInItsOrder) {
    const std::vector<store::LetterAudit> lines{{at(0), "ingested", "w-1", std::nullopt, "PENDING", std::nullopt},
                                                {at(1), "dead", "otto", "PENDING", "DEAD", "by hand"}};
    EXPECT_EQ(audit_json(lines),
              R"({"audit":[{"at":"2026-02-20T10:30:00.000+00:00","action":"ingested","actor":"w-1","status_from":null,)"
              R"("status_to":"PENDING","detail":null},{"at":"2026-02-20T10:30:00.001+00:00","action":"dead",)"
              R"("actor":"otto","status_from":"PENDING","status_to":"DEAD","detail":"by hand"}]})");
}

TEST(LetterJson, CursorsComeBackAsTheyWere) {
    const store::LetterCursor cursor{WallTime(std::chrono::microseconds(1'771'583'400'123'456)), kId};
    const auto again = parse_cursor(cursor_text(cursor));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->created_at, cursor.created_at);
    EXPECT_EQ(again->id, kId);
    for (const char* wrong : {"", "_", "1_", "_550e8400-e29b-41d4-a716-446655440000", "1_550e8400",
                              "-1_550e8400-e29b-41d4-a716-446655440000", "1x_550e8400-e29b-41d4-a716-446655440000",
                              "123456789012345678_550e8400-e29b-41d4-a716-446655440000",
                              "99999999999999999999_550e8400-e29b-41d4-a716-446655440000"}) {
        EXPECT_FALSE(parse_cursor(wrong)) << wrong;
    }
}

}  // namespace
}  // namespace deliverd::deadletter
