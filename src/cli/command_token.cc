#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstring>

#include "base/sha256.h"
#include "base/text.h"
#include "cli/command_tree.h"
#include "deadletter/topic_pattern.h"

namespace deliverd::cli {

namespace {

struct TokenArguments {
    std::string name;
    std::string role;
    std::vector<std::string> topics;
};

constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kMaxTokenNameBytes = 64;

/// What needs no quotes in YAML, in logs and in the audit.
bool is_token_name(std::string_view name) {
    const auto fits = [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; };
    return !name.empty() && name.size() <= kMaxTokenNameBytes && std::ranges::all_of(name, fits);
}

Status make_token(const Call& call, const TokenArguments& asked) {
    if (!is_token_name(asked.name)) {
        return bad_argument(
            fmt::format("--name must be 1 to {} letters, digits, '-', '_' and '.'", kMaxTokenNameBytes));
    }
    for (const std::string& pattern : asked.topics) {
        if (auto ok = deadletter::check_topic_pattern(pattern); !ok) {
            return bad_argument(fmt::format("--topic: {}", ok.error().message));
        }
    }
    // Straight from the kernel: base/random.h is not made for secrets.
    std::string bytes(kTokenBytes, '\0');
    if (getentropy(bytes.data(), bytes.size()) != 0) {
        return failed("the system gives no random bytes: {}", std::strerror(errno));
    }
    // The prefix lets scanners for leaked secrets recognise a token.
    const std::string token = "dlv_" + hex_text(bytes);
    // Only the hash is configured: whoever reads the configuration cannot use it. A random token needs no slow hash.
    const std::string sha256 = sha256_hex(token);
    if (call.json) {
        boost::json::object object{{"token", token}, {"name", asked.name}, {"role", asked.role}, {"sha256", sha256}};
        if (!asked.topics.empty()) object["topics"] = boost::json::value_from(asked.topics);
        return call.print_line(boost::json::serialize(object));
    }
    // Quoted: a pattern may begin with "*", which YAML reads as an alias.
    const std::string topics =
        asked.topics.empty() ? "" : fmt::format(", topics: [\"{}\"]", fmt::join(asked.topics, "\", \""));
    call.print(
        "# The token, shown this once; callers send it as 'Authorization: Bearer …':\n{}\n"
        "# Its line for auth.tokens or auth.tokens_file:\n- {{ name: \"{}\", role: {}, sha256: \"{}\"{} }}\n",
        token, asked.name, asked.role, sha256, topics);
    return kDone;
}

}  // namespace

void add_token(CommandTree& tree) {
    const auto token = std::make_shared<TokenArguments>();
    CLI::App* group =
        tree.group("token", "Make tokens for the API", "Examples:\n  deliverd token new --name ops --role operator");
    CLI::App* app = tree.add(
        group,
        {"new", "Make a random token and its line for the configuration",
         "  deliverd token new --name ops --role operator\n"
         "  deliverd token new --name orders-team --role operator --topic 'orders.*'\n"
         "The token is shown only once; the configuration has only its SHA-256.",
         "an object: token, name, role, sha256, with --topic also topics"},
        [token](const Call& call) { return make_token(call, *token); }, Needs::nothing);
    app->add_option("--name", token->name, "its owner's name, for logs and the audit")->required();
    text(app, "--role ROLE", token->role, "viewer, operator or admin", {"viewer", "operator", "admin"})->required();
    text(app, "--topic PATTERN", token->topics,
         "a topic it may see and act on, a name or a pattern with * and ?; may be repeated")
        ->expected(1)
        ->take_all();
}

}  // namespace deliverd::cli
