#include "api/openapi.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <map>
#include <set>
#include <string>

#include "api/dlq_routes.h"
#include "api/orders_routes.h"
#include "api/testing/fake_dead_letters.h"
#include "api/testing/fake_orders.h"
#include "base/sha256.h"

namespace deliverd::api {
namespace {

using Topics = std::vector<std::string>;

/// Everything the service serves.
std::vector<Route> all_routes(orders::Intake& intake, store::Orders& orders, DlqRetries& retries,
                              deadletter::Manager& manager, store::DeadLetters& letters, metrics::Metrics& metrics,
                              Log& log) {
    std::vector<Route> all = service_routes({}, metrics, {});
    for (auto& more :
         {orders_routes(intake, orders, log), dlq_routes(retries, manager, letters, log), openapi_routes()}) {
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

class OpenApiTest : public testing::Test {
protected:
    /// The operation of a route, null when there is none.
    [[nodiscard]] const boost::json::value* operation(const Route& route) const {
        const auto* path = document_.at("paths").as_object().if_contains(route.path);
        if (path == nullptr) return nullptr;
        std::string method = route.method;
        std::transform(method.begin(), method.end(), method.begin(),
                       [](char c) { return static_cast<char>(c | 0x20); });
        return path->as_object().if_contains(method);
    }

    NullLog log_;
    FakeOrders orders_;
    orders::Intake intake_{{}, orders_, log_};
    FakeDeadLetters letters_;
    DlqRetries retries_{{}, {}, log_};
    deadletter::Manager manager_{{}, letters_, nullptr, log_};
    metrics::Metrics metrics_;
    const std::vector<Route> routes_ = all_routes(intake_, orders_, retries_, manager_, letters_, metrics_, log_);
    const boost::json::value document_ = boost::json::parse(openapi_document());
};

TEST_F(OpenApiTest, EveryRouteIsDescribedAndNothingElse) {
    for (const Route& route : routes_) EXPECT_NE(operation(route), nullptr) << route.method << " " << route.path;
    std::size_t described = 0;
    for (const auto& path : document_.at("paths").as_object()) described += path.value().as_object().size();
    EXPECT_EQ(described, routes_.size());
}

TEST_F(OpenApiTest, OpenRoutesAreDescribedAsOpenAndTheOthersNameTheirRole) {
    for (const Route& route : routes_) {
        const auto* described = operation(route);
        ASSERT_NE(described, nullptr);
        const auto* security = described->as_object().if_contains("security");
        EXPECT_EQ(security != nullptr && security->as_array().empty(), route.needs == Role::none) << route.path;
        const auto& responses = described->at("responses").as_object();
        EXPECT_EQ(responses.contains("401"), route.needs != Role::none) << route.path;
        const std::string text(described->at("description").as_string());
        if (route.needs != Role::none) {
            const std::string role = route.needs == Role::admin       ? "admin"
                                     : route.needs == Role::operator_ ? "operator"
                                                                      : "viewer";
            EXPECT_NE(text.find("Needs the role " + role), std::string::npos) << route.path;
        }
    }
}

struct Access {
    Role needs;
    Limited limited = Limited::refused;
};

/// Who may use which route, and what it is for tokens limited to topics. A route that is added needs a line here.
const std::map<std::string, Access>& access_table() {
    static const std::map<std::string, Access> table{
        {"GET /healthz", {Role::none}},
        {"GET /readyz", {Role::none}},
        {"GET /metrics", {Role::viewer, Limited::refused}},
        {"GET /openapi.json", {Role::viewer, Limited::open}},
        {"POST /api/v1/orders", {Role::operator_, Limited::refused}},
        {"GET /api/v1/orders/{key}", {Role::viewer, Limited::refused}},
        {"GET /api/v1/dlq", {Role::viewer, Limited::by_handler}},
        {"DELETE /api/v1/dlq", {Role::admin, Limited::refused}},
        {"GET /api/v1/dlq/{topic}", {Role::viewer, Limited::by_topic}},
        {"POST /api/v1/dlq/{topic}/retry-all", {Role::operator_, Limited::by_topic}},
        {"GET /api/v1/dlq/messages/{id}", {Role::viewer, Limited::by_handler}},
        {"DELETE /api/v1/dlq/messages/{id}", {Role::admin, Limited::by_handler}},
        {"GET /api/v1/dlq/messages/{id}/raw", {Role::viewer, Limited::by_handler}},
        {"GET /api/v1/dlq/messages/{id}/audit", {Role::viewer, Limited::by_handler}},
        {"POST /api/v1/dlq/messages/{id}/retry", {Role::operator_, Limited::by_handler}},
        {"POST /api/v1/dlq/messages/{id}/dead", {Role::operator_, Limited::by_handler}},
        {"POST /api/v1/dlq/messages/{id}/revive", {Role::operator_, Limited::by_handler}},
    };
    return table;
}

/// The status with which a request of `name` is turned away by its header; 0: it is let in.
int refusal(const Handler& api, const Route& route, const std::string& path, const std::string& name) {
    const auto refused = api.refuse({route.method, path, "", {{"Authorization", "Bearer " + name}}, "", ""});
    return refused ? refused->status : 0;
}

TEST_F(OpenApiTest, EachRoleMayUseTheseRoutesAndNoOthers) {
    EXPECT_EQ(access_table().size(), routes_.size()) << "a line for each route, and none without";
    AuthOptions auth;
    auth.enabled = true;
    const std::vector<std::pair<std::string, Role>> callers{
        {"nobody", Role::none}, {"vera", Role::viewer}, {"otto", Role::operator_}, {"ada", Role::admin}};
    for (const auto& [name, role] : callers) {
        if (role != Role::none) auth.tokens.push_back({name, role, sha256_hex(name)});
    }
    const auto api = make_handler(routes_, auth, log_);
    for (const Route& route : routes_) {
        const auto line = access_table().find(route.method + " " + route.path);
        ASSERT_NE(line, access_table().end()) << route.method << " " << route.path << " has no line in this table";
        for (const auto& [name, role] : callers) {
            const int expected = role >= line->second.needs ? 0 : role == Role::none ? 401 : 403;
            EXPECT_EQ(refusal(api, route, route.path, name), expected) << name << ": " << line->first;
        }
    }
}

TEST_F(OpenApiTest, ATokenLimitedToTopicsMayUseTheseRoutesAndNoOthers) {
    AuthOptions auth;
    auth.enabled = true;
    auth.tokens = {{"olga", Role::admin, sha256_hex("olga"), {}, Scope{Topics{"orders"}}},
                   {"vera", Role::viewer, sha256_hex("vera"), {}, Scope{Topics{"*"}}}};
    const auto api = make_handler(routes_, auth, log_);
    for (const Route& route : routes_) {
        const auto line = access_table().find(route.method + " " + route.path);
        ASSERT_NE(line, access_table().end()) << route.method << " " << route.path << " has no line in this table";
        const Access& access = line->second;
        std::string in_scope = route.path;
        if (const auto at = in_scope.find("{topic}"); at != std::string::npos) in_scope.replace(at, 7, "orders");
        const bool refused = access.needs != Role::none && access.limited == Limited::refused;
        EXPECT_EQ(refusal(api, route, in_scope, "olga"), refused ? 403 : 0) << line->first;
        const bool by_topic = access.limited == Limited::by_topic;
        EXPECT_EQ(by_topic, in_scope != route.path) << line->first;
        if (by_topic) {
            EXPECT_EQ(refusal(api, route, route.path, "olga"), 403) << line->first;
        }
        const bool too_small = Role::viewer < access.needs;
        EXPECT_EQ(refusal(api, route, in_scope, "vera"), refused || too_small ? 403 : 0) << line->first;
    }
}

TEST_F(OpenApiTest, OperationIdsDiffer) {
    std::set<std::string> ids;
    for (const Route& route : routes_) ids.emplace(operation(route)->at("operationId").as_string());
    EXPECT_EQ(ids.size(), routes_.size());
}

/// Every "$ref" in `value` must name something in `document`. Answers how many there were.
int check_references(const boost::json::value& value, const boost::json::value& document) {
    int count = 0;
    if (const auto* array = value.if_array()) {
        for (const auto& item : *array) count += check_references(item, document);
    } else if (const auto* object = value.if_object()) {
        for (const auto& member : *object) {
            if (member.key() == "$ref") {
                const std::string target(member.value().as_string());
                EXPECT_EQ(target.front(), '#') << target;
                boost::system::error_code error;
                EXPECT_NE(document.find_pointer(target.substr(1), error), nullptr) << target;
                ++count;
            }
            count += check_references(member.value(), document);
        }
    }
    return count;
}

TEST_F(OpenApiTest, EveryReferenceResolves) {
    EXPECT_GT(check_references(document_, document_), 50);
}

TEST_F(OpenApiTest, IsServedAsItIs) {
    const auto handle = make_handler(openapi_routes(), {}, log_);
    http::Response answer;
    handle({"GET", "/openapi.json", "", {}, "", "127.0.0.1"},
           http::Reply([&answer](http::Response response) { answer = std::move(response); }));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.content_type, "application/json");
    EXPECT_EQ(boost::json::parse(answer.body), document_);
}

}  // namespace
}  // namespace deliverd::api
