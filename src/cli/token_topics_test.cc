// Tokens limited to topics, and the audit of reads, as the configuration and `deliverd token new` have them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/command.h"
#include "config/load.h"

namespace deliverd::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

config::LoadedConfig load_auth(const std::string& yaml) {
    return config::load_config_text(yaml, "c.yaml", {}, [](const std::string& name) {
        return name == "NOTHING" ? std::optional<std::string>("") : std::nullopt;
    });
}

/// A token of auth.tokens or of a tokens file.
std::string token_line(const std::string& topics) {
    return "{ name: a, sha256: " + std::string(64, 'a') + topics + " }";
}

config::LoadedConfig load_token(const std::string& topics) {
    return load_auth("auth: { tokens: [ " + token_line(topics) + " ] }\n");
}

struct NewToken {
    int status = 0;
    std::string out;
    std::string err;
};

NewToken new_token(const std::vector<std::string>& more) {
    std::vector<std::string> words{"token", "new", "--name", "ops", "--role", "viewer"};
    words.insert(words.end(), more.begin(), more.end());
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    const int status = run(words, Context{in, out, err, [](const std::string&) { return std::nullopt; }});
    return {status, out.str(), err.str()};
}

TEST(TokenTopics, AreReadFromTheConfiguration) {
    const auto scope = [](const std::string& topics) {
        const config::LoadedConfig loaded = load_token(topics);
        EXPECT_THAT(loaded.problems, IsEmpty()) << topics;
        return loaded.config.auth.tokens.at(0).scope;
    };
    EXPECT_FALSE(scope("").is_limited());
    EXPECT_THAT(scope(R"(, topics: ["orders.*", mail])").topics.value(), ElementsAre("orders.*", "mail"));
    EXPECT_THAT(scope(", topics: orders").topics.value(), ElementsAre("orders"));
}

TEST(TokenTopics, AnEmptyListIsNotTakenForAll) {
    for (const std::string none : {"[]", R"("")", R"([""])", R"("${NOTHING}")"}) {
        const config::LoadedConfig loaded = load_token(", topics: " + none);
        EXPECT_THAT(loaded.problems, ElementsAre(HasSubstr("auth.tokens[0].topics is empty"))) << none;
        EXPECT_FALSE(loaded.config.auth.tokens.at(0).scope.allows("orders")) << none;
    }
}

TEST(TokenTopics, APatternThatNothingMatchesIsAMistake) {
    EXPECT_THAT(load_token(R"(, topics: ["a|b"])").problems, ElementsAre(HasSubstr("no topic's name can match 'a|b'")));
    EXPECT_THAT(load_token(R"(, topics: ",")").problems, ElementsAre(HasSubstr("auth.tokens[0].topics")));
}

TEST(TokenTopics, AreReadFromATokensFileToo) {
    std::string pattern = (std::filesystem::temp_directory_path() / "deliverd-topics-XXXXXX").string();
    const std::filesystem::path folder = mkdtemp(pattern.data());
    const auto load_file = [&](const std::string& topics) {
        const std::string path = (folder / "tokens.yaml").string();
        std::ofstream(path) << "- " << token_line(topics) << "\n";
        return load_auth("auth: { tokens_file: " + path + " }");
    };
    const config::LoadedConfig loaded = load_file(", topics: [orders]");
    EXPECT_THAT(loaded.problems, IsEmpty());
    EXPECT_THAT(loaded.config.auth.file_tokens->get()->at(0).scope.topics.value(), ElementsAre("orders"));
    EXPECT_THAT(load_file(", topics: []").problems, ElementsAre(HasSubstr("topics is empty")));
    std::filesystem::remove_all(folder);
}

TEST(TokenTopics, TokenNewWritesThemIntoItsLine) {
    const NewToken made = new_token({"--topic", "orders.*", "--topic", "mail"});
    ASSERT_EQ(made.status, 0) << made.err;
    const config::LoadedConfig loaded = load_auth("auth:\n  tokens:\n    " + made.out.substr(made.out.find("- {")));
    EXPECT_THAT(loaded.problems, IsEmpty());
    EXPECT_THAT(loaded.config.auth.tokens.at(0).scope.topics.value(), ElementsAre("orders.*", "mail"));
    EXPECT_THAT(new_token({"--topic", "orders.*", "--topic", "mail", "--json"}).out,
                HasSubstr(R"("topics":["orders.*","mail"])"));
    EXPECT_EQ(new_token({}).out.find("topics"), std::string::npos);
    for (const std::string wrong : {"", "a|b", "a,b"}) {
        const NewToken refused = new_token({"--topic", wrong});
        EXPECT_EQ(refused.status, 2) << wrong;
        EXPECT_THAT(refused.err, HasSubstr("--topic"));
        EXPECT_EQ(refused.out, "");
    }
}

TEST(AuditReads, NeedsALogThatHasItsLines) {
    EXPECT_FALSE(load_auth("").config.auth.audit_reads);
    EXPECT_TRUE(load_auth("auth: { audit_reads: true }").config.auth.audit_reads);
    EXPECT_THAT(load_auth("auth: { audit_reads: true }\nlog: { level: debug }").problems, IsEmpty());
    for (const std::string level : {"warn", "error"}) {
        EXPECT_THAT(load_auth("auth: { audit_reads: true }\nlog: { level: " + level + " }").problems,
                    ElementsAre(HasSubstr("but log.level is " + level)));
        EXPECT_THAT(load_auth("log: { level: " + level + " }").problems, IsEmpty());
    }
}

}  // namespace
}  // namespace deliverd::cli
