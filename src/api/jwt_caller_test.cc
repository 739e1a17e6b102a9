// Callers with a token of an OpenID provider, as the routes see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "api/api.h"
#include "api/testing/token_maker.h"
#include "base/sha256.h"
#include "base/testing/recording_log.h"

namespace deliverd::api {
namespace {

using testing::HasSubstr;

class JwtCallerTest : public testing::Test {
protected:
    JwtCallerTest() {
        auth_.enabled = true;
        auth_.tokens = {{"vera", Role::viewer, sha256_hex("v")}, {"dotted", Role::admin, sha256_hex("a.b.c")}};
        auth_.jwt = JwtAuth{{"https://id.example", "deliverd", "groups"},
                            {{"readers", Role::viewer}, {"ops", Role::operator_}, {"root", Role::admin}},
                            std::make_shared<JwtKeys>(parse_jwks(jwks_of({jwk_of(key_, "k")})).value()),
                            [this] { ++unknown_keys_; }};
    }

    std::string token(boost::json::value groups, std::string_view id = "k") const {
        const auto end = SystemClock().wall_now() + std::chrono::hours(1);
        const boost::json::object header{{"alg", "EdDSA"}, {"kid", id}};
        const boost::json::object claims{
            {"iss", "https://id.example"},
            {"aud", "deliverd"},
            {"sub", "alice"},
            {"exp", std::chrono::duration_cast<std::chrono::seconds>(end.time_since_epoch()).count()},
            {"groups", std::move(groups)}};
        return signed_token(key_, serialize(header), serialize(claims));
    }

    http::Response ask(const std::string& token, const std::string& path) {
        std::vector<Route> routes;
        for (const auto& [route, needs] : {std::pair("/open", Role::none), std::pair("/view", Role::viewer),
                                           std::pair("/do", Role::operator_), std::pair("/purge", Role::admin)}) {
            routes.push_back({"GET", route, needs, [](const Call& call) {
                                  return http::Response{200, {}, "text/plain", call.caller.name};
                              }});
        }
        const auto api = make_handler(std::move(routes), auth_, log_, &metrics_);
        const http::Request request{"GET", path, "", {{"Authorization", "Bearer " + token}}, "", "127.0.0.1"};
        const auto refused = api.refuse(request);
        http::Response answer;
        api(request, http::Reply([&answer](http::Response response) { answer = std::move(response); }));
        EXPECT_EQ(refused.has_value(), answer.status != 200) << "the header alone decides";
        return answer;
    }

    const SigningKey key_{SignatureKind::ed25519};
    AuthOptions auth_;
    RecordingLog log_;
    metrics::Metrics metrics_;
    int unknown_keys_ = 0;
};

TEST_F(JwtCallerTest, TheHighestRoleOfATokenCounts) {
    const auto may = [this](const boost::json::value& groups) {
        std::string paths;
        for (const auto* path : {"/view", "/do", "/purge"}) {
            const auto response = ask(token(groups), path);
            if (response.status == 200) {
                EXPECT_EQ(response.body, "jwt:alice");
                paths += path;
            } else {
                EXPECT_EQ(response.status, 403);
            }
        }
        return paths;
    };
    EXPECT_EQ(may("readers"), "/view");
    EXPECT_EQ(may("ops"), "/view/do");
    EXPECT_EQ(may(boost::json::array{"readers", "root", "ops"}), "/view/do/purge");
    std::ranges::reverse(auth_.jwt->roles);  // neither the token's order counts nor the configuration's
    EXPECT_EQ(may(boost::json::array{"readers", "root", "ops"}), "/view/do/purge");
    EXPECT_EQ(may(boost::json::array{"others"}), "");
    EXPECT_EQ(may("root "), "");
    EXPECT_EQ(may(nullptr), "");
    // Whatever the order of the configuration.
    std::ranges::reverse(auth_.jwt->roles);
    EXPECT_EQ(may(boost::json::array{"readers", "root", "ops"}), "/view/do/purge");
}

TEST_F(JwtCallerTest, AnonymousCallersAreNotToldWhy) {
    std::string altered = token("root");
    altered.back() = altered.back() == 'A' ? 'Q' : 'A';
    const auto response = ask(altered, "/view");
    EXPECT_EQ(response.status, 401);
    const auto message_of = [](const http::Response& answer) {
        return boost::json::parse(answer.body).at("error").at("message").as_string();
    };
    EXPECT_EQ(message_of(response), message_of(ask("x", "/view")));
    EXPECT_THAT(metrics_.text(), HasSubstr("api_refused_total{reason=\"jwt_signature\"} 2"));
    EXPECT_THAT(log_.text(), HasSubstr("jwt_signature: the signature is not that of the key"));
    EXPECT_EQ(ask(altered, "/open").body, "anonymous");
    EXPECT_EQ(unknown_keys_, 0);
}

TEST_F(JwtCallerTest, TellsOfKeysThatAreNotThere) {
    EXPECT_EQ(ask(token("root", "new"), "/view").status, 401);
    EXPECT_EQ(unknown_keys_, 2) << "once by its header, once as a whole";
    auth_.jwt->keys->set({});
    EXPECT_EQ(ask(token("root"), "/view").status, 401);
    EXPECT_EQ(unknown_keys_, 4);
    auth_.jwt->on_unknown_key = {};
    EXPECT_EQ(ask(token("root"), "/view").status, 401) << "nobody wants to know";
}

TEST_F(JwtCallerTest, OtherTokensAreWhatTheyWere) {
    EXPECT_EQ(ask("v", "/view").body, "vera");
    EXPECT_EQ(ask("a.b.c", "/view").status, 401);
    auth_.jwt.reset();
    EXPECT_EQ(ask("a.b.c", "/view").body, "dotted");
    EXPECT_EQ(ask(token("root"), "/view").status, 401);
}

}  // namespace
}  // namespace deliverd::api
