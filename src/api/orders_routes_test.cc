#include "api/orders_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <future>
#include <set>
#include <thread>

#include "api/testing/fake_orders.h"
#include "base/sha256.h"
#include "base/testing/recording_log.h"

namespace deliverd::api {
namespace {

using testing::HasSubstr;

constexpr std::string_view kBody = R"({"idempotency_key":"order-0001","symbol":"AAPL","intent":"BUY","qty":10})";

class OrdersRoutesTest : public testing::Test {
protected:
    http::Response ask(const http::Request& request) {
        std::promise<http::Response> answer;
        auto future = answer.get_future();
        handle_(request, http::Reply([&answer](http::Response response) { answer.set_value(std::move(response)); }));
        if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
            ADD_FAILURE() << "no answer";
            std::abort();  // the reply would write into this frame
        }
        return future.get();
    }
    http::Response post(std::string_view body, http::Headers headers = {{"Idempotency-Key", "order-0001"}}) {
        return ask({"POST", "/api/v1/orders", "", std::move(headers), std::string(body), "127.0.0.1"});
    }
    http::Response get(const std::string& key, http::Headers headers = {}) {
        return ask({"GET", "/api/v1/orders/" + key, "", std::move(headers), "", "127.0.0.1"});
    }
    static std::string header(const http::Response& response, std::string_view name) {
        for (const auto& [key, value] : response.headers) {
            if (key == name) return value;
        }
        return "";
    }
    /// "status CODE", after a look at the shape that every error has.
    static std::string error_of(const http::Response& response) {
        const auto error = boost::json::parse(response.body).at("error");
        EXPECT_EQ(std::string(error.at("request_id").as_string()), header(response, "X-Request-Id"));
        EXPECT_FALSE(error.at("message").as_string().empty());
        EXPECT_TRUE(error.at("details").is_array());
        return std::to_string(response.status) + " " + std::string(error.at("code").as_string());
    }
    static std::string message_of(const http::Response& response) {
        return std::string(boost::json::parse(response.body).at("error").at("message").as_string());
    }

    RecordingLog log_;
    FakeOrders orders_;
    orders::Intake intake_{{}, orders_, log_};
    http::DeferredHandler handle_ = make_handler(orders_routes(intake_, orders_, log_), {}, log_);
};

TEST_F(OrdersRoutesTest, TheFirstPostIs201AndTheSameAgain200) {
    const auto first = post(kBody);
    EXPECT_EQ(first.status, 201);
    EXPECT_EQ(header(first, "Location"), "/api/v1/orders/order-0001");
    const auto body = boost::json::parse(first.body).as_object();
    std::set<std::string> fields;
    for (const auto& member : body) fields.emplace(member.key());
    EXPECT_EQ(fields, (std::set<std::string>{"id", "idempotency_key", "status", "request_digest", "created_at"}));
    EXPECT_EQ(body.at("id"), 1);

    const auto again =
        post(R"({"qty":10.0, "intent":"BUY","symbol":"AAPL","idempotency_key":"order-0001","trace_id":"x"})");
    EXPECT_EQ(again.status, 200);
    EXPECT_EQ(again.body, first.body);
    EXPECT_EQ(header(again, "Location"), "");
    orders_.set_result("order-0001", R"({"ok":true})");
    EXPECT_THAT(post(kBody).body, HasSubstr(R"("result":{"ok":true})"));
    EXPECT_EQ(orders_.accepted().size(), 1U);
}

TEST_F(OrdersRoutesTest, StoresWhatWasPostedAndWhoPostedIt) {
    post(R"({"idempotency_key":"order-0001","symbol":"AAPL","intent":"BUY","qty":10.10,"trace_id":"t-9"})");
    ASSERT_EQ(orders_.accepted().size(), 1U);
    const auto stored = orders_.accepted()[0];
    EXPECT_EQ(stored.request_json,
              R"({"idempotency_key":"order-0001","symbol":"AAPL","intent":"BUY","qty":10.10,"trace_id":"t-9"})");
    EXPECT_EQ(stored.trace_id, "t-9");
    EXPECT_EQ(stored.actor, "anonymous");
    EXPECT_EQ(stored.request_digest, "sha256:" + sha256_hex(R"({"intent":"BUY","qty":10.1,"symbol":"AAPL"})"));
}

TEST_F(OrdersRoutesTest, AnotherOrderUnderTheKeyIs409) {
    post(kBody);
    const auto other = post(R"({"idempotency_key":"order-0001","symbol":"AAPL","intent":"SELL","qty":10})");
    EXPECT_EQ(error_of(other), "409 IDEMPOTENCY_CONFLICT");
    EXPECT_THAT(message_of(other), HasSubstr("order-0001"));
}

TEST_F(OrdersRoutesTest, RefusalsDoNotTouchTheDatabase) {
    EXPECT_EQ(error_of(post(kBody, {})), "400 IDEMPOTENCY_KEY_REQUIRED");
    EXPECT_EQ(error_of(post(kBody, {{"Idempotency-Key", ""}})), "400 IDEMPOTENCY_KEY_REQUIRED");
    EXPECT_EQ(error_of(post("{")), "400 BAD_JSON");
    EXPECT_EQ(error_of(post(kBody, {{"idempotency-key", "order-0002"}})), "422 IDEMPOTENCY_MISMATCH");
    const auto wrong = post(R"({"idempotency_key":"order-0001","symbol":"a","intent":"BUY","amount":1})");
    EXPECT_EQ(error_of(wrong), "422 VALIDATION_ERROR");
    const auto details = boost::json::parse(wrong.body).at("error").at("details").as_array();
    ASSERT_EQ(details.size(), 3U);
    EXPECT_EQ(std::string(details[0].at("field").as_string()), "symbol");
    EXPECT_EQ(std::string(details[1].at("field").as_string()), "qty");
    EXPECT_EQ(std::string(details[2].at("field").as_string()), "amount");
    EXPECT_EQ(orders_.calls(), 0U);
}

TEST_F(OrdersRoutesTest, TwoHeadersMustAgree) {
    EXPECT_EQ(error_of(post(kBody, {{"Idempotency-Key", "order-0001"}, {"idempotency-key", "order-0002"}})),
              "422 IDEMPOTENCY_MISMATCH");
    EXPECT_EQ(orders_.calls(), 0U);
    EXPECT_EQ(post(kBody, {{"Idempotency-Key", "order-0001"}, {"idempotency-key", "order-0001"}}).status, 201);
}

TEST_F(OrdersRoutesTest, TellsApartWhatMayHaveBeenStored) {
    orders_.fail_with(Error{ErrorClass::retryable, "db_away", "host 10.1.2.3 is away"});
    const auto away = post(kBody);
    EXPECT_EQ(error_of(away), "503 DATABASE_UNAVAILABLE");
    EXPECT_THAT(message_of(away), HasSubstr("nothing was stored"));
    EXPECT_EQ(away.body.find("10.1.2.3"), std::string::npos);
    EXPECT_EQ(header(away, "Retry-After"), "1");
    EXPECT_EQ(error_of(get("order-0001")), "503 DATABASE_UNAVAILABLE");

    orders_.fail_with(Error{ErrorClass::ambiguous, "db_lost", "gone in the commit"});
    const auto unknown = post(kBody);
    EXPECT_EQ(error_of(unknown), "503 OUTCOME_UNKNOWN");
    EXPECT_THAT(message_of(unknown), HasSubstr("same key"));
    EXPECT_EQ(header(unknown, "Retry-After"), "1");

    orders_.fail_with(Error{ErrorClass::permanent, "db_denied", "no such table"});
    const auto refused = post(kBody, {{"Idempotency-Key", "order-0001"}, {"X-Request-Id", "req-77"}});
    EXPECT_EQ(error_of(refused), "500 INTERNAL_ERROR");
    EXPECT_EQ(refused.body.find("no such table"), std::string::npos);
    EXPECT_THAT(log_.text(), HasSubstr("req-77 db_denied no such table"));
    EXPECT_EQ(error_of(get("order-0001")), "500 INTERNAL_ERROR");

    intake_.stop();
    const auto stopping = post(kBody);
    EXPECT_EQ(error_of(stopping), "503 OVERLOADED");
    EXPECT_EQ(header(stopping, "Retry-After"), "1");
}

TEST_F(OrdersRoutesTest, ShowsAnOrderByItsKey) {
    EXPECT_EQ(error_of(get("order-0001")), "404 ORDER_NOT_FOUND");
    post(kBody);
    const auto found = get("order-0001");
    EXPECT_EQ(found.status, 200);
    EXPECT_THAT(found.body, HasSubstr(R"("request":{"idempotency_key":"order-0001","symbol":"AAPL")"));

    const std::string key = "a/b c?%\xC3\xA9#";
    const auto posted = post(R"({"idempotency_key":")" + key + R"(","symbol":"AAPL","intent":"BUY","qty":1})",
                             {{"Idempotency-Key", key}});
    EXPECT_EQ(header(posted, "Location"), "/api/v1/orders/a%2Fb%20c%3F%25%C3%A9%23");
    EXPECT_EQ(get("a%2Fb%20c%3F%25%C3%A9%23").status, 200);
}

TEST_F(OrdersRoutesTest, PostingNeedsOperatorLookingViewer) {
    AuthOptions auth;
    auth.enabled = true;
    auth.tokens = {{"vera", Role::viewer, sha256_hex("v")}, {"otto", Role::operator_, sha256_hex("o")}};
    handle_ = make_handler(orders_routes(intake_, orders_, log_), auth, log_);
    const auto as = [](const std::string& token) {
        return http::Headers{{"Idempotency-Key", "order-0001"}, {"Authorization", "Bearer " + token}};
    };
    EXPECT_EQ(error_of(post(kBody)), "401 UNAUTHORIZED");
    EXPECT_EQ(error_of(post(kBody, as("v"))), "403 FORBIDDEN");
    EXPECT_EQ(orders_.calls(), 0U);
    EXPECT_EQ(post(kBody, as("o")).status, 201);
    EXPECT_EQ(orders_.accepted()[0].actor, "otto");
    EXPECT_EQ(error_of(get("order-0001")), "401 UNAUTHORIZED");
    EXPECT_EQ(get("order-0001", as("v")).status, 200);
}

TEST_F(OrdersRoutesTest, FiftyAtOnceAreOneOrder) {
    std::vector<std::thread> people;
    std::atomic<int> created = 0;
    std::atomic<int> known = 0;
    for (int i = 0; i < 50; ++i) {
        people.emplace_back([&] {
            const int status = post(kBody).status;
            if (status == 201) ++created;
            if (status == 200) ++known;
        });
    }
    for (auto& person : people) person.join();
    EXPECT_EQ(created, 1);
    EXPECT_EQ(known, 49);
    EXPECT_EQ(orders_.accepted().size(), 1U);
}

}  // namespace
}  // namespace deliverd::api
