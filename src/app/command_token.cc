#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>

#include "app/command.h"
#include "base/sha256.h"
#include "deadletter/topic_pattern.h"

namespace deliverd::app {

namespace {

constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kMaxTokenNameBytes = 64;

/// What needs no quotes in YAML, in logs and in the audit.
bool is_token_name(std::string_view name) {
    const auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
               c == '.';
    };
    return !name.empty() && name.size() <= kMaxTokenNameBytes && std::ranges::all_of(name, fits);
}

}  // namespace

int run_token_new(const Context& context, const Arguments& arguments) {
    const TokenArguments& asked = arguments.token;
    if (!is_token_name(asked.name)) {
        return complain(context, kWrongUsage,
                        fmt::format("--name must be 1 to {} letters, digits, '-', '_' and '.'", kMaxTokenNameBytes));
    }
    for (const std::string& pattern : asked.topics) {
        if (auto ok = deadletter::check_topic_pattern(pattern); !ok) {
            return complain(context, kWrongUsage, fmt::format("--topic: {}", ok.error().message));
        }
    }
    std::array<unsigned char, kTokenBytes> bytes{};
    if (getentropy(bytes.data(), bytes.size()) != 0) {
        return complain(context, kFailed, fmt::format("the system gives no random bytes: {}", std::strerror(errno)));
    }
    std::string token = "dlv_";
    for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
    const std::string sha256 = sha256_hex(token);
    if (arguments.json) {
        boost::json::object object{{"token", token}, {"name", asked.name}, {"role", asked.role}, {"sha256", sha256}};
        if (!asked.topics.empty()) object["topics"] = boost::json::value_from(asked.topics);
        context.out << boost::json::serialize(object) << "\n";
        return kDone;
    }
    const std::string topics =
        asked.topics.empty() ? "" : fmt::format(", topics: [\"{}\"]", fmt::join(asked.topics, "\", \""));
    context.out << fmt::format(
        "# The token, shown this once; callers send it as 'Authorization: Bearer …':\n{}\n"
        "# Its line for auth.tokens or auth.tokens_file:\n- {{ name: \"{}\", role: {}, sha256: \"{}\"{} }}\n",
        token, asked.name, asked.role, sha256, topics);
    return kDone;
}

}  // namespace deliverd::app
