#include "api/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <optional>
#include <stdexcept>

#include "api/testing/hand_clock.h"
#include "base/sha256.h"
#include "base/testing/recording_log.h"

namespace deliverd::api {
namespace {

using testing::HasSubstr;

http::Request request(std::string method, std::string path, http::Headers headers = {}) {
    return {std::move(method), std::move(path), "", std::move(headers), "", "127.0.0.1"};
}

std::string header(const http::Response& response, std::string_view name) {
    std::string found;
    int count = 0;
    for (const auto& [key, value] : response.headers) {
        if (key == name) found = value, ++count;
    }
    EXPECT_LE(count, 1) << name;
    return found;
}

std::string text(const boost::json::value& value) {
    return std::string(value.as_string());
}

boost::json::object error_of(const http::Response& response) {
    return boost::json::parse(response.body).at("error").as_object();
}

/// The shape every error has, and that its request id is the header's.
void expect_error(const http::Response& response, int status, std::string_view code) {
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(response.content_type, "application/json");
    const auto error = error_of(response);
    EXPECT_EQ(text(error.at("code")), code);
    EXPECT_FALSE(error.at("message").as_string().empty());
    EXPECT_EQ(text(error.at("request_id")), header(response, "X-Request-Id"));
    EXPECT_TRUE(error.at("details").is_array());
}

Route answering(std::string method, std::string path, Role needs = Role::viewer, const std::string& mark = "") {
    return {std::move(method), std::move(path), needs, [mark](const Call& call) {
                http::Response response;
                response.body = mark + "[" + call.caller.name + "]";
                for (const auto& value : call.path_values) response.body += value + "|";
                return response;
            }};
}

/// For routes that answer before their handler returns.
http::Handler answered_now(http::DeferredHandler handler) {
    return [handler = std::move(handler)](const http::Request& request) {
        std::optional<http::Response> answer;
        handler(request, http::Reply([&answer](http::Response response) { answer = std::move(response); }));
        EXPECT_TRUE(answer.has_value());
        return answer.value_or(http::Response{});
    };
}

class ApiTest : public testing::Test {
protected:
    http::Handler handler(std::vector<Route> routes, AuthOptions auth = {}) {
        return answered_now(make_handler(std::move(routes), std::move(auth), log_));
    }
    RecordingLog log_;
};

TEST_F(ApiTest, FindsRoutesAndTheirParameters) {
    const auto handle = handler({answering("GET", "/a/{x}/b/{y}", Role::viewer, "params"),
                                 answering("GET", "/a/fixed/b/{y}", Role::viewer, "literal"),
                                 answering("GET", "/", Role::viewer, "root")});
    EXPECT_EQ(handle(request("GET", "/a/1/b/two")).body, "params[anonymous]1|two|");
    EXPECT_EQ(handle(request("GET", "/a/fixed/b/3")).body, "literal[anonymous]3|");
    EXPECT_EQ(handle(request("GET", "/")).body, "root[anonymous]");
    EXPECT_EQ(handle(request("GET", "/a/x%2Fy%20z/b/%C3%A9")).body, "params[anonymous]x/y z|\xC3\xA9|");
    for (const auto* path : {"/a", "/a/1/b", "/a/1/b/", "/a//b/2", "/a/1/b/2/", "/A/1/b/2", "*", "//", "/%61/1/b/2",
                             "/a%2F1/b/2", "/%zz"}) {
        expect_error(handle(request("GET", path)), 404, "NOT_FOUND");
    }
    EXPECT_EQ(handle(request("GET", "/a/%66ixed/b/3")).body, "params[anonymous]fixed|3|") << "not the literal";
    for (const auto* path : {"/a/%/b/2", "/a/%4/b/2", "/a/%zz/b/2", "/a/%00/b/2", "/a/%ff/b/2"}) {
        expect_error(handle(request("GET", path)), 400, "BAD_REQUEST");
    }
}

TEST_F(ApiTest, NamesTheMethodsAPathTakes) {
    const auto handle = handler({answering("GET", "/a"), answering("POST", "/a"), answering("DELETE", "/b")});
    const auto response = handle(request("PUT", "/a"));
    expect_error(response, 405, "METHOD_NOT_ALLOWED");
    EXPECT_EQ(header(response, "Allow"), "GET, HEAD, POST");
    const auto head = handle(request("HEAD", "/b"));
    expect_error(head, 405, "METHOD_NOT_ALLOWED");
    EXPECT_EQ(header(head, "Allow"), "DELETE");
    EXPECT_EQ(handle(request("HEAD", "/a")).status, 200);
}

TEST_F(ApiTest, TakesOverAUsableRequestIdAndMakesOneOtherwise) {
    const auto handle = handler({answering("GET", "/a")});
    const std::string longest(128, 'x');
    for (const auto& id : {std::string("req-1"), longest, std::string("!~")}) {
        EXPECT_EQ(header(handle(request("GET", "/a", {{"x-request-id", id}})), "X-Request-Id"), id);
        EXPECT_EQ(text(error_of(handle(request("GET", "/none", {{"x-request-id", id}}))).at("request_id")), id);
    }
    for (const auto& id :
         {std::string(""), longest + "x", std::string("two words"), std::string("\xC3\xA9"), std::string("x\x7f")}) {
        const auto made = header(handle(request("GET", "/a", {{"X-Request-Id", id}})), "X-Request-Id");
        EXPECT_NE(made, id);
        EXPECT_EQ(made.size(), 36U);
    }
    EXPECT_NE(header(handle(request("GET", "/a")), "X-Request-Id"),
              header(handle(request("GET", "/a")), "X-Request-Id"));
}

TEST_F(ApiTest, LetsEachRoleDoWhatTheOnesBeforeItMay) {
    AuthOptions auth;
    auth.enabled = true;
    const std::vector<std::pair<std::string, Role>> people = {
        {"vera", Role::viewer}, {"otto", Role::operator_}, {"ada", Role::admin}};
    for (const auto& [name, role] : people) auth.tokens.push_back({name, role, sha256_hex("token-of-" + name)});
    const auto handle = handler({answering("GET", "/open", Role::none), answering("GET", "/view", Role::viewer),
                                 answering("POST", "/do", Role::operator_), answering("DELETE", "/purge", Role::admin)},
                                auth);
    const auto as = [&](const std::string& token, const std::string& method, const std::string& path) {
        return handle(request(method, path, {{"Authorization", token}}));
    };
    const std::vector<std::pair<std::string, std::string>> calls = {
        {"GET", "/view"}, {"POST", "/do"}, {"DELETE", "/purge"}};
    const std::vector<std::string> roles = {"viewer", "operator", "admin"};
    for (std::size_t person = 0; person < people.size(); ++person) {
        const auto& name = people[person].first;
        for (std::size_t call = 0; call < calls.size(); ++call) {
            const auto response = as("Bearer token-of-" + name, calls[call].first, calls[call].second);
            if (call <= person) {
                EXPECT_EQ(response.body, "[" + name + "]");
            } else {
                expect_error(response, 403, "FORBIDDEN");
                EXPECT_EQ(text(error_of(response).at("message")),
                          "token '" + name + "' has role " + roles[person] + "; this needs " + roles[call]);
            }
        }
        EXPECT_EQ(as("bearer   token-of-" + name, "GET", "/open").body, "[" + name + "]");
        EXPECT_EQ(as("BEARER  token-of-" + name, "GET", "/open").body, "[" + name + "]");
    }
    for (const auto* wrong : {"", "Bearer", "Bearer ", "Bearer wrong", "Basic token-of-ada", "Digest token-of-ada",
                              "token-of-ada", "Bearer token-of-ada "}) {
        const auto response = as(wrong, "GET", "/view");
        expect_error(response, 401, "UNAUTHORIZED");
        EXPECT_EQ(header(response, "WWW-Authenticate"), "Bearer");
        EXPECT_EQ(as(wrong, "GET", "/open").body, "[anonymous]");
    }
    // The stored digest is not itself a password.
    expect_error(as("Bearer " + sha256_hex("token-of-ada"), "GET", "/view"), 401, "UNAUTHORIZED");
}

TEST_F(ApiTest, DoorsComeBeforeEverything) {
    AuthOptions auth;
    auth.doors = {true, true, {}};
    const auto handle = handler({answering("GET", "/a", Role::none), answering("POST", "/a")}, auth);
    for (const auto* path : {"/a", "/nowhere", "/%ff"}) {
        expect_error(handle(request("GET", path, {{"Host", "evil.example"}})), 421, "MISDIRECTED_REQUEST");
        expect_error(handle(request("GET", path)), 421, "MISDIRECTED_REQUEST");
        expect_error(handle(request("GET", path, {{"Host", "localhost"}, {"Origin", "http://evil.example"}})), 403,
                     "FORBIDDEN_ORIGIN");
    }
    EXPECT_EQ(handle(request("GET", "/a", {{"Host", "localhost"}})).status, 200);
    EXPECT_EQ(handle(request("POST", "/a", {{"Host", "localhost"}, {"Content-Length", "0"}})).status, 200);
    const http::Headers form{{"Host", "localhost"}, {"Content-Length", "3"}, {"Content-Type", "text/plain"}};
    expect_error(handle(request("POST", "/a", form)), 415, "UNSUPPORTED_MEDIA_TYPE");
    expect_error(handle(request("GET", "/a", form)), 400, "BAD_REQUEST");
    expect_error(handle(request("HEAD", "/a", {{"Host", "localhost"}, {"Transfer-Encoding", "chunked"}})), 400,
                 "BAD_REQUEST");
    EXPECT_EQ(handle(request("GET", "/a", {{"Host", "localhost"}, {"Content-Length", "0"}})).status, 200);
    auth.doors.check_origin = false;
    const http::Headers foreign{{"Host", "localhost"}, {"Origin", "http://evil.example"}};
    EXPECT_EQ(handler({answering("GET", "/a", Role::none)}, auth)(request("GET", "/a", foreign)).status, 200);
}

TEST_F(ApiTest, RefusesByTheHeaderAloneAndNotesItOnce) {
    metrics::Metrics metrics;
    AuthOptions auth;
    auth.enabled = true;
    auth.tokens = {{"vera", Role::viewer, sha256_hex("v")}};
    const auto api =
        make_handler({answering("POST", "/do", Role::operator_), answering("GET", "/view")}, auth, log_, &metrics);
    const auto refusal = [&](std::string path, std::string token) {
        const auto refused = api.refuse(request("POST", std::move(path), {{"Authorization", "Bearer " + token}}));
        return refused ? refused->status : 0;
    };
    EXPECT_EQ(refusal("/do", "x"), 401);
    EXPECT_EQ(refusal("/do", "v"), 403);
    EXPECT_EQ(refusal("/nowhere", "v"), 404);
    EXPECT_EQ(refusal("/view", "v"), 405);
    EXPECT_FALSE(api.refuse(request("GET", "/view", {{"Authorization", "Bearer v"}})));
    EXPECT_THAT(metrics.text(), HasSubstr("api_refused_total{reason=\"token\"} 1"));
    EXPECT_THAT(metrics.text(), HasSubstr("api_refused_total{reason=\"role\"} 1"));
    EXPECT_THAT(log_.text(), HasSubstr("127.0.0.1"));
}

TEST_F(ApiTest, TokensExpireAndAreRevokedWhileServing) {
    const WallTime now = SystemClock().wall_now();
    AuthOptions auth;
    auth.enabled = true;
    auth.tokens = {{"past", Role::viewer, sha256_hex("p"), now - std::chrono::seconds(1)},
                   {"future", Role::viewer, sha256_hex("f"), now + std::chrono::hours(1)}};
    auth.file_tokens = std::make_shared<TokenList>(std::vector<Token>{{"vera", Role::viewer, sha256_hex("v")}});
    const auto handle = handler({answering("GET", "/a")}, auth);
    const auto status = [&](const std::string& token) {
        return handle(request("GET", "/a", {{"Authorization", "Bearer " + token}})).status;
    };
    EXPECT_EQ(status("p"), 401);
    EXPECT_EQ(status("f"), 200);
    EXPECT_EQ(status("v"), 200);
    auth.file_tokens->set({{"otto", Role::viewer, sha256_hex("o")}});
    EXPECT_EQ(status("v"), 401);
    EXPECT_EQ(status("o"), 200);
    EXPECT_EQ(status("f"), 200);
}

TEST_F(ApiTest, WithoutTokensNobodyGetsIn) {
    AuthOptions auth;
    auth.enabled = true;
    expect_error(handler({answering("GET", "/a")}, auth)(request("GET", "/a", {{"Authorization", "Bearer x"}})), 401,
                 "UNAUTHORIZED");
}

TEST_F(ApiTest, LogsExceptionsAndAnswers500) {
    const auto handle = handler(
        {{"GET", "/a", Role::none, [](const Call&) -> http::Response { throw std::runtime_error("disk on fire"); }},
         {"GET", "/b", Role::none, [](const Call&) -> http::Response { throw 42; }}});
    const auto response = handle(request("GET", "/a", {{"X-Request-Id", "req-7"}}));
    expect_error(response, 500, "INTERNAL_ERROR");
    EXPECT_EQ(response.body.find("disk on fire"), std::string::npos);
    EXPECT_THAT(log_.text(), HasSubstr("disk on fire"));
    EXPECT_THAT(log_.text(), HasSubstr("req-7"));
    expect_error(handle(request("GET", "/b")), 500, "INTERNAL_ERROR");
    EXPECT_THAT(log_.text(), HasSubstr("not a std::exception"));
}

TEST_F(ApiTest, AnAnswerMayComeLater) {
    std::optional<http::Reply> waiting;
    const auto handle = make_handler({{"POST",
                                       "/later",
                                       Role::none,
                                       {},
                                       [&](const Call& call, http::Reply reply) {
                                           EXPECT_EQ(call.request_id, "req-8");
                                           waiting = std::move(reply);
                                       }}},
                                     {}, log_);
    std::vector<http::Response> answers;
    const auto asked = request("POST", "/later", {{"X-Request-Id", "req-8"}});
    handle(asked, http::Reply([&](http::Response response) { answers.push_back(std::move(response)); }));
    EXPECT_TRUE(answers.empty());
    (*waiting)(http::Response{201, {}, "application/json", "late"});
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].body, "late");
    EXPECT_EQ(header(answers[0], "X-Request-Id"), "req-8");
}

TEST_F(ApiTest, ADeferredRouteThatThrowsIsA500AndOneThatForgetsToo) {
    const auto handle = handler({{"GET",
                                  "/a",
                                  Role::none,
                                  {},
                                  [](const Call&, const http::Reply&) { throw std::runtime_error("disk on fire"); }},
                                 {"GET", "/b", Role::none, {}, [](const Call&, const http::Reply&) {}}});
    expect_error(handle(request("GET", "/a")), 500, "INTERNAL_ERROR");
    EXPECT_THAT(log_.text(), HasSubstr("disk on fire"));
    const auto forgotten = handle(request("GET", "/b"));
    EXPECT_EQ(forgotten.status, 500);
    EXPECT_FALSE(header(forgotten, "X-Request-Id").empty());
}

TEST_F(ApiTest, EscapesWhatItRepeats) {
    const auto response = handler({})(request("GET", "/\"quoted\""));
    expect_error(response, 404, "NOT_FOUND");
    EXPECT_THAT(text(error_of(response).at("message")), HasSubstr("/\"quoted\""));
}

TEST_F(ApiTest, RepeatsWhatIsNotUtf8AsText) {
    const auto response = handler({})(request("GET", "/\xFFx"));
    expect_error(response, 404, "NOT_FOUND");
    EXPECT_THAT(text(error_of(response).at("message")), HasSubstr("/\uFFFDx"));
    const auto detailed = error_response(400, "BAD_REQUEST", "wrong", "id", {{"\xFE", "is \xFF"}});
    EXPECT_THAT(detailed.body, HasSubstr("{\"field\":\"\uFFFD\",\"message\":\"is \uFFFD\"}"));
}

TEST_F(ApiTest, ServesHealthReadinessAndMetrics) {
    metrics::Metrics metrics;
    metrics.counter("things_total", "things", {{"lane", "a"}}).add(3);
    AuthOptions auth;
    auth.enabled = true;
    auth.tokens = {{"vera", Role::viewer, sha256_hex("v")}};
    std::string problem;
    const auto routes = [&] {
        return service_routes({{"database", [&] { return problem; }}, {"disk", [] { return std::string(); }}}, metrics,
                              auth);
    };
    const auto handle = handler(routes(), auth);
    const auto health = handle(request("GET", "/healthz"));
    EXPECT_EQ(health.status, 200);
    EXPECT_EQ(health.body, R"({"status":"ok"})");
    EXPECT_EQ(handle(request("GET", "/readyz")).body, R"({"status":"ready"})");
    problem = "cannot connect";
    const auto unready = handle(request("GET", "/readyz", {{"Authorization", "Bearer v"}}));
    expect_error(unready, 503, "NOT_READY");
    EXPECT_EQ(text(error_of(unready).at("message")), "database: cannot connect");
    EXPECT_EQ(boost::json::serialize(error_of(unready).at("details")),
              R"([{"field":"database","message":"cannot connect"}])");
    EXPECT_EQ(handle(request("GET", "/healthz")).status, 200);

    expect_error(handle(request("GET", "/metrics")), 401, "UNAUTHORIZED");
    const auto page = handle(request("GET", "/metrics", {{"Authorization", "Bearer v"}}));
    EXPECT_EQ(page.content_type, "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_THAT(page.body, HasSubstr("things_total{lane=\"a\"} 3"));
    auth.open_metrics = true;
    EXPECT_EQ(handler(routes(), auth)(request("GET", "/metrics")).status, 200);
}

TEST_F(ApiTest, ReadinessGivesItsWordsToViewersOnly) {
    metrics::Metrics metrics;
    AuthOptions auth;
    auth.enabled = true;
    auth.tokens = {{"vera", Role::viewer, sha256_hex("v")}};
    const auto handle =
        handler(service_routes({{"database", [] { return std::string("role app at /run/x"); }}}, metrics, auth), auth);
    const auto anonymous = handle(request("GET", "/readyz"));
    expect_error(anonymous, 503, "NOT_READY");
    EXPECT_EQ(anonymous.body.find("role app"), std::string::npos);
    EXPECT_EQ(text(error_of(anonymous).at("message")),
              "database is not ready; ask with a viewer's token for the cause");
    const auto viewer = handle(request("GET", "/readyz", {{"Authorization", "Bearer v"}}));
    EXPECT_THAT(viewer.body, HasSubstr("role app at /run/x"));
}

TEST(CachedCheck, AsksOnceASecondAndNeverTwiceAtOnce) {
    HandClock clock;
    int asked = 0;
    const auto check = cached_check({"database", [&] { return std::to_string(++asked); }}, clock);
    EXPECT_EQ(check.problem(), "1");
    clock.advance(std::chrono::milliseconds(999));
    EXPECT_EQ(check.problem(), "1");
    clock.advance(std::chrono::milliseconds(1));
    EXPECT_EQ(check.problem(), "2");
    EXPECT_EQ(asked, 2);

    std::function<std::string()> again;
    std::string meanwhile;
    const auto nested = cached_check({"slow",
                                      [&] {
                                          if (again) meanwhile = again();
                                          return std::to_string(++asked);
                                      }},
                                     clock);
    EXPECT_EQ(nested.problem(), "3");
    clock.advance(std::chrono::seconds(2));
    again = nested.problem;
    EXPECT_EQ(nested.problem(), "4");
    EXPECT_EQ(meanwhile, "3") << "whoever asks during the check gets the last answer";
}

TEST(CachedCheck, WhoAsksDuringTheFirstCheckIsNotToldThatAllIsWell) {
    HandClock clock;
    int asked = 0;
    std::function<std::string()> again;
    std::string meanwhile;
    const auto check = cached_check({"slow",
                                     [&] {
                                         const std::string problem = "problem " + std::to_string(++asked);
                                         if (asked == 1) meanwhile = again();
                                         return problem;
                                     }},
                                    clock);
    again = check.problem;
    EXPECT_EQ(check.problem(), "problem 1");
    EXPECT_EQ(meanwhile, "problem 2");
}

TEST(CachedCheck, OneThatThrowsIsAProblem) {
    HandClock clock;
    const auto check = cached_check({"database", []() -> std::string { throw std::runtime_error("boom"); }}, clock);
    EXPECT_EQ(check.problem(), "boom");
}

TEST(ErrorResponse, NamesSomeDetailsAndCountsTheOthers) {
    const std::vector<Detail> details(7900, Detail{"x", "is wrong"});
    const auto response = error_response(400, "BAD_REQUEST", "wrong", "id", details);
    EXPECT_LT(response.body.size(), 4000U);
    EXPECT_THAT(response.body, HasSubstr("7868 more"));
}

TEST(ErrorBody, LooksLikeEveryOtherError) {
    const auto body = make_error_body();
    const auto response = body(413, "PAYLOAD_TOO_LARGE", "too large");
    expect_error(response, 413, "PAYLOAD_TOO_LARGE");
    EXPECT_NE(header(response, "X-Request-Id"), header(body(400, "BAD_REQUEST", "bad"), "X-Request-Id"));
}

TEST(Loopback, IsOnlyWhatOnlyThisMachineCanReach) {
    for (const auto* host : {"127.0.0.1", "127.255.255.254", "127.0.0.0", "::1", "[::1]", "0:0:0:0:0:0:0:1",
                             "localhost", "LocalHost", "LOCALHOST", "::ffff:127.0.0.1"}) {
        EXPECT_TRUE(is_loopback(host)) << host;
    }
    for (const auto* host :
         {"0.0.0.0", "::", "[::]", "", "128.0.0.1", "126.255.255.255", "192.168.0.1", "localhost.example",
          "127.0.0.1.example", "127.1", "::2", "::ffff:10.0.0.1", "*", "fe80::1", "[::1x", "x::1]"}) {
        EXPECT_FALSE(is_loopback(host)) << host;
    }
}

}  // namespace
}  // namespace deliverd::api
