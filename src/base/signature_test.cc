#include "base/signature.h"

#include <gtest/gtest.h>
#include <openssl/err.h>

#include <array>

#include "base/testing/signing_key.h"

namespace deliverd {
namespace {

std::string decoded(std::string_view text) {
    return base64url_decoded(text).value();
}

constexpr std::array kKinds{SignatureKind::rs256, SignatureKind::es256, SignatureKind::ed25519};

TEST(Signature, AnswersTheExamplesOfRfc7515And8037) {
    const auto rsa = VerifyKey::rsa(
        decoded("ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-"
                "SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS"
                "-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2"
                "ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"),
        decoded("AQAB"));
    ASSERT_TRUE(rsa) << rsa.error().message;
    EXPECT_TRUE(rsa->verifies(
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0"
        "cnVlfQ",
        decoded(
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJd"
            "bF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN93"
            "83LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhW"
            "kWywlVmtVrBp0igcN_IoypGlUPQGe77Rw")));

    const auto p256 = VerifyKey::p256(decoded("f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU"),
                                      decoded("x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"));
    ASSERT_TRUE(p256) << p256.error().message;
    EXPECT_TRUE(p256->verifies(
        "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0"
        "cnVlfQ",
        decoded("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q")));

    const auto ed25519 = VerifyKey::ed25519(decoded("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"));
    ASSERT_TRUE(ed25519) << ed25519.error().message;
    EXPECT_TRUE(ed25519->verifies(
        "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
        decoded("hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg")));
}

TEST(Signature, HoldsForItsKeyAndBytesOnly) {
    for (const auto kind : kKinds) {
        const SigningKey mine(kind);
        const SigningKey other(kind);
        const auto key = mine.verify_key();
        ASSERT_TRUE(key) << key.error().message;
        EXPECT_EQ(key->kind(), kind);
        const std::string signature = mine.sign("hello");
        EXPECT_TRUE(key->verifies("hello", signature));
        EXPECT_FALSE(key->verifies("hellp", signature));
        EXPECT_FALSE(key->verifies("", signature));
        EXPECT_FALSE(key->verifies("hello", other.sign("hello")));
        EXPECT_FALSE(key->verifies("hello", ""));
        EXPECT_FALSE(key->verifies("hello", std::string(signature.size(), '\0')));
        EXPECT_FALSE(key->verifies("hello", signature.substr(1)));
        EXPECT_FALSE(key->verifies("hello", signature + '\0'));
        EXPECT_EQ(ERR_peek_error(), 0U) << "nothing is left for others on this thread";
    }
}

TEST(Signature, IsOfItsKeysKindOnly) {
    for (const auto kind : kKinds) {
        for (const auto other : kKinds) {
            if (kind == other) continue;
            const auto key = SigningKey(kind).verify_key();
            EXPECT_FALSE(key->verifies("hello", SigningKey(other).sign("hello")));
        }
    }
}

TEST(Signature, WeakAndBrokenKeysAreRefused) {
    const SigningKey weak(SignatureKind::rs256, 1024);
    EXPECT_EQ(weak.verify_key().error().message, "the modulus has 1024 bits: RSA needs 2048");
    const SigningKey rsa(SignatureKind::rs256);
    const std::string zeros = std::string(200, '\0') + weak.modulus();
    EXPECT_FALSE(VerifyKey::rsa(zeros, rsa.exponent())) << "zeros in front do not make it longer";
    EXPECT_FALSE(VerifyKey::rsa("", rsa.exponent()));
    EXPECT_FALSE(VerifyKey::rsa(std::string(kMostRsaBits / 8 + 1, '\xff'), rsa.exponent()));
    std::string even = rsa.modulus();
    even.back() = '\x02';
    EXPECT_FALSE(VerifyKey::rsa(even, rsa.exponent()));
    for (const std::string exponent : {"", "\x01", "\x02", "\x01\x01\x01\x01\x01"}) {
        EXPECT_FALSE(VerifyKey::rsa(rsa.modulus(), exponent));
    }
    const SigningKey p256(SignatureKind::es256);
    EXPECT_FALSE(VerifyKey::p256(p256.x(), p256.x())) << "not on the curve";
    EXPECT_FALSE(VerifyKey::p256(std::string(32, '\0'), std::string(32, '\0')));
    EXPECT_FALSE(VerifyKey::p256(p256.x().substr(1), p256.y()));
    EXPECT_FALSE(VerifyKey::p256("", ""));
    EXPECT_FALSE(VerifyKey::ed25519(SigningKey(SignatureKind::ed25519).x().substr(1)));
    EXPECT_FALSE(VerifyKey::ed25519(""));
    EXPECT_EQ(ERR_peek_error(), 0U);
}

}  // namespace
}  // namespace deliverd
