#include "sink/http/webhook_signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hmac.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;
using testing::Not;

// The vector of the standard's own libraries.
constexpr std::string_view kBareSecret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr std::string_view kId = "msg_p5jXN8AQM9LWM0D4loKWxJek";
constexpr std::int64_t kTime = 1614265330;
constexpr std::string_view kBody = R"({"test": 2432232314})";
constexpr std::string_view kSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

// The bytes 0 to 23, and what another program computes with them over the same content.
constexpr std::string_view kOtherBareSecret = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";
constexpr std::string_view kOtherSignature = "v1,/485aUtxlie+TIScVpHggMfqOB4so2KWb7+Gf727B44=";

std::string signed_with(std::string_view secrets) {
    const auto parsed = WebhookSecrets::parse(secrets);
    return parsed ? parsed->sign(kId, kTime, kBody) : parsed.error().message;
}

TEST(WebhookSignature, MatchesTheStandardsExample) {
    EXPECT_EQ(signed_with(kBareSecret), kSignature);
    EXPECT_EQ(signed_with("whsec_" + std::string(kBareSecret)), kSignature);
    EXPECT_EQ(signed_with("\n whsec_" + std::string(kBareSecret) + "\n"), kSignature);
}

TEST(WebhookSignature, HasOnePartPerSecretInOrder) {
    const std::string both = std::string(kSignature) + " " + std::string(kOtherSignature);
    for (const auto* between : {" ", ",", "\n", " , "}) {
        EXPECT_EQ(signed_with("whsec_" + std::string(kBareSecret) + between + "whsec_" + std::string(kOtherBareSecret)),
                  both);
    }
}

TEST(WebhookSignature, CoversIdTimeAndBody) {
    const auto secrets = WebhookSecrets::parse(kBareSecret);
    ASSERT_TRUE(secrets);
    EXPECT_NE(secrets->sign("msg_other", kTime, kBody), kSignature);
    EXPECT_NE(secrets->sign(kId, kTime + 1, kBody), kSignature);
    EXPECT_NE(secrets->sign(kId, kTime, "{}"), kSignature);
}

TEST(WebhookSecrets, OfTheWrongLengthOrSpellingAreRefusedWithoutRepeatingThem) {
    const auto secret_of = [](std::size_t bytes) { return "whsec_" + base64_encoded(std::string(bytes, 'k')); };
    EXPECT_TRUE(WebhookSecrets::parse(secret_of(24)));
    EXPECT_TRUE(WebhookSecrets::parse(secret_of(64)));
    std::string nine;
    for (int i = 0; i < 9; ++i) nine += secret_of(24) + " ";
    for (const std::string& bad :
         {std::string(), std::string(" ,"), std::string("whsec_"), secret_of(23), secret_of(65),
          std::string("s3cret-s3cret-s3cret-s3cret-s3cret"), "whsk_" + secret_of(24), secret_of(24) + " s3cret!",
          secret_of(25).substr(0, 39), nine}) {
        const auto refused = WebhookSecrets::parse(bad);
        ASSERT_FALSE(refused) << bad;
        EXPECT_EQ(refused.error().code, "bad_argument");
        EXPECT_THAT(refused.error().message, Not(HasSubstr("s3cret")));
        EXPECT_THAT(refused.error().message, Not(HasSubstr("a2tra2tr")));
    }
}

}  // namespace
}  // namespace deliverd::sink
