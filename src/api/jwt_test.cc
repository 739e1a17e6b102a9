#include "api/jwt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <map>

#include "api/testing/token_maker.h"

namespace deliverd::api {
namespace {

using boost::json::array;
using boost::json::object;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kNow = 1'800'000'000;
constexpr WallTime kNowWall{std::chrono::seconds(kNow)};

/// Keys are costly to make: one of each kind for all tests.
const SigningKey& key_for(SignatureKind kind) {
    static const std::map<SignatureKind, SigningKey> keys{{SignatureKind::rs256, SigningKey(SignatureKind::rs256)},
                                                          {SignatureKind::es256, SigningKey(SignatureKind::es256)},
                                                          {SignatureKind::ed25519, SigningKey(SignatureKind::ed25519)}};
    return keys.at(kind);
}

constexpr std::array<std::pair<SignatureKind, const char*>, 3> kAlgorithms{
    {{SignatureKind::rs256, "RS256"}, {SignatureKind::es256, "ES256"}, {SignatureKind::ed25519, "EdDSA"}}};

boost::json::string json_string(std::string_view text) {
    return boost::json::string(text);
}

class JwtTest : public testing::Test {
protected:
    static object good_claims() {
        return {
            {"iss", "https://id.example"}, {"aud", "deliverd"}, {"exp", kNow + 60}, {"sub", "alice"}, {"roles", "ops"}};
    }

    /// Signed by the key of that algorithm, whose `kid` is its name.
    static std::string token(const object& claims, SignatureKind kind = SignatureKind::es256,
                             const object& more_header = {}) {
        object header{{"typ", "JWT"}};
        for (const auto& [known, name] : kAlgorithms) {
            if (known == kind) header.insert({{"alg", name}, {"kid", name}});
        }
        for (const auto& member : more_header) header[member.key()] = member.value();
        return signed_token(key_for(kind), serialize(header), serialize(claims));
    }

    static std::string token_without(std::string_view claim) {
        object claims = good_claims();
        claims.erase(claim);
        return token(claims);
    }

    static std::string token_with(std::string_view claim, boost::json::value value) {
        object claims = good_claims();
        claims[claim] = std::move(value);
        return token(claims);
    }

    static JwtKeySet keys() {
        array jwks;
        for (const auto& [kind, name] : kAlgorithms) jwks.push_back(jwk_of(key_for(kind), name));
        return parse_jwks(jwks_of(std::move(jwks))).value();
    }

    [[nodiscard]] Result<JwtClaims> verify(std::string_view text, WallTime now = kNowWall) const {
        return verify_jwt(text, keys_, rules_, now);
    }

    /// The code of the refusal; empty when it was accepted.
    [[nodiscard]] std::string refusal(std::string_view text, WallTime now = kNowWall) const {
        const auto claims = verify(text, now);
        return claims ? "" : claims.error().code;
    }

    JwtRules rules_{"https://id.example", "deliverd", "roles"};
    JwtKeySet keys_ = keys();
};

TEST_F(JwtTest, TokensOfAllThreeAlgorithmsAreAccepted) {
    for (const auto& [kind, name] : kAlgorithms) {
        const auto claims = verify(token(good_claims(), kind));
        ASSERT_TRUE(claims) << name << ": " << claims.error().message;
        EXPECT_EQ(claims->subject, "alice");
        EXPECT_THAT(claims->roles, ElementsAre("ops"));
    }
}

TEST_F(JwtTest, LooksLikeOneByItsThreeParts) {
    for (const auto* text : {"a.b.c", "..", "a..c"}) EXPECT_TRUE(is_jwt(text)) << text;
    for (const auto* text : {"", "a", "a.b", "a.b.c.d", "..."}) EXPECT_FALSE(is_jwt(text)) << text;
}

TEST_F(JwtTest, TheAudienceIsATextOrAList) {
    EXPECT_EQ(refusal(token_with("aud", array{"other", "deliverd"})), "");
    EXPECT_EQ(refusal(token_with("aud", "other")), "jwt_audience");
    EXPECT_EQ(refusal(token_with("aud", "deliverd2")), "jwt_audience");
    EXPECT_EQ(refusal(token_with("aud", array{"other", array{"deliverd"}, 1})), "jwt_audience");
    EXPECT_EQ(refusal(token_with("aud", array{})), "jwt_audience");
    EXPECT_EQ(refusal(token_with("aud", object{{"deliverd", "deliverd"}})), "jwt_audience");
    EXPECT_EQ(refusal(token_without("aud")), "jwt_audience");
}

TEST_F(JwtTest, TheIssuerIsCompared) {
    for (const auto* other : {"https://id.example/", "https://ID.example", "http://id.example", ""}) {
        EXPECT_EQ(refusal(token_with("iss", other)), "jwt_issuer") << other;
    }
    EXPECT_EQ(refusal(token_with("iss", array{"https://id.example"})), "jwt_issuer");
    EXPECT_EQ(refusal(token_without("iss")), "jwt_issuer");
}

TEST_F(JwtTest, ATokenExpires) {
    const std::string text = token(good_claims());
    const WallTime end = kNowWall + std::chrono::seconds(60) + std::chrono::seconds(30);
    EXPECT_EQ(refusal(text, end - std::chrono::microseconds(1)), "") << "clocks differ a little";
    EXPECT_EQ(refusal(text, end), "jwt_expired");
    EXPECT_EQ(refusal(token_with("exp", static_cast<double>(kNow) + 0.5)), "") << "a fraction is a time";
    EXPECT_EQ(refusal(token_with("exp", 0)), "jwt_expired");
}

TEST_F(JwtTest, WithoutAnEndItIsRefused) {
    EXPECT_EQ(refusal(token_without("exp")), "jwt_claims");
    for (const auto& wrong : {boost::json::value("1800000060"), boost::json::value(nullptr), boost::json::value(true),
                              boost::json::value(-1), boost::json::value(1e300), boost::json::value(kNow * 1000),
                              boost::json::value(array{kNow + 60})}) {
        EXPECT_EQ(refusal(token_with("exp", wrong)), "jwt_claims") << wrong;
    }
}

TEST_F(JwtTest, TheLastTimeIsTheEndOfTheYear9999) {
    constexpr std::int64_t kLastSecond = 253'402'300'799;  // date -u -d 9999-12-31T23:59:59 +%s
    EXPECT_EQ(refusal(token_with("exp", kLastSecond)), "");
    EXPECT_EQ(refusal(token_with("exp", kLastSecond + 1)), "jwt_claims");
}

TEST_F(JwtTest, ATokenBegins) {
    EXPECT_EQ(refusal(token_with("nbf", kNow)), "");
    EXPECT_EQ(refusal(token_with("nbf", kNow + 30)), "") << "clocks differ a little";
    EXPECT_EQ(refusal(token_with("nbf", kNow + 31)), "jwt_not_yet_valid");
    EXPECT_EQ(refusal(token_with("nbf", "now")), "jwt_claims");
}

TEST_F(JwtTest, TheSubjectIsOneLineOfSoManyBytes) {
    EXPECT_EQ(refusal(token_with("sub", json_string(std::string(kMaxSubjectBytes, 'x')))), "");
    EXPECT_EQ(refusal(token_with("sub", json_string(std::string(kMaxSubjectBytes + 1, 'x')))), "jwt_claims");
    EXPECT_EQ(verify(token_with("sub", "Zoë|42"))->subject, "Zoë|42");
    for (const std::string& wrong : {std::string(), std::string("a\nb"), std::string("a\0b", 3), std::string("\x1b[2J"),
                                     std::string("a\xc2\x9b"), std::string("a\xe2\x80\xa8")}) {
        EXPECT_EQ(refusal(token_with("sub", json_string(wrong))), "jwt_claims") << wrong;
    }
    EXPECT_EQ(refusal(token_with("sub", 7)), "jwt_claims");
    EXPECT_EQ(refusal(token_without("sub")), "jwt_claims");
}

TEST_F(JwtTest, RolesAreATextOrTheTextsOfAList) {
    const auto roles = [this](const std::string& text) { return verify(text).value().roles; };
    EXPECT_THAT(roles(token_with("roles", array{"a", 1, "b", nullptr, array{"c"}})), ElementsAre("a", "b"));
    EXPECT_THAT(roles(token_with("roles", object{{"a", "b"}})), IsEmpty());
    EXPECT_THAT(roles(token_without("roles")), IsEmpty());
}

TEST_F(JwtTest, ARoleClaimMayBeAPath) {
    rules_.role_claim = "realm_access.roles";
    EXPECT_THAT(verify(token_with("realm_access", object{{"roles", array{"ops"}}}))->roles, ElementsAre("ops"));
    EXPECT_THAT(verify(token_with("realm_access", array{"roles"}))->roles, IsEmpty());
    EXPECT_THAT(verify(token_without("realm_access"))->roles, IsEmpty());
    rules_.role_claim = "https://deliverd.example/roles";
    EXPECT_THAT(verify(token_with("https://deliverd.example/roles", "ops"))->roles, ElementsAre("ops"));
}

TEST_F(JwtTest, ATokenWithoutAlgorithmIsRefused) {
    for (const auto* name : {"none", "None", "NONE", ""}) {
        const object header{{"alg", name}, {"kid", "RS256"}};
        const std::string unsigned_token =
            base64url_encoded(serialize(header)) + "." + base64url_encoded(serialize(good_claims())) + ".";
        EXPECT_EQ(refusal(unsigned_token), "jwt_algorithm") << name;
        EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, header)), "jwt_algorithm") << name;
    }
    EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, {{"alg", 256}})), "jwt_algorithm");
}

/// A verifier that let the token choose would take the public key, which everyone has, for the shared secret.
TEST_F(JwtTest, APublicKeyIsNoSecret) {
    const SigningKey& rsa = key_for(SignatureKind::rs256);
    const std::string bytes =
        base64url_encoded(R"({"alg":"HS256","kid":"RS256"})") + "." + base64url_encoded(serialize(good_claims()));
    for (const std::string& secret :
         {rsa.modulus(), serialize(jwk_of(rsa, "RS256")), base64url_encoded(rsa.modulus())}) {
        EXPECT_EQ(refusal(bytes + "." + base64url_encoded(hmac_sha256(secret, bytes))), "jwt_algorithm");
    }
}

TEST_F(JwtTest, TheAlgorithmIsTheOneOfTheKey) {
    for (const auto& [kind, name] : kAlgorithms) {
        for (const auto& [other, other_name] : kAlgorithms) {
            if (kind == other) continue;
            EXPECT_EQ(refusal(token(good_claims(), kind, {{"alg", other_name}})), "jwt_algorithm");
            EXPECT_EQ(refusal(token(good_claims(), kind, {{"kid", other_name}})), "jwt_algorithm");
            EXPECT_EQ(refusal(token(good_claims(), kind, {{"kid", other_name}, {"alg", other_name}})), "jwt_signature");
        }
    }
    for (const auto* name : {"RS512", "PS256", "ES384", "es256", "ES256 ", "Ed25519", "HS256", "RSA-OAEP"}) {
        EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, {{"alg", name}})), "jwt_algorithm") << name;
    }
}

TEST_F(JwtTest, AnUnknownKeyIsRefused) {
    EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, {{"kid", "new"}})), kUnknownJwtKey);
    EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, {{"kid", 7}})), "jwt_malformed");
    EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, {{"kid", "new"}, {"alg", "ES384"}})), "jwt_algorithm")
        << "no key would help";
    keys_ = {};
    EXPECT_EQ(refusal(token(good_claims())), kUnknownJwtKey);
    const SigningKey stranger(SignatureKind::es256);
    keys_ = parse_jwks(jwks_of({jwk_of(stranger, "ES256")})).value();
    EXPECT_EQ(refusal(token(good_claims())), "jwt_signature") << "the same kid, another key";
}

TEST_F(JwtTest, WithoutAKeyIdThereMustBeOneKey) {
    const std::string text =
        signed_token(key_for(SignatureKind::es256), R"({"alg":"ES256"})", serialize(good_claims()));
    EXPECT_EQ(refusal(text), kUnknownJwtKey);
    keys_.keys.pop_back();
    EXPECT_EQ(refusal(text), kUnknownJwtKey) << "two";
    keys_ = {};
    EXPECT_EQ(refusal(text), kUnknownJwtKey) << "none";
    keys_ = parse_jwks(jwks_of({jwk_of(key_for(SignatureKind::es256), "any")})).value();
    EXPECT_EQ(refusal(text), "");
    keys_ = parse_jwks(jwks_of({jwk_of(key_for(SignatureKind::rs256), "any")})).value();
    EXPECT_EQ(refusal(text), "jwt_algorithm");
}

TEST_F(JwtTest, KeysThatATokenBringsAlongAreIgnored) {
    const SigningKey mine(SignatureKind::es256);
    const object header{
        {"alg", "ES256"}, {"kid", "ES256"}, {"jwk", jwk_of(mine, "ES256")}, {"jku", "https://evil.example"}};
    EXPECT_EQ(refusal(signed_token(mine, serialize(header), serialize(good_claims()))), "jwt_signature");
}

TEST_F(JwtTest, HeadersThatChangeTheMeaningAreRefused) {
    EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, {{"crit", array{"exp"}}, {"exp", kNow}})),
              "jwt_malformed");
    EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, {{"crit", array{}}})), "jwt_malformed");
    for (const auto* type : {"logout+jwt", "secevent+jwt", "", "JWS"}) {
        EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, {{"typ", type}})), "jwt_malformed") << type;
    }
    for (const auto* type : {"JWT", "jwt", "at+jwt", "application/at+JWT"}) {
        EXPECT_EQ(refusal(token(good_claims(), SignatureKind::es256, {{"typ", type}})), "") << type;
    }
}

TEST_F(JwtTest, AMemberTwiceIsRefused) {
    const SigningKey& key = key_for(SignatureKind::es256);
    const std::string header = R"({"alg":"ES256","kid":"ES256"})";
    std::string claims = serialize(good_claims());
    claims.insert(1, R"("sub":"bob",)");
    EXPECT_EQ(refusal(signed_token(key, header, claims)), "jwt_malformed");
    EXPECT_EQ(refusal(signed_token(key, R"({"alg":"none","alg":"ES256","kid":"ES256"})", serialize(good_claims()))),
              "jwt_malformed");
}

TEST_F(JwtTest, WhatIsNoTokenIsRefused) {
    const std::string good = token(good_claims());
    const auto dot = good.find('.');
    const auto last = good.rfind('.');
    for (const std::string& wrong :
         {std::string(), std::string(".."), std::string("a.b"), good + ".", good + "=", good + "\n", " " + good,
          good.substr(0, last), good.substr(0, dot) + "=" + good.substr(dot), "e30=" + good.substr(dot),
          "!" + good.substr(1), good.substr(dot)}) {
        EXPECT_EQ(refusal(wrong), "jwt_malformed") << wrong;
    }
    EXPECT_EQ(refusal(good.substr(0, last + 1)), "jwt_signature") << "without its signature";
    const SigningKey& key = key_for(SignatureKind::es256);
    const std::string header = R"({"alg":"ES256","kid":"ES256"})";
    const std::string deep = std::string(100, '[') + std::string(100, ']');
    for (const std::string& payload : {std::string("[]"), std::string("\"x\""), std::string(), std::string("{"),
                                       std::string("{} {}"), R"({"sub":)" + deep + "}", std::string("{\"\xff\":1}")}) {
        EXPECT_EQ(refusal(signed_token(key, header, payload)), "jwt_malformed") << payload;
    }
}

TEST_F(JwtTest, ALongTokenIsRefused) {
    object claims = good_claims();
    claims["more"] = std::string(kMaxJwtBytes, 'x');
    EXPECT_EQ(refusal(token(claims)), "jwt_malformed");
    claims["more"] = std::string(kMaxJwtBytes / 2, 'x');
    EXPECT_EQ(refusal(token(claims)), "");
    const auto message = [this](std::size_t bytes) { return verify(std::string(bytes, 'x')).error().message; };
    EXPECT_EQ(message(kMaxJwtBytes), "the token does not have three parts");
    EXPECT_EQ(message(kMaxJwtBytes + 1), "the token is longer than 16384 bytes");
}

/// Every bit of the token counts, also those of base64 that stand for nothing.
TEST_F(JwtTest, NoAlteredTokenIsAccepted) {
    constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.=";
    for (const auto& [kind, name] : kAlgorithms) {
        const std::string good = token(good_claims(), kind);
        ASSERT_EQ(refusal(good), "");
        for (std::size_t at = 0; at < good.size(); ++at) {
            std::string altered = good;
            for (int bit = 0; bit < 8; ++bit) {
                altered[at] =
                    static_cast<char>(static_cast<unsigned char>(good[at]) ^ (1U << static_cast<unsigned>(bit)));
                ASSERT_NE(refusal(altered), "") << name << " at " << at;
            }
            const bool ends_part = at + 1 == good.size() || good[at + 1] == '.';
            for (const char letter : ends_part ? kLetters : std::string_view()) {
                if (letter == good[at]) continue;
                altered[at] = letter;
                ASSERT_NE(refusal(altered), "") << name << " at " << at;
            }
            ASSERT_NE(refusal(good.substr(0, at)), "") << name << " cut at " << at;
            ASSERT_NE(refusal(std::string(good).erase(at, 1)), "") << name << " without " << at;
        }
    }
}

TEST(Jwks, KeysThatAreNotForUsAreLeftOutAndSaidSo) {
    const SigningKey& ec = key_for(SignatureKind::es256);
    const auto with_kind = [](SignatureKind kind, std::string_view name, boost::json::value value) {
        object jwk = jwk_of(key_for(kind), "k");
        jwk[name] = std::move(value);
        return jwk;
    };
    const auto with = [&](std::string_view name, boost::json::value value) {
        return with_kind(SignatureKind::es256, name, std::move(value));
    };
    const auto left_out = [](object jwk) {
        const auto set = parse_jwks(jwks_of({std::move(jwk)})).value();
        EXPECT_EQ(set.keys.size() + set.left_out.size(), 1U);
        return set.keys.empty() ? set.left_out.front() : "";
    };
    EXPECT_EQ(left_out(with("use", "sig")), "");
    EXPECT_EQ(left_out(with("alg", "ES256")), "");
    EXPECT_EQ(left_out(with("key_ops", array{"sign", "verify"})), "");
    EXPECT_EQ(left_out(with("use", "enc")), "key \"k\": it is not for signatures");
    EXPECT_EQ(left_out(with("key_ops", array{"encrypt"})), "key \"k\": it is not for signatures");
    EXPECT_EQ(left_out(with("alg", "ES384")), "key \"k\": its alg is not ES256");
    EXPECT_EQ(left_out(with("alg", 7)), "key \"k\": its alg is not ES256");
    EXPECT_EQ(left_out(with("crv", "P-384")), "key \"k\": its curve is not P-256");
    EXPECT_EQ(left_out(with("kty", "oct")), "key \"k\": its kty is not RSA, EC or OKP");
    EXPECT_EQ(left_out(with("kty", "OKP")), "key \"k\": its curve is not Ed25519");
    for (const auto* name : {"x", "y"}) {
        EXPECT_EQ(left_out(with(name, "AA==")), "key \"k\": x or y is not base64url") << name;
    }
    for (const auto* name : {"n", "e"}) {
        EXPECT_EQ(left_out(with_kind(SignatureKind::rs256, name, "AA==")), "key \"k\": n or e is not base64url")
            << name;
    }
    EXPECT_EQ(left_out(with_kind(SignatureKind::ed25519, "x", "AA==")), "key \"k\": x is not base64url");
    EXPECT_EQ(left_out(with("y", json_string(base64url_encoded(ec.x())))),
              "key \"k\": the point is not on the curve P-256");
    EXPECT_EQ(left_out(with("kid", json_string(std::string(kMaxKeyIdBytes, 'x')))), "");
    EXPECT_THAT(left_out(with("kid", json_string(std::string(kMaxKeyIdBytes + 1, 'x')))), HasSubstr("1 to 256 bytes"));
    EXPECT_EQ(left_out(with("kid", "")), "key \"\": its kid is not a text of 1 to 256 bytes");
    EXPECT_EQ(left_out(with("kid", 7)), "key 1: its kid is not a text of 1 to 256 bytes");
    EXPECT_EQ(left_out(jwk_of(SigningKey(SignatureKind::rs256, 1024), "weak")),
              "key \"weak\": the modulus has 1024 bits: RSA needs 2048");
}

TEST(Jwks, TheOtherKeysOfASetCount) {
    const auto set = parse_jwks(
        jwks_of({nullptr, jwk_of(key_for(SignatureKind::es256), "a"), object{{"kty", "new"}},
                 jwk_of(key_for(SignatureKind::ed25519), "a"), jwk_of(SigningKey(SignatureKind::es256), "a")}));
    ASSERT_TRUE(set) << set.error().message;
    ASSERT_EQ(set->keys.size(), 2U);
    EXPECT_EQ(set->keys[0].key.kind(), SignatureKind::es256);
    EXPECT_EQ(set->keys[1].key.kind(), SignatureKind::ed25519);
    EXPECT_THAT(set->left_out, ElementsAre("key 1: it is not an object", "key 3: its kty is not RSA, EC or OKP",
                                           "key \"a\": another one has its kid and algorithm"));
}

TEST(Jwks, KeysOfOneAlgorithmDifferByTheirId) {
    const SigningKey& ec = key_for(SignatureKind::es256);
    const auto set = parse_jwks(jwks_of({jwk_of(ec, "old"), jwk_of(SigningKey(SignatureKind::es256), "new")})).value();
    EXPECT_EQ(set.keys.size(), 2U);
    EXPECT_THAT(set.left_out, IsEmpty());
}

TEST(Jwks, WhatIsNoKeySetIsRefused) {
    const auto refusal = [](std::string_view text) {
        const auto set = parse_jwks(text);
        return set ? "" : set.error().message;
    };
    EXPECT_EQ(refusal(R"({"keys":[]})"), "") << "nobody gets in: that is what it says";
    EXPECT_EQ(refusal(R"({"keys":{}})"), "the key set has no list `keys`");
    EXPECT_EQ(refusal("{}"), "the key set has no list `keys`");
    EXPECT_EQ(refusal("[]"), "the key set is not a JSON object");
    EXPECT_EQ(refusal("<html>"), "the key set is not JSON");
    EXPECT_EQ(refusal(R"({"keys":[],"keys":[]})"), "the key set has a member twice");
    EXPECT_EQ(refusal(R"({"keys":[{"kid":"a","kid":"b"}]})"), "the key set has a member twice");
    EXPECT_EQ(refusal(R"({"keys":)" + std::string(100, '[') + std::string(100, ']') + "}"),
              "the key set is nested too deep");
    EXPECT_EQ(refusal(jwks_of(array(kMaxJwksKeys, 1))), "");
    EXPECT_EQ(refusal(jwks_of(array(kMaxJwksKeys + 1, 1))), "the key set has more than 64 keys");
    const std::string empty = R"({"keys":[]})";
    const std::string longest = empty + std::string(kMaxJwksBytes - empty.size(), ' ');
    EXPECT_EQ(refusal(longest), "");
    EXPECT_EQ(refusal(longest + " "), "the key set is longer than 65536 bytes");
}

}  // namespace
}  // namespace deliverd::api
