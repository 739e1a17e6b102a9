// Dead letters for callers who are limited to topics.
#include <gmock/gmock.h>

#include "api/dlq_routes.h"
#include "api/testing/dlq_routes_fixture.h"
#include "base/sha256.h"

namespace deliverd::api {
namespace {

using testing::ElementsAre;
using testing::StartsWith;
using Topics = std::vector<std::string>;

constexpr const char* kForeignId = "11111111-1111-4111-8111-111111111111";

store::LetterDetail letter_in(const std::string& id, std::optional<std::string> topic, const std::string& original) {
    store::LetterDetail detail = a_letter(id);
    detail.letter.topic = std::move(topic);
    detail.letter.provenance.original_topic = original;
    return detail;
}

/// olga may do everything to orders, ada to all.
class DlqScopesTest : public DlqRoutesFixture {
protected:
    void SetUp() override {
        letters_.add(letter_in(kLetterId, "orders.dlq.v1", "orders"));
        letters_.add(letter_in(kForeignId, "payments.dlq.v1", "payments"));
        AuthOptions auth;
        auth.enabled = true;
        auth.tokens = {{"olga", Role::admin, sha256_hex("olga"), {}, Scope{Topics{"orders*"}}},
                       {"ada", Role::admin, sha256_hex("ada")}};
        handle_ = make_handler(dlq_routes(retries_, manager_, letters_, log_), auth, log_);
        retry_report_.answer = deadletter::RetryAnswer::resolved;
    }
    http::Response as(const std::string& who, const std::string& method, const std::string& target) {
        return call(method, target, {{"Authorization", "Bearer " + who}, {"X-Request-Id", "req-1"}});
    }
    static std::vector<std::string> topics_of(const http::Response& response) {
        std::vector<std::string> names;
        const auto listed = body(response);
        for (const auto& topic : listed.at("topics").as_array()) names.emplace_back(topic.at("topic").as_string());
        return names;
    }
};

TEST_F(DlqScopesTest, AForeignLetterIsAnsweredAsOneThatDoesNotExist) {
    const std::vector<std::pair<std::string, std::string>> routes = {
        {"GET", ""},       {"GET", "/raw"},     {"GET", "/audit"},  {"HEAD", ""},
        {"POST", "/dead"}, {"POST", "/revive"}, {"POST", "/retry"}, {"DELETE", ""}};
    for (const auto& [method, rest] : routes) {
        auto foreign = as("olga", method, std::string("/messages/") + kForeignId + rest);
        const auto unknown = as("olga", method, std::string("/messages/") + kUnknownId + rest);
        EXPECT_EQ(foreign.status, 404) << method << rest;
        foreign.body.replace(foreign.body.find(kForeignId), std::string_view(kForeignId).size(), kUnknownId);
        EXPECT_EQ(foreign.body, unknown.body) << method << rest;
        EXPECT_EQ(foreign.headers, unknown.headers) << method << rest;
        EXPECT_EQ(foreign.delay, unknown.delay) << method << rest;
    }
    EXPECT_EQ(retried_, "");
    EXPECT_EQ(body(as("ada", "GET", std::string("/messages/") + kForeignId)).at("status").as_string(), "PENDING");
    EXPECT_EQ(body(as("ada", "GET", std::string("/messages/") + kForeignId + "/audit")).at("audit").as_array().size(),
              0U);
}

TEST_F(DlqScopesTest, ALetterInScopeIsAnsweredAsToEveryone) {
    const std::string path = std::string("/messages/") + kLetterId;
    for (const char* rest : {"", "/raw", "/audit"}) {
        EXPECT_EQ(as("olga", "GET", path + rest).body, as("ada", "GET", path + rest).body) << rest;
    }
    EXPECT_EQ(as("olga", "POST", path + "/retry").status, 200);
    EXPECT_EQ(retried_, std::string(kLetterId) + " by olga");
    EXPECT_EQ(as("olga", "POST", path + "/dead").status, 200);
    EXPECT_EQ(as("olga", "POST", path + "/revive").status, 200);
    EXPECT_EQ(as("olga", "DELETE", path).status, 200);
    EXPECT_EQ(as("olga", "GET", path + "/audit").status, 404) << "nothing says any more whose it was";
    EXPECT_EQ(as("ada", "GET", path + "/audit").status, 200);
}

TEST_F(DlqScopesTest, EitherTopicLetsALetterBeSeen) {
    letters_.add(letter_in("22222222-2222-4222-8222-222222222222", "payments.dlq.v1", "orders"));
    letters_.add(letter_in("33333333-3333-4333-8333-333333333333", "orders.dlq.v1", "payments"));
    letters_.add(letter_in("44444444-4444-4444-8444-444444444444", std::nullopt, "orders-lane"));
    for (const char* id : {"22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333",
                           "44444444-4444-4444-8444-444444444444"}) {
        EXPECT_EQ(as("olga", "GET", std::string("/messages/") + id).status, 200) << id;
    }
}

TEST_F(DlqScopesTest, NothingIsSentToAnotherTopic) {
    const store::Letter in_scope = letter_in(kLetterId, "orders.dlq.v1", "orders").letter;
    const store::Letter elsewhere = letter_in(kLetterId, "orders.dlq.v1", "payments").letter;
    for (const std::string& path :
         {"/messages/" + std::string(kLetterId) + "/retry", std::string("/orders/retry-all")}) {
        as("olga", "POST", path);
        ASSERT_TRUE(rule_) << path;
        EXPECT_EQ(rule_(in_scope), "");
        EXPECT_EQ(rule_(elsewhere), "the token may not use its original topic");
        as("ada", "POST", path);
        EXPECT_FALSE(rule_) << path;
    }
}

TEST_F(DlqScopesTest, ADryRunSaysWhatTheCallerMayNotSend) {
    letters_.add(letter_in("22222222-2222-4222-8222-222222222222", "orders.dlq.v1", "payments"));
    const auto refused = [&](const std::string& who) {
        return body(as(who, "POST", "/orders.dlq.v1/retry-all?dry_run=true"))
            .at("by_destination")
            .as_array()
            .at(1)
            .at("refused");
    };
    EXPECT_EQ(refused("olga").as_string(), "the token may not use its original topic");
    EXPECT_TRUE(refused("ada").is_null());
}

TEST_F(DlqScopesTest, ATopicOutOfScopeIs403WhetherItExistsOrNot) {
    const std::size_t calls = letters_.calls();
    for (const auto& [method, rest] : std::vector<std::pair<std::string, std::string>>{
             {"GET", ""}, {"GET", "?status=nonsense"}, {"POST", "/retry-all"}, {"POST", "/retry-all?x=y"}}) {
        const auto error = [&, m = method, r = rest](const std::string& topic) {
            return error_of(as("olga", m, "/" + topic + r));
        };
        EXPECT_EQ(error("payments"), "403 FORBIDDEN: token 'olga' may not use topic 'payments'");
        EXPECT_EQ(error("nothing"), "403 FORBIDDEN: token 'olga' may not use topic 'nothing'");
        EXPECT_EQ(error("%6fther"), "403 FORBIDDEN: token 'olga' may not use topic 'other'");
    }
    EXPECT_EQ(letters_.calls(), calls);
    EXPECT_EQ(retried_, "");
    EXPECT_EQ(as("olga", "POST", "/%6frders/retry-all").status, 200);
    EXPECT_EQ(retried_, "orders by olga");
    EXPECT_EQ(body(as("olga", "GET", "/orders.dlq.v1")).at("messages").as_array().size(), 1U);
}

TEST_F(DlqScopesTest, TheOverviewHasOnlyTopicsInScope) {
    EXPECT_THAT(topics_of(as("olga", "GET", "")), ElementsAre("orders.dlq.v1"));
    EXPECT_THAT(topics_of(as("ada", "GET", "")), ElementsAre("orders.dlq.v1", "payments.dlq.v1"));
}

TEST_F(DlqScopesTest, APurgeIsOfAllTopicsAndRefused) {
    const std::string purge = "?status=PENDING&older_than_seconds=0";
    EXPECT_THAT(error_of(as("olga", "DELETE", purge)), StartsWith("403 FORBIDDEN: token 'olga' is limited to topics"));
    EXPECT_TRUE(letters_.purges.empty());
    EXPECT_EQ(as("ada", "DELETE", purge).status, 200);
}

TEST_F(DlqScopesTest, AStoreThatIsAwayIsToldAsToEveryone) {
    letters_.fail_with(Error{ErrorClass::retryable, "db_unreachable", "host 10.1.2.3 is away"});
    EXPECT_THAT(error_of(as("olga", "GET", std::string("/messages/") + kForeignId)), StartsWith("503 "));
}

}  // namespace
}  // namespace deliverd::api
