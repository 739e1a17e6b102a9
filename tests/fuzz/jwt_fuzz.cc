// Any text as a bearer token, as a key set, and as the header (first line) and claims (the rest) of a token that our
// key signed. An unsigned token is never accepted, and an accepted token names its bearer in one line.
#include <chrono>
#include <string>
#include <string_view>

#include "api/jwt.h"
#include "api/testing/token_maker.h"
#include "base/testing/signing_key.h"
#include "base/text.h"
#include "require.h"

namespace deliverd::fuzz {
namespace {

constexpr WallTime kNow{std::chrono::seconds(1'800'000'000)};

struct Provider {
    SigningKey key{SignatureKind::ed25519};
    api::JwtKeySet keys = api::parse_jwks(api::jwks_of({api::jwk_of(key, "k")})).value();
    api::JwtRules rules{"i", "a", "r.s"};
};

void check_key_set(std::string_view text) {
    const auto set = api::parse_jwks(text);
    if (!set) return require(!set.error().message.empty(), "a refusal says why");
    require(set->keys.size() + set->left_out.size() <= api::kMaxJwksKeys, "keys are bounded");
}

void check_signed(std::string_view text, const Provider& provider) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string token =
        api::signed_token(provider.key, text.substr(0, end), text.substr(std::min(end + 1, text.size())));
    const auto claims = api::verify_jwt(token, provider.keys, provider.rules, kNow);
    if (!claims) return require(claims.error().code.starts_with("jwt_"), "a refusal has its reason");
    require(!claims->subject.empty() && claims->subject.size() <= api::kMaxSubjectBytes &&
                one_line(claims->subject) == claims->subject,
            "a bearer's name is one line of a bounded size");
    require(text.substr(0, end).find("EdDSA") != std::string_view::npos, "the algorithm is the key's");
}

}  // namespace
}  // namespace deliverd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace deliverd;
    static const fuzz::Provider provider;
    const std::string_view text = fuzz::text_of(data, size);
    fuzz::require(!api::verify_jwt(text, provider.keys, provider.rules, fuzz::kNow), "an unsigned token is refused");
    fuzz::check_key_set(text);
    fuzz::check_signed(text, provider);
    return 0;
}
