#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/api.h"
#include "api/auth.h"
#include "base/sha256.h"
#include "base/testing/recording_log.h"
#include "store/dead_letters.h"

namespace deliverd::api {
namespace {

using testing::HasSubstr;
using Topics = std::vector<std::string>;

store::Letter letter_of(std::optional<std::string> topic, std::string original) {
    store::Letter letter;
    letter.topic = std::move(topic);
    letter.provenance.original_topic = std::move(original);
    return letter;
}

TEST(Scope, WithoutTopicsEverythingIsAllowed) {
    const Scope scope;
    EXPECT_FALSE(scope.is_limited());
    EXPECT_TRUE(scope.allows("anything"));
    EXPECT_TRUE(scope.allows(letter_of(std::nullopt, "")));
}

TEST(Scope, AnEmptyListAllowsNothing) {
    const Scope scope{Topics{}};
    EXPECT_TRUE(scope.is_limited());
    EXPECT_FALSE(scope.allows(""));
    EXPECT_FALSE(scope.allows(letter_of("orders.dlq.v1", "orders")));
}

TEST(Scope, ATopicMatchesAsAWhole) {
    const Scope scope{Topics{"orders", "mail.*", "pay-?"}};
    for (const auto* topic : {"orders", "mail.", "mail.v1.dlq.v1", "pay-1"}) EXPECT_TRUE(scope.allows(topic)) << topic;
    for (const auto* topic :
         {"", "Orders", "orders2", "my-orders", "orders.dlq.v1", "mail", "xmail.v1", "pay-", "pay-12"}) {
        EXPECT_FALSE(scope.allows(topic)) << topic;
    }
}

TEST(Scope, ALetterIsAllowedByEitherOfItsTopics) {
    const Scope scope{Topics{"orders", "orders.dlq.v1"}};
    EXPECT_TRUE(scope.allows(letter_of("orders.dlq.v1", "orders")));
    EXPECT_TRUE(scope.allows(letter_of("orders.dlq.v1", "payments")));
    EXPECT_TRUE(scope.allows(letter_of("payments.dlq.v1", "orders")));
    EXPECT_TRUE(scope.allows(letter_of(std::nullopt, "orders"))) << "a lane or a spool of that name";
    EXPECT_FALSE(scope.allows(letter_of("payments.dlq.v1", "payments")));
    EXPECT_FALSE(scope.allows(letter_of(std::nullopt, "payments")));
}

/// Answers 200, at once.
Route answering_route(std::string method, std::string path, Role needs = Role::viewer,
                      Limited limited = Limited::refused) {
    return {std::move(method), std::move(path), needs, [](const Call&) { return http::Response{}; }, {}, limited};
}

/// What a caller with the token `t` is answered; none yet: 0.
int status_of(const Handler& api, const std::string& method, const std::string& path) {
    int status = 0;
    const http::Request request{
        method, path, "text=a+secret", {{"Authorization", "Bearer t"}, {"X-Request-Id", "req-9"}}, "", "10.0.0.7"};
    api(request, http::Reply([&status](const http::Response& response) { status = response.status; }));
    return status;
}

TEST(LimitedTokens, ARouteThatSaysNothingOfTopicsIsRefused) {
    RecordingLog log;
    metrics::Metrics metrics;
    AuthOptions auth;
    auth.enabled = true;
    auth.tokens = {{"olga", Role::admin, sha256_hex("t"), {}, Scope{Topics{"orders*"}}}};
    const auto api = make_handler({answering_route("GET", "/silent/{x}"), answering_route("GET", "/free", Role::none),
                                   answering_route("GET", "/open", Role::viewer, Limited::open),
                                   answering_route("GET", "/of/{x}/{y}", Role::viewer, Limited::by_topic),
                                   answering_route("GET", "/of-none", Role::viewer, Limited::by_topic),
                                   answering_route("GET", "/own", Role::viewer, Limited::by_handler)},
                                  auth, log, &metrics);
    for (const auto* path : {"/free", "/open", "/own", "/of/orders.v1/z", "/of/%6frders/z"}) {
        EXPECT_EQ(status_of(api, "GET", path), 200) << path;
    }
    for (const auto* path : {"/silent/orders", "/of/z/orders", "/of/%2Forders/z", "/of-none"}) {
        EXPECT_EQ(status_of(api, "GET", path), 403) << path;
    }
    EXPECT_THAT(metrics.text(), HasSubstr("api_refused_total{reason=\"scope\"} 4"));
    EXPECT_THAT(log.text(), HasSubstr("/silent/orders scope"));
}

TEST(ReadAudit, HasALineForEachSuccessfulReadWhereThatIsAskedFor) {
    RecordingLog log;
    AuthOptions auth;
    auth.enabled = true;
    auth.tokens = {{"vera", Role::operator_, sha256_hex("t")}};
    const auto fails = [](const Call& call) { return error_response(404, "NOT_FOUND", "none", call.request_id); };
    const std::vector<Route> routes = {answering_route("GET", "/api/a/{x}"),
                                       answering_route("POST", "/api/a/{x}"),
                                       answering_route("GET", "/metrics"),
                                       {"GET", "/api/none", Role::viewer, fails}};
    EXPECT_EQ(status_of(make_handler(routes, auth, log), "GET", "/api/a/1"), 200);
    EXPECT_EQ(log.text(), "") << "nobody asked for it";
    auth.audit_reads = true;
    const auto api = make_handler(routes, auth, log);
    EXPECT_EQ(status_of(api, "GET", "/metrics"), 200);
    EXPECT_EQ(status_of(api, "POST", "/api/a/1"), 200);
    EXPECT_EQ(status_of(api, "GET", "/api/none"), 404);
    EXPECT_EQ(status_of(api, "GET", "/api/unknown"), 404);
    EXPECT_EQ(log.text(), "");
    EXPECT_EQ(status_of(api, "GET", "/api/a/%C3%A9"), 200);
    EXPECT_EQ(status_of(api, "HEAD", "/api/a/1"), 200);
    EXPECT_EQ(log.text(),
              "audit read vera GET /api/a/%C3%A9 10.0.0.7 req-9\n"
              "audit read vera HEAD /api/a/1 10.0.0.7 req-9\n");
}

TEST(ReadAudit, ASuccessIsAStatusBelow300) {
    for (const auto& [status, lines] :
         {std::pair(200, 1U), std::pair(299, 1U), std::pair(300, 0U), std::pair(503, 0U)}) {
        RecordingLog log;
        AuthOptions auth;
        auth.audit_reads = true;
        const auto answers = [status](const Call&) { return http::Response{status, {}, "", ""}; };
        const auto api = make_handler({{"GET", "/api/a", Role::viewer, answers}}, auth, log);
        EXPECT_EQ(status_of(api, "GET", "/api/a"), status);
        EXPECT_EQ(log.events().size(), lines) << status;
    }
}

TEST(ReadAudit, WaitsForALateAnswer) {
    RecordingLog log;
    AuthOptions auth;
    auth.audit_reads = true;
    std::optional<http::Reply> waiting;
    const auto api = make_handler(
        {{"GET", "/api/later", Role::viewer, {}, [&](const Call&, http::Reply reply) { waiting = std::move(reply); }}},
        auth, log);
    http::Response answer;
    api({"GET", "/api/later", "", {}, "", ""}, http::Reply([&](http::Response it) { answer = std::move(it); }));
    EXPECT_TRUE(log.events().empty());
    (*waiting)(http::Response{200, {}, "application/json", "late"});
    EXPECT_EQ(answer.body, "late");
    EXPECT_EQ(log.events(), std::vector<std::string>{"audit"});
}

}  // namespace
}  // namespace deliverd::api
