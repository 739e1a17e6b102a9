#include "message/http_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "base/text.h"
#include "message/retry_after.h"

namespace deliverd {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// 1994-11-06T08:49:37Z, the date of RFC 9110's examples.
const WallTime kHttpNow = WallTime(seconds(784'111'777));

Outcome http_answer(int status, std::string_view body = "", std::string_view retry_after = "") {
    return classify_http_answer({status, body, retry_after}, "key-1", kHttpNow);
}

struct Row {
    int status;
    OutcomeKind kind;
    std::string_view code;
};

TEST(HttpAnswer, TableOfStatuses) {
    const auto delivered = OutcomeKind::delivered;
    const auto retryable = OutcomeKind::retryable;
    const auto permanent = OutcomeKind::permanent;
    for (const Row& row : std::initializer_list<Row>{{200, delivered, ""},
                                                     {201, delivered, ""},
                                                     {202, delivered, ""},
                                                     {204, delivered, ""},
                                                     {299, delivered, ""},
                                                     {100, retryable, "UNKNOWN"},
                                                     {301, retryable, "UNKNOWN"},
                                                     {304, retryable, "UNKNOWN"},
                                                     {399, retryable, "UNKNOWN"},
                                                     {400, permanent, "BAD_REQUEST"},
                                                     {422, permanent, "BAD_REQUEST"},
                                                     {401, permanent, "UNAUTHORIZED"},
                                                     {403, permanent, "UNAUTHORIZED"},
                                                     {404, permanent, "REJECTED"},
                                                     {408, permanent, "REJECTED"},
                                                     {409, permanent, "REJECTED"},
                                                     {410, permanent, "REJECTED"},
                                                     {499, permanent, "REJECTED"},
                                                     {429, retryable, "RATE_LIMITED"},
                                                     {500, retryable, "BROKER_5XX"},
                                                     {503, retryable, "BROKER_5XX"},
                                                     {599, retryable, "BROKER_5XX"},
                                                     {0, retryable, "UNKNOWN"},
                                                     {600, retryable, "UNKNOWN"},
                                                     {-1, retryable, "UNKNOWN"}}) {
        const Outcome outcome = http_answer(row.status);
        EXPECT_EQ(outcome.kind, row.kind) << row.status;
        EXPECT_EQ(outcome.code, row.code) << row.status;
    }
}

TEST(HttpAnswer, AnyTwoHundredIsDeliveredWhateverItSays) {
    EXPECT_EQ(http_answer(200, R"({"idempotency_key":"another"})").kind, OutcomeKind::delivered);
    EXPECT_EQ(http_answer(200, "{broken").kind, OutcomeKind::delivered);
}

TEST(HttpAnswer, ConflictThatSaysProcessedForOurKeyOrNone) {
    for (const std::string_view body :
         {R"({"code":"already_processed"})", R"({"status":"already_processed","idempotency_key":"key-1"})",
          R"({"code":"ALREADY_PROCESSED","idempotency_key":null})", R"({"message":"Order already processed"})",
          "already processed", "Already Processed.", R"(  {"error":{"text":"it was already processed"}} )"}) {
        const Outcome outcome = http_answer(409, body);
        EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << body;
        EXPECT_EQ(outcome.code, "CONFLICT_PROCESSED") << body;
    }
}

TEST(HttpAnswer, ConflictAboutAnotherKeyIsRetried) {
    for (const std::string_view body :
         {R"({"code":"already_processed","idempotency_key":"key-2"})",
          R"({"message":"already processed","idempotency_key":"KEY-1"})",
          R"({"status":"already_processed","idempotency_key":17})",
          R"({"message":"already processed","idempotency_key":"ke)"}) {  // cut off: the key cannot be read
        const Outcome outcome = http_answer(409, body);
        EXPECT_EQ(outcome.kind, OutcomeKind::retryable) << body;
        EXPECT_EQ(outcome.code, "UNKNOWN") << body;
    }
}

TEST(HttpAnswer, PlainConflictIsRejected) {
    for (const std::string_view body : {"", "conflict", R"({"code":"version_mismatch"})", "{broken",
                                        R"({"code":"not_already_processed"})", R"({"code":7})"}) {
        const Outcome outcome = http_answer(409, body);
        EXPECT_EQ(outcome.kind, OutcomeKind::permanent) << body;
        EXPECT_EQ(outcome.code, "REJECTED") << body;
    }
}

TEST(HttpAnswer, ConflictIsReadAtAnyDepth) {
    EXPECT_EQ(http_answer(409, R"({"error":{"code":"already_processed","idempotency_key":"key-1"}})").code,
              "CONFLICT_PROCESSED");
    EXPECT_EQ(http_answer(409, R"({"error":{"text":"already processed","idempotency_key":"key-2"}})").code, "UNKNOWN");
    EXPECT_EQ(http_answer(409, R"([{"text":"already processed","idempotency_key":"key-2"}])").code, "UNKNOWN");
    EXPECT_EQ(http_answer(409, R"({"text":"not already processed"})").code, "REJECTED");
    EXPECT_EQ(http_answer(409, R"({"text":"busy","idempotency_key":"key-2"})").code, "REJECTED")
        << "says nothing of it";
}

TEST(HttpAnswer, ProcessedMattersOnlyWith409) {
    EXPECT_EQ(http_answer(400, "already processed").code, "BAD_REQUEST");
    EXPECT_EQ(http_answer(404, "already processed").code, "REJECTED");
    EXPECT_EQ(http_answer(500, "already processed").code, "BROKER_5XX");
}

TEST(HttpAnswer, RetryAfterGoesWithWhatIsRetried) {
    EXPECT_EQ(http_answer(429, "", "120").retry_after, seconds(120));
    EXPECT_EQ(http_answer(503, "", "5").retry_after, seconds(5));
    EXPECT_EQ(http_answer(429).retry_after, std::nullopt);
    EXPECT_EQ(http_answer(400, "", "120").retry_after, std::nullopt);
    EXPECT_EQ(http_answer(200, "", "120").retry_after, std::nullopt);
}

TEST(HttpAnswer, APlainSuccessHasNoDetail) {
    EXPECT_EQ(http_answer(200, "stored").detail, "");
}

TEST(HttpAnswer, DetailIsOneShortLine) {
    EXPECT_EQ(http_answer(500).detail, "HTTP 500");
    EXPECT_EQ(http_answer(500, "\r\n").detail, "HTTP 500");
    EXPECT_EQ(http_answer(400, "bad\nqty\x1b[31m").detail, "HTTP 400: bad qty [31m");
    const Outcome outcome = http_answer(502, std::string(100'000, 'x'));
    EXPECT_EQ(outcome.detail.size(), kMaxDetailBytes);
    EXPECT_THAT(outcome.detail, HasSubstr("HTTP 502: xxx"));
}

RC_GTEST_PROP(HttpAnswerProperty, DetailIsAlwaysFitToStore, (const std::string& body)) {
    const int status = *rc::gen::inRange(0, 700);
    const Outcome outcome = classify_http_answer({status, body + std::string(600, '\xe2'), ""}, "key-1", kHttpNow);
    RC_ASSERT(outcome.detail.size() <= kMaxDetailBytes);
    RC_ASSERT(!find_invalid_utf8(outcome.detail).has_value());
    RC_ASSERT(outcome.detail.find_first_of(std::string("\0\n\r\x1b", 4)) == std::string::npos);
}

TEST(FindReceipt, IsTheFirstFieldWithAnId) {
    const std::vector<std::string> fields{"first", "second"};
    EXPECT_EQ(find_receipt(R"({"second":"B-2","first":"B-1"})", fields), "B-1");
    for (const std::string_view no_id : {"null", "true", "{}", R"(["B-1"])", R"("")"}) {
        const std::string first = R"({"first":)" + std::string(no_id);
        EXPECT_EQ(find_receipt(first + R"(,"second":"B-2"})", fields), "B-2") << no_id;
        EXPECT_EQ(find_receipt(first + "}", fields), std::nullopt) << no_id;
    }
    EXPECT_EQ(find_receipt(R"({"third":"B-3"})", fields), std::nullopt);
    EXPECT_EQ(find_receipt(R"({"first":"B-1")", fields), std::nullopt) << "no JSON object";
}

TEST(FindReceipt, HasNoControlCharacters) {
    for (const std::string_view control : {R"(\u0000)", R"(\n)", R"(\u001b[2J)", R"(\u001f)"}) {
        EXPECT_EQ(find_receipt(R"({"id":"B)" + std::string(control) + R"(1"})", {"id"}), std::nullopt) << control;
    }
    EXPECT_EQ(find_receipt(R"({"id":"Köln 1"})", {"id"}), "Köln 1");
}

TEST(FindReceipt, IsUtf8) {
    for (const std::string_view text : {"\xff", "\xc0\x80", "\xed\xa0\x80", R"(\ud800)", R"(\udc00)"}) {
        EXPECT_EQ(find_receipt(R"({"id":")" + std::string(text) + R"("})", {"id"}), std::nullopt) << text;
    }
}

TEST(FindReceipt, HasAtMost512Bytes) {
    const auto receipt = [](std::size_t bytes) {
        return find_receipt(R"({"id":")" + std::string(bytes, 'x') + R"("})", {"id"});
    };
    EXPECT_EQ(receipt(512), std::string(512, 'x'));
    EXPECT_EQ(receipt(513), std::nullopt);
}

TEST(RetryAfter, Seconds) {
    EXPECT_EQ(parse_retry_after("0", kHttpNow), seconds(0));
    EXPECT_EQ(parse_retry_after(" 120 ", kHttpNow), seconds(120));
    EXPECT_EQ(parse_retry_after("99999999999999999999999999", kHttpNow), Duration(kLongestRetryAfter));
    EXPECT_EQ(parse_retry_after("9223372036854775807", kHttpNow), Duration(kLongestRetryAfter));
}

TEST(RetryAfter, DatesInAllThreeForms) {
    EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:50:37 GMT", kHttpNow), seconds(60));
    EXPECT_EQ(parse_retry_after("Sunday, 06-Nov-94 08:50:37 GMT", kHttpNow), seconds(60));
    EXPECT_EQ(parse_retry_after("Sun Nov  6 08:50:37 1994", kHttpNow), seconds(60));
    EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT", kHttpNow), seconds(0));
    EXPECT_EQ(parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", kHttpNow), Duration(kLongestRetryAfter));
}

TEST(RetryAfter, PastOrUnreadableIsNone) {
    for (const std::string_view value :
         {"", " ", "-1", "+5", "1.5", "5s", "soon", "Sun, 06 Nov 1994 08:49:36 GMT", "Sun, 06 Nov 1994",
          "Sun, 31 Feb 2030 08:49:37 GMT", "Sun, 06 Nov 2030 24:49:37 GMT", "Sun, 06 Xyz 2030 08:49:37 GMT",
          "Sun, 06 Nov 2030 08:49:37 CET", "Sun, 06 Nov 2030 08:49:37 GMT and more", "Sun, -6 Nov 2030 08:49:37 GMT"}) {
        EXPECT_EQ(parse_retry_after(value, kHttpNow), std::nullopt) << value;
    }
    EXPECT_EQ(parse_retry_after(std::string(100'000, 'S'), kHttpNow), std::nullopt);
}

TEST(HttpDate, TwoDigitYearsAreNear) {
    const WallTime in_2026 = WallTime(seconds(1'771'583'400));
    EXPECT_EQ(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT", in_2026), kHttpNow);
    EXPECT_EQ(parse_http_date("Thursday, 01-Jan-70 00:00:00 GMT", in_2026),
              parse_http_date("Thu, 01 Jan 2070 00:00:00 GMT", in_2026));
}

}  // namespace
}  // namespace deliverd
