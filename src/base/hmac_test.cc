#include "base/hmac.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/text.h"

namespace deliverd {
namespace {

TEST(Hmac, AnswersTheVectorsOfRfc4231) {
    EXPECT_EQ(hex_text(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    EXPECT_EQ(hex_text(hmac_sha256("Jefe", "what do ya want for nothing?")),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_EQ(hex_text(hmac_sha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
              "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    EXPECT_EQ(hex_text(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Base64, AnswersTheVectorsOfRfc4648) {
    const std::pair<std::string_view, std::string_view> vectors[] = {{"", ""},
                                                                     {"f", "Zg=="},
                                                                     {"fo", "Zm8="},
                                                                     {"foo", "Zm9v"},
                                                                     {"foob", "Zm9vYg=="},
                                                                     {"fooba", "Zm9vYmE="},
                                                                     {"foobar", "Zm9vYmFy"}};
    for (const auto& [bytes, text] : vectors) {
        EXPECT_EQ(base64_encoded(bytes), text);
        EXPECT_EQ(base64_decoded(text), bytes);
    }
}

TEST(Base64, RefusesWhatIsNotExactlyThat) {
    for (const auto* text : {"Zg", "Zg=", "Zh==", "Zm9=", "Zm9v\n", " Zm9v", "Zm9v    ", "Zm-v", "Z===", "====", "=Zm9",
                             "Zg==Zg==", "Zm9vé"}) {
        EXPECT_EQ(base64_decoded(text), std::nullopt) << text;
    }
}

TEST(Base64, OfUrlsHasNoPadding) {
    EXPECT_EQ(base64url_decoded(""), "");
    EXPECT_EQ(base64url_decoded("Zg"), "f");
    EXPECT_EQ(base64url_decoded("Zm8"), "fo");
    EXPECT_EQ(base64url_decoded("-_-_"), "\xfb\xff\xbf");
    for (const auto* text : {"Zg==", "Zh", "Zm9", "Z", "+/+/", "Zm9v\n", " Zm9v", "Zm9vZ", "Zm.v", "Zm9v="}) {
        EXPECT_EQ(base64url_decoded(text), std::nullopt) << text;
    }
}

RC_GTEST_PROP(Base64, ComesBackAsItWas, (const std::string& bytes)) {
    RC_ASSERT(base64_decoded(base64_encoded(bytes)) == bytes);
}

}  // namespace
}  // namespace deliverd
