#include "orders/order_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/json_reader.h"

namespace deliverd::orders {
namespace {

store::Order order() {
    store::Order order;
    order.id = 42;
    order.idempotency_key = "key \"1\"";
    order.request_json = R"({"qty": 12345678901234567890.10})";
    order.request_digest = "sha256:ab";
    order.trace_id = "t-1";
    order.status = "queued";
    order.next_attempt_at = WallTime(std::chrono::milliseconds(2'500));
    order.created_at = WallTime(std::chrono::milliseconds(1'001));
    order.updated_at = WallTime(std::chrono::milliseconds(2'000));
    return order;
}

TEST(OrderJson, AcceptanceHasExactlyTheFiveFields) {
    EXPECT_EQ(acceptance_json({store::AcceptKind::fresh, order()}),
              R"({"id":42,"idempotency_key":"key \"1\"","status":"queued","request_digest":"sha256:ab",)"
              R"("created_at":"1970-01-01T00:00:01.001+00:00"})");
    EXPECT_EQ(acceptance_json({store::AcceptKind::known, order()}),
              acceptance_json({store::AcceptKind::fresh, order()}));
}

TEST(OrderJson, AKnownOrderShowsItsResultOnceThereIsOne) {
    store::Order sent = order();
    sent.status = "sent";
    sent.result_digest = "sha256:from-conflict";
    const std::string head = R"({"id":42,"idempotency_key":"key \"1\"","status":"sent","request_digest":"sha256:ab",)"
                             R"("created_at":"1970-01-01T00:00:01.001+00:00",)";
    EXPECT_EQ(acceptance_json({store::AcceptKind::known, sent}),
              head + R"("broker_order_id":null,"result_digest":"sha256:from-conflict","result":null})");
    sent.broker_order_id = "B-7";
    sent.result_digest = "sha256:cd";
    sent.result_json = R"({"n": 1.50})";
    EXPECT_EQ(acceptance_json({store::AcceptKind::known, sent}),
              head + R"("broker_order_id":"B-7","result_digest":"sha256:cd","result":{"n": 1.50}})");
}

TEST(OrderJson, AnyPartOfAResultIsAResult) {
    store::Order sent = order();
    sent.broker_order_id = "B-7";
    EXPECT_THAT(acceptance_json({store::AcceptKind::known, sent}), testing::HasSubstr(R"("broker_order_id":"B-7")"));
    sent = order();
    sent.result_json = "[1]";
    EXPECT_THAT(acceptance_json({store::AcceptKind::known, sent}), testing::HasSubstr(R"("result":[1])"));
}

TEST(OrderJson, OnlyAKnownOrderShowsHowItEnded) {
    store::Order ended = order();
    ended.status = "dead";
    ended.last_error = "BAD_REQUEST";
    ended.broker_order_id = "B-7";
    EXPECT_EQ(acceptance_json({store::AcceptKind::fresh, ended}),
              R"({"id":42,"idempotency_key":"key \"1\"","status":"dead","request_digest":"sha256:ab",)"
              R"("created_at":"1970-01-01T00:00:01.001+00:00"})");
}

TEST(OrderJson, AKnownOrderThatIsDeadSaysWhy) {
    store::Order dead = order();
    dead.status = "dead";
    dead.last_error = "BAD_REQUEST";
    dead.in_doubt = true;
    EXPECT_EQ(acceptance_json({store::AcceptKind::known, dead}),
              R"({"id":42,"idempotency_key":"key \"1\"","status":"dead","request_digest":"sha256:ab",)"
              R"("created_at":"1970-01-01T00:00:01.001+00:00","last_error":"BAD_REQUEST","in_doubt":true})");
}

TEST(OrderJson, DetailHasEverything) {
    store::OrderDetail detail;
    detail.order = order();
    detail.order.retry_count = 2;
    detail.order.last_error = "BROKER_5XX";
    detail.order.last_error_detail = "HTTP 503";
    detail.order.in_doubt = true;
    store::AuditLine first;
    first.at = WallTime(std::chrono::milliseconds(1'001));
    first.reason = "order_accepted";
    first.status_to = "queued";
    first.actor = "ops";
    store::AuditLine second = first;
    second.reason = "outbox_flush_retry";
    second.status_from = "sending";
    second.status_to = "failed";
    second.retry_count = 1;
    second.last_error = "BROKER_5XX";
    second.detail = "HTTP 503";
    second.broker_order_id = "B";
    second.worker = "w-1";
    second.actor = std::nullopt;
    detail.audit = {first, second};
    EXPECT_EQ(
        detail_json(detail),
        R"({"id":42,"idempotency_key":"key \"1\"","status":"queued","request_digest":"sha256:ab",)"
        R"("created_at":"1970-01-01T00:00:01.001+00:00","retry_count":2,)"
        R"("next_attempt_at":"1970-01-01T00:00:02.500+00:00","last_error":"BROKER_5XX",)"
        R"("last_error_detail":"HTTP 503","in_doubt":true,"broker_order_id":null,"result_digest":null,"result":null,)"
        R"("trace_id":"t-1","request":{"qty": 12345678901234567890.10},)"
        R"("updated_at":"1970-01-01T00:00:02.000+00:00","audit":[)"
        R"({"at":"1970-01-01T00:00:01.001+00:00","reason":"order_accepted","status_from":null,)"
        R"("status_to":"queued","retry_count":null,"last_error":null,"detail":null,"broker_order_id":null,)"
        R"("worker":null,"actor":"ops"},)"
        R"({"at":"1970-01-01T00:00:01.001+00:00","reason":"outbox_flush_retry","status_from":"sending",)"
        R"("status_to":"failed","retry_count":1,"last_error":"BROKER_5XX","detail":"HTTP 503",)"
        R"("broker_order_id":"B","worker":"w-1","actor":null}]})");
}

TEST(OrderJson, AResultThatIsNotJsonIsAString) {
    store::OrderDetail detail;
    detail.order = order();
    for (const std::string text :
         {"all fine", "", "{\"a\":1", "{\"a\":1,\"a\":2,}", "1e", "two\nlines", "bad \xFF byte"}) {
        detail.order.result_json = text;
        const auto result = boost::json::parse(detail_json(detail)).at("result");
        ASSERT_TRUE(result.is_string()) << text;
        if (text.find('\xFF') == std::string::npos) {
            EXPECT_EQ(std::string(result.as_string()), text);
        }
    }
    detail.order.result_json = "[1]";
    EXPECT_TRUE(boost::json::parse(detail_json(detail)).at("result").is_array());
}

/// Whether a broker writes a member twice or a number no double holds is its own affair: it is shown as it came.
TEST(OrderJson, AResultThatIsOddJsonIsShownAsItCame) {
    store::OrderDetail detail;
    detail.order = order();
    for (const std::string text : {R"({"a":1,"a":2})", R"({"price":1e400})", "[-1e-400]"}) {
        detail.order.result_json = text;
        EXPECT_THAT(detail_json(detail), testing::HasSubstr("\"result\":" + text + ","));
        EXPECT_TRUE(boost::json::parse(detail_json(detail)).at("result").is_structured()) << text;
    }
    const std::string too_deep = std::string(kMaxJsonDepth + 1, '[') + std::string(kMaxJsonDepth + 1, ']');
    detail.order.result_json = too_deep;
    EXPECT_TRUE(boost::json::parse(detail_json(detail)).at("result").is_string());
}

TEST(OrderJson, RowHasTheTablesColumns) {
    store::Order failed = order();
    failed.last_error = "UNKNOWN";
    EXPECT_EQ(row_json(failed),
              R"({"id":42,"idempotency_key":"key \"1\"","request_json":{"qty": 12345678901234567890.10},)"
              R"("request_digest":"sha256:ab","status":"queued","retry_count":0,)"
              R"("next_attempt_at":"1970-01-01T00:00:02.500+00:00","last_error":"UNKNOWN","last_error_detail":null,)"
              R"("in_doubt":false,)"
              R"("trace_id":"t-1","broker_order_id":null,"created_at":"1970-01-01T00:00:01.001+00:00",)"
              R"("updated_at":"1970-01-01T00:00:02.000+00:00"})");
}

}  // namespace
}  // namespace deliverd::orders
