#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "api/testing/token_maker.h"
#include "config/load.h"
#include "store/sqlite/testing/test_folder.h"

namespace deliverd::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr const char* kJwksUrl = "jwks_url: \"https://id.example/keys\"";

LoadedConfig load_jwt(const std::string& jwt, const std::string& more = "") {
    return load_config_text("auth:\n  jwt: " + jwt + "\n" + more, "deliverd.yaml", {},
                            [](const std::string&) { return std::nullopt; });
}

std::vector<std::string> problems_of(const std::string& jwt, const std::string& more = "") {
    return load_jwt(jwt, more).problems;
}

/// All it needs, with `more` beside it.
std::string jwt_with(const std::string& more) {
    return "{ issuer: \"https://id.example\", audience: deliverd, roles: { deliverd-ops: operator }, " + more + " }";
}

TEST(ConfigJwt, IsReadAndClosesTheDoor) {
    const LoadedConfig loaded =
        load_jwt("{ issuer: \"https://id.example\", audience: deliverd, role_claim: realm_access.roles, " +
                 std::string(kJwksUrl) +
                 ", ca_file: /dev/null, roles: { \"https://x.example/a b\": admin, ops: operator, all: viewer } }");
    ASSERT_THAT(loaded.problems, IsEmpty());
    const api::AuthOptions& auth = loaded.config.auth;
    EXPECT_TRUE(auth.enabled);
    EXPECT_FALSE(auth.doors.check_origin) << "a token is proof enough";
    ASSERT_TRUE(auth.jwt);
    EXPECT_EQ(auth.jwt->rules.issuer, "https://id.example");
    EXPECT_EQ(auth.jwt->rules.audience, "deliverd");
    EXPECT_EQ(auth.jwt->rules.role_claim, "realm_access.roles");
    EXPECT_THAT(auth.jwt->roles,
                ElementsAre(Pair("all", api::Role::viewer), Pair("https://x.example/a b", api::Role::admin),
                            Pair("ops", api::Role::operator_)));
    EXPECT_THAT(auth.jwt->keys->get()->keys, IsEmpty()) << "they are fetched later";
    EXPECT_EQ(loaded.config.jwks.url, "https://id.example/keys");
    EXPECT_EQ(loaded.config.jwks.ca_file, "/dev/null");
    EXPECT_EQ(load_jwt(jwt_with(kJwksUrl)).config.auth.jwt->rules.role_claim, "roles");
    EXPECT_FALSE(load_config_text("", "", {}, [](const std::string&) { return std::nullopt; }).config.auth.jwt);
}

TEST(ConfigJwt, SaysWhatIsMissing) {
    EXPECT_THAT(problems_of(""),
                ElementsAre(HasSubstr("deliverd.yaml:2: auth.jwt needs the provider's keys"),
                            HasSubstr("auth.jwt.audience is missing"), HasSubstr("auth.jwt.issuer is missing"),
                            HasSubstr("auth.jwt.roles is missing")));
    EXPECT_THAT(problems_of(jwt_with("jwks_url: \"https://id.example\", jwks_file: x")),
                ElementsAre(HasSubstr("either jwks_url or jwks_file")));
    EXPECT_THAT(problems_of(jwt_with(std::string(kJwksUrl) + ", role_claim: \"\"")),
                ElementsAre(HasSubstr("auth.jwt.role_claim is empty")));
    EXPECT_THAT(
        problems_of("{ issuer: i, audience: a, roles: { ops: root, all: viewer }, " + std::string(kJwksUrl) + " }"),
        ElementsAre("deliverd.yaml:2: auth.jwt.roles.ops must be viewer, operator or admin, not \"root\""));
}

TEST(ConfigJwt, KeysComeOverAGuardedWay) {
    for (const auto* url : {"http://127.0.0.1:9/keys", "http://localhost/keys", "https://any.example"}) {
        EXPECT_THAT(problems_of(jwt_with(std::string("jwks_url: \"") + url + "\"")), IsEmpty()) << url;
    }
    for (const auto* url : {"http://id.example/keys", "http://10.0.0.1/keys"}) {
        EXPECT_THAT(problems_of(jwt_with(std::string("jwks_url: \"") + url + "\"")),
                    ElementsAre(HasSubstr("auth.jwt.jwks_url must be https")))
            << url;
    }
    EXPECT_THAT(problems_of(jwt_with("jwks_url: id.example")), ElementsAre(HasSubstr("must start with http")));
    EXPECT_THAT(problems_of(jwt_with(std::string(kJwksUrl) + ", ca_file: /no/such/file")),
                ElementsAre(HasSubstr("auth.jwt.ca_file cannot be read: /no/such/file")));
}

TEST(ConfigJwt, AFileMustBeThereFromTheStart) {
    const store::sqlite::TestFolder folder;
    const std::string path = folder.path() / "keys.json";
    EXPECT_THAT(problems_of(jwt_with("jwks_file: " + path)), ElementsAre(HasSubstr("No such file")));
    std::ofstream(path) << "{}";
    EXPECT_THAT(problems_of(jwt_with("jwks_file: " + path)), ElementsAre(HasSubstr("no list `keys`")));
    std::ofstream(path) << api::jwks_of({api::jwk_of(SigningKey(SignatureKind::ed25519), "a")});
    EXPECT_THAT(problems_of(jwt_with("ca_file: /dev/null, jwks_file: " + path)),
                ElementsAre(HasSubstr("auth.jwt.ca_file is for jwks_url")));
    const LoadedConfig loaded = load_jwt(jwt_with("jwks_file: " + path));
    ASSERT_THAT(loaded.problems, IsEmpty());
    EXPECT_EQ(loaded.config.auth.jwt->keys->get()->keys.size(), 1U);
}

TEST(ConfigJwt, IsAuthLikeTokensAre) {
    EXPECT_THAT(problems_of(jwt_with(kJwksUrl), "  mode: none\n"), ElementsAre(HasSubstr("auth.mode is none, but")));
    EXPECT_THAT(problems_of(jwt_with(kJwksUrl), "  mode: tokens\n"), IsEmpty());
    EXPECT_THAT(problems_of(jwt_with(kJwksUrl), "server: { host: 0.0.0.0 }\n"),
                ElementsAre(HasSubstr("in plain HTTP")));
    const std::string sha(64, 'a');
    EXPECT_THAT(problems_of(jwt_with(kJwksUrl), "  tokens: [ { name: \"jwt:alice\", sha256: " + sha + " } ]\n"),
                ElementsAre(HasSubstr("auth.tokens[0].name begins with jwt:")));
}

}  // namespace
}  // namespace deliverd::config
