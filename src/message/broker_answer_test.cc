#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <initializer_list>
#include <string>

#include "base/json_reader.h"
#include "base/sha256.h"
#include "base/text.h"
#include "message/http_answer.h"

namespace deliverd {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

// 1994-11-06T08:49:37Z, the date of RFC 9110's examples.
const WallTime kBrokerNow = WallTime(seconds(784'111'777));

Outcome broker_answer(int status, std::string_view body = "", std::string_view retry_after = "",
                      const ProcessedMatch& match = {}) {
    return classify_broker_answer({status, body, retry_after}, false, "order-0001", match, kBrokerNow);
}

TEST(BrokerAnswer, ASuccessWithOurKeyIsDeliveredAndKept) {
    for (const int status : {200, 201, 202, 299}) {
        const std::string_view body = R"({ "broker_order_id": "B-7", "idempotency_key": "order-0001", "qty": 1e2 })";
        const Outcome outcome = broker_answer(status, body);
        EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << status;
        EXPECT_EQ(outcome.code, "");
        EXPECT_EQ(outcome.receipt, "B-7");
        ASSERT_TRUE(outcome.answer);
        EXPECT_EQ(outcome.answer->body, body);
        EXPECT_EQ(outcome.answer->digest,
                  "sha256:" + sha256_hex(R"({"broker_order_id":"B-7","idempotency_key":"order-0001","qty":100})"));
    }
}

TEST(BrokerAnswer, TheReceiptIsTheBrokersOrderIdElseItsId) {
    EXPECT_EQ(broker_answer(200, R"({"idempotency_key":"order-0001","id":12345678901234567})").receipt,
              "12345678901234567");
    EXPECT_EQ(broker_answer(200, R"({"idempotency_key":"order-0001","id":"a","broker_order_id":17})").receipt, "17");
    EXPECT_EQ(broker_answer(200, R"({"idempotency_key":"order-0001"})").receipt, std::nullopt);
    EXPECT_EQ(broker_answer(409, R"({"code":"already_processed","broker_order_id":"B-7"})").receipt, "B-7");
}

TEST(BrokerAnswer, ASuccessIsReadAsDeepAsAnyJson) {
    const auto answer_with_levels = [](std::size_t levels) {
        return R"({"idempotency_key":"order-0001","fills":)" + std::string(levels - 1, '[') +
               std::string(levels - 1, ']') + "}";
    };
    EXPECT_EQ(broker_answer(200, answer_with_levels(kMaxJsonDepth)).kind, OutcomeKind::delivered);
    EXPECT_EQ(broker_answer(200, answer_with_levels(kMaxJsonDepth + 1)).kind, OutcomeKind::ambiguous);
}

TEST(BrokerAnswer, WithoutACanonicalFormTheDigestIsOfTheBytes) {
    for (const std::string body :
         {R"({"idempotency_key":"order-0001","price":1e400})", R"({"idempotency_key":"order-0001","a":1,"a":2})"}) {
        const Outcome outcome = broker_answer(200, body);
        ASSERT_EQ(outcome.kind, OutcomeKind::delivered) << body;
        EXPECT_EQ(outcome.answer->digest, "sha256:" + sha256_hex(body));
    }
}

TEST(BrokerAnswer, ASuccessThatIsNotSurelyOursIsAmbiguous) {
    for (const std::string_view body : {"",
                                        " ",
                                        "OK",
                                        "{}",
                                        "[]",
                                        "null",
                                        R"("order-0001")",
                                        R"({"status":"accepted"})",
                                        R"({"idempotency_key":null})",
                                        R"({"idempotency_key":"order-0002"})",
                                        R"({"idempotency_key":"ORDER-0001"})",
                                        R"({"idempotency_key":"order-00010"})",
                                        R"({"idempotency_key":1})",
                                        R"({"idempotency_key":["order-0001"]})",
                                        R"({"order":{"idempotency_key":"order-0001"}})",
                                        R"([{"idempotency_key":"order-0001"}])",
                                        R"({"idempotency_key":"order-0001")",
                                        R"({"idempotency_key":"order-0001"} x)",
                                        R"({"idempotency_key":"order-)",
                                        "{\"idempotency_key\":\"order-0001\",\"a\":\"\xff\"}"}) {
        const Outcome outcome = broker_answer(201, body);
        EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << body;
        EXPECT_EQ(outcome.code, "UNKNOWN") << body;
        EXPECT_THAT(outcome.detail, StartsWith("HTTP 201, but ")) << body;
        EXPECT_FALSE(outcome.answer) << body;
    }
    EXPECT_THAT(broker_answer(200, R"({"idempotency_key":"order-0002"})").detail, HasSubstr("another idempotency_key"));
    for (const auto* without : {"{}", R"({"idempotency_key":null})"}) {
        EXPECT_THAT(broker_answer(200, without).detail, HasSubstr("without our idempotency_key")) << without;
    }
    EXPECT_THAT(broker_answer(200, "<html>").detail, HasSubstr("not a JSON object: <html>"));
}

TEST(BrokerAnswer, AnAnswerThatWasCutIsAmbiguousAndSaysWhatToDo) {
    // Also where what was read looks whole: what came behind it is not known.
    for (const auto& [status, body] : std::initializer_list<std::pair<int, std::string_view>>{
             {200, R"({"idempotency_key":"order-0001"})"},
             {409, "already processed"},
             {409, R"({"code":"already_processed","broker_orde)"}}) {
        const Outcome outcome = classify_broker_answer({status, body, ""}, true, "order-0001", {}, kBrokerNow);
        EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << body;
        EXPECT_EQ(outcome.code, "UNKNOWN") << body;
        EXPECT_THAT(outcome.detail, HasSubstr("raise")) << body;
        EXPECT_THAT(outcome.detail, HasSubstr("max_answer_bytes")) << body;
    }
    EXPECT_EQ(classify_broker_answer({503, "long", ""}, true, "order-0001", {}, kBrokerNow).code, "BROKER_5XX");
    EXPECT_EQ(classify_broker_answer({422, "long", ""}, true, "order-0001", {}, kBrokerNow).code, "BAD_REQUEST");
}

TEST(BrokerAnswer, OtherStatusesAsWithAnyReceiver) {
    struct Row {
        int status;
        OutcomeKind kind;
        std::string_view code;
    };
    const auto retryable = OutcomeKind::retryable;
    const auto permanent = OutcomeKind::permanent;
    for (const Row& row : std::initializer_list<Row>{{100, retryable, "UNKNOWN"},
                                                     {199, retryable, "UNKNOWN"},
                                                     {300, retryable, "UNKNOWN"},
                                                     {302, retryable, "UNKNOWN"},
                                                     {400, permanent, "BAD_REQUEST"},
                                                     {422, permanent, "BAD_REQUEST"},
                                                     {401, permanent, "UNAUTHORIZED"},
                                                     {403, permanent, "UNAUTHORIZED"},
                                                     {404, permanent, "REJECTED"},
                                                     {410, permanent, "REJECTED"},
                                                     {429, retryable, "RATE_LIMITED"},
                                                     {500, retryable, "BROKER_5XX"},
                                                     {503, retryable, "BROKER_5XX"},
                                                     {599, retryable, "BROKER_5XX"},
                                                     {600, retryable, "UNKNOWN"}}) {
        // Not even our key makes them anything else.
        for (const std::string_view body : {"", R"({"idempotency_key":"order-0001","code":"already_processed"})"}) {
            const Outcome outcome = broker_answer(row.status, body);
            EXPECT_EQ(outcome.kind, row.kind) << row.status << body;
            EXPECT_EQ(outcome.code, row.code) << row.status << body;
            EXPECT_FALSE(outcome.answer) << row.status;
        }
    }
}

TEST(BrokerAnswer, RetryAfterInSecondsAndAsADate) {
    EXPECT_EQ(broker_answer(429, "", "3").retry_after, seconds(3));
    EXPECT_EQ(broker_answer(429, "", "Sun, 06 Nov 1994 08:49:40 GMT").retry_after, seconds(3));
    EXPECT_EQ(broker_answer(503, "", "120").retry_after, seconds(120));
    EXPECT_EQ(broker_answer(429).retry_after, std::nullopt);
    EXPECT_EQ(broker_answer(400, "", "3").retry_after, std::nullopt);
}

TEST(BrokerAnswer, AConflictThatSaysProcessedForOurKeyOrNone) {
    for (const std::string_view body :
         {R"({"code":"already_processed","idempotency_key":"order-0001"})", R"({"status":"Already_Processed"})",
          R"({"message":"this order was ALREADY PROCESSED","idempotency_key":"order-0001"})",
          R"({"code":"already_processed","idempotency_key":null})", "Already processed."}) {
        const Outcome outcome = broker_answer(409, body);
        EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << body;
        EXPECT_EQ(outcome.code, "CONFLICT_PROCESSED") << body;
        ASSERT_TRUE(outcome.answer) << body;
        EXPECT_EQ(outcome.answer->digest, "sha256:from-conflict");
        EXPECT_EQ(outcome.answer->body, body);
    }
}

TEST(BrokerAnswer, AConflictIsKeptAsTextAStoreTakes) {
    const Outcome outcome = broker_answer(409, std::string_view("already processed \xff\0!", 21));
    ASSERT_TRUE(outcome.answer);
    EXPECT_EQ(outcome.answer->body, "already processed \xEF\xBF\xBD !");
}

TEST(BrokerAnswer, AConflictAboutAnotherKeyOrUnreadableIsRetried) {
    for (const std::string_view body :
         {R"({"code":"already_processed","idempotency_key":"order-0002"})",
          R"({"message":"already processed","idempotency_key":1})", R"({"code":"already_processed","idempotency_k)",
          R"({"message":"already processed",)", "{broken"}) {
        const Outcome outcome = broker_answer(409, body);
        EXPECT_EQ(outcome.kind, OutcomeKind::retryable) << body;
        EXPECT_EQ(outcome.code, "UNKNOWN") << body;
    }
}

TEST(BrokerAnswer, APlainConflictIsRejected) {
    for (const std::string_view body : {"", "conflict", "[", R"({"code":"version_mismatch"})", R"({"code":7})", "{}",
                                        R"({"code":"not_already_processed","idempotency_key":"order-0001"})"}) {
        const Outcome outcome = broker_answer(409, body);
        EXPECT_EQ(outcome.kind, OutcomeKind::permanent) << body;
        EXPECT_EQ(outcome.code, "REJECTED") << body;
    }
}

TEST(BrokerAnswer, AConflictIsReadAtAnyDepth) {
    for (const std::string_view body :
         {R"({"error":{"code":"already_processed","idempotency_key":"order-0001"}})",
          R"({"errors":[{"detail":{"status":"ALREADY_PROCESSED"}}],"idempotency_key":"order-0001"})",
          R"([{"message":"already processed","idempotency_key":"order-0001"}])",
          R"({"error":{"message":"order already processed","idempotency_key":null},"idempotency_key":"order-0001"})",
          R"({"error":{"message":"already\u0020processed","idempotency\u005fkey":"order-0001"}})",
          R"({"code":"already_processed","idempotency_key":"order-0001","idempotency_key":"order-0001"})"}) {
        EXPECT_EQ(broker_answer(409, body).code, "CONFLICT_PROCESSED") << body;
    }
    for (const std::string_view body :
         {R"({"error":{"message":"order already processed","idempotency_key":"order-0002"}})",
          R"([{"message":"already processed","idempotency_key":"order-0002"}])",
          R"({"code":"already_processed","idempotency_key":"order-0001","first":{"idempotency_key":"order-0002"}})",
          R"({"code":"already_processed","request":{"idempotency_key":["order-0001"]}})",
          R"({"code":"already_processed","request":{"idempotency_key":{"value":"order-0001"}}})",
          R"({"code":"already_processed","idempotency_key":true})",
          R"({"code":"already_processed","idempotency_key":1.5})",
          R"({"error":{"message":"already\u0020processed","idempotency\u005fkey":"order-0002"}})",
          R"([{"message":"already processed")", R"(["already processed)"}) {
        EXPECT_EQ(broker_answer(409, body).code, "UNKNOWN") << body;
    }
}

TEST(BrokerAnswer, AConflictThatNamesAnotherKeyIsNoRefusalOfOurs) {
    EXPECT_EQ(broker_answer(409, R"({"code":"version_mismatch","idempotency_key":"order-0002"})").code, "UNKNOWN");
    EXPECT_EQ(broker_answer(409, R"({"error":{"idempotency_key":"order-0002"}})").code, "UNKNOWN");
    EXPECT_EQ(broker_answer(409, R"({"code":"version_mismatch","idempotency_key":"order-0001"})").code, "REJECTED");
}

TEST(BrokerAnswer, TheTextOfAConflictIsLookedForInItsStringsOnly) {
    EXPECT_EQ(broker_answer(409, R"({"already processed":false})").code, "REJECTED");
    EXPECT_EQ(broker_answer(409, R"({"a":"already","processed":1})").code, "REJECTED");
    EXPECT_EQ(broker_answer(409, R"("already processed")").code, "CONFLICT_PROCESSED");
    EXPECT_EQ(broker_answer(409, "[broker] already processed").code, "CONFLICT_PROCESSED") << "no array";
}

TEST(BrokerAnswer, NotAlreadyProcessedIsNoMatch) {
    for (const std::string_view body :
         {"not already processed", "Order NOT Already Processed", "it was not \t already processed",
          R"({"message":"not already processed"})", R"({"message":"not\u0020already processed"})"}) {
        EXPECT_EQ(broker_answer(409, body).code, "REJECTED") << body;
    }
    for (const std::string_view body :
         {"not already processed? It is already processed", "It is notalready processed", "is already processed",
          "lot already processed", R"({"sent":"not","message":"already processed"})"}) {
        EXPECT_EQ(broker_answer(409, body).code, "CONFLICT_PROCESSED") << body;
    }
}

TEST(BrokerAnswer, AKeyWrittenTwiceDifferentlyIsAnotherKey) {
    for (const std::string_view keys : {R"("idempotency_key":"order-0002","idempotency_key":"order-0001")",
                                        R"("idempotency_key":"order-0001","idempotency_key":"order-0002")",
                                        R"("idempotency_key":1,"idempotency_key":"order-0001")"}) {
        const std::string body = R"({"code":"already_processed",)" + std::string(keys) + "}";
        EXPECT_EQ(broker_answer(200, body).code, "UNKNOWN") << body;
        EXPECT_THAT(broker_answer(200, body).detail, HasSubstr("another idempotency_key")) << body;
        EXPECT_EQ(broker_answer(409, body).code, "UNKNOWN") << body;
    }
    const std::string_view with_null = R"({"idempotency_key":null,"idempotency_key":"order-0001"})";
    EXPECT_EQ(broker_answer(200, with_null).code, "UNKNOWN");
    const std::string_view the_same = R"({"idempotency_key":"order-0001","idempotency_key":"order-0001"})";
    EXPECT_EQ(broker_answer(200, the_same).kind, OutcomeKind::delivered);
    // Only the top says whose answer it is: below it a broker may name other orders.
    const std::string_view others = R"({"idempotency_key":"order-0001","replaces":{"idempotency_key":"order-0002"}})";
    EXPECT_EQ(broker_answer(200, others).kind, OutcomeKind::delivered);
}

TEST(BrokerAnswer, TheMatchIsConfigurable) {
    const ProcessedMatch match{{"reason"}, "DUPLICATE", "Seen Before"};
    EXPECT_EQ(broker_answer(409, R"({"reason":"duplicate"})", "", match).code, "CONFLICT_PROCESSED");
    EXPECT_EQ(broker_answer(409, "seen before", "", match).code, "CONFLICT_PROCESSED");
    EXPECT_EQ(broker_answer(409, R"({"reason":"duplicate","idempotency_key":"order-0002"})", "", match).code,
              "UNKNOWN");
    EXPECT_EQ(broker_answer(409, R"({"code":"already_processed","text":"already processed"})", "", match).code,
              "REJECTED");
    EXPECT_EQ(broker_answer(409, R"({"code":"duplicate"})", "", match).code, "REJECTED")
        << "not in a field of the match";

    const ProcessedMatch nothing{{"code"}, "", ""};
    EXPECT_EQ(broker_answer(409, R"({"code":""})", "", nothing).code, "REJECTED");
    EXPECT_EQ(broker_answer(409, "", "", nothing).code, "REJECTED");
    EXPECT_EQ(broker_answer(409, "busy", "", nothing).code, "REJECTED");
}

/// Pieces of answers, so that many of them are nearly right.
rc::Gen<std::string> any_body() {
    const auto pieces =
        rc::gen::map(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                         "{", "}", "[", "]", ",", ":", R"("idempotency_key")", R"("order-0001")", R"("order-0002")",
                         "1e400", "null", R"("id")", "already processed", " ", "\xff", std::string(1, '\0'))),
                     [](const std::vector<std::string>& parts) {
                         std::string body;
                         for (const std::string& part : parts) body += part;
                         return body;
                     });
    return rc::gen::oneOf(rc::gen::arbitrary<std::string>(), pieces,
                          rc::gen::map(rc::gen::arbitrary<std::string>(), [](const std::string& tail) {
                              return R"({"idempotency_key":"order-0001"})" + tail;
                          }));
}

RC_GTEST_PROP(BrokerAnswerProperty, AnyBytesGiveAnOutcomeAndOnlyOurKeyIsADelivery, ()) {
    const std::string body = *any_body();
    const int status = *rc::gen::element(200, 201, 299, 409, 429, 500, 404, 302);
    const bool cut = *rc::gen::arbitrary<bool>();
    const Outcome outcome = classify_broker_answer({status, body, ""}, cut, "order-0001", {}, kBrokerNow);
    RC_ASSERT(outcome.detail.size() <= kMaxDetailBytes);
    RC_ASSERT(!find_invalid_utf8(outcome.detail));
    RC_ASSERT(outcome.kind == OutcomeKind::delivered || !outcome.code.empty());
    RC_ASSERT(outcome.answer.has_value() == (outcome.kind == OutcomeKind::delivered));
    if (outcome.kind != OutcomeKind::delivered) return;
    RC_ASSERT(!cut);
    RC_ASSERT(!find_invalid_utf8(outcome.answer->body));
    RC_ASSERT(outcome.answer->body.find('\0') == std::string::npos);
    if (status == 409) {
        RC_ASSERT(outcome.answer->digest == kDigestFromConflict);
    } else {
        RC_ASSERT(status / 100 == 2);
        RC_ASSERT(body.find(R"("idempotency_key")") != std::string::npos);
        RC_ASSERT(body.find(R"("order-0001")") != std::string::npos);
        RC_ASSERT(outcome.answer->body == body);
        RC_ASSERT(outcome.answer->digest.size() == std::string_view("sha256:").size() + 64);
    }
}

}  // namespace
}  // namespace deliverd
