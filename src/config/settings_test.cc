#include "config/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "config/values.h"

namespace deliverd::config {
namespace {

constexpr std::string_view kBegin = "<!-- settings: begin -->\n";
constexpr std::string_view kEnd = "<!-- settings: end -->\n";

std::string documentation() {
    const auto path = std::filesystem::path(DELIVERD_SOURCE_DIR) / "docs" / "configuration.md";
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(Settings, EveryPathStandsOnce) {
    std::set<std::string_view> seen;
    for (const Setting& setting : settings()) EXPECT_TRUE(seen.insert(setting.path).second) << setting.path;
}

TEST(Settings, EveryDefaultIsAValueTheReaderWouldTake) {
    for (const Setting& setting : settings()) {
        if (setting.fallback.empty()) continue;
        EXPECT_EQ(check_text(setting, setting.path, setting.fallback), "") << setting.path;
    }
}

TEST(Settings, EverySettingIsDocumentedInOneLine) {
    for (const Setting& setting : settings()) {
        EXPECT_FALSE(setting.doc.empty()) << setting.path;
        EXPECT_EQ(setting.doc.find_first_of("\n|"), std::string_view::npos) << setting.path;
    }
}

TEST(Settings, EachFillsAFieldButThoseThatAreSaidToHaveNoEffect) {
    std::vector<std::string> without;
    for (const Setting& setting : settings()) {
        if (!setting.fill) without.push_back(setting.path);
    }
    EXPECT_EQ(without, (std::vector<std::string>{"app.version", "database.max_idle_conns", "database.conn_max_lifetime",
                                                 "lanes.*.relay"}));
}

TEST(Settings, ADefaultIsThatOfTheLanesOutboxOrSink) {
    const Setting* batch = find_setting("lanes.*.batch_size");
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->fallback_for("memory", "http"), "100");
    EXPECT_EQ(batch->fallback_for("orders", "http"), "32");
    EXPECT_EQ(find_setting("lanes.*.sink.timeout_ms")->fallback_for("events", "kafka"), "10000");
    EXPECT_FALSE(find_setting("lanes.*.shards")->applies("memory", "http"));
    EXPECT_TRUE(find_setting("lanes.*.shards")->applies("", ""));
}

TEST(Settings, NamesOfASectionIncludeTheFileFormsOfSecrets) {
    const auto names = names_in("database");
    EXPECT_NE(std::ranges::find(names, "password"), names.end());
    EXPECT_NE(std::ranges::find(names, "password_file"), names.end());
    EXPECT_EQ(std::ranges::find(names, "host_file"), names.end());
    EXPECT_EQ(names_in("lanes"), std::vector<std::string>{"*"});
}

TEST(Settings, PatternsOfConcretePaths) {
    EXPECT_EQ(pattern_of("server.port"), "server.port");
    EXPECT_EQ(pattern_of("lanes.memories.retry.max"), "lanes.*.retry.max");
    EXPECT_EQ(pattern_of("auth.tokens[3].role"), "auth.tokens[].role");
    EXPECT_EQ(pattern_of("lanes.m.sink.headers.X-Team"), "lanes.*.sink.headers");
}

TEST(Settings, TheDocumentationHoldsTheTablesOfThisProgram) {
    const std::string text = documentation();
    const std::size_t begin = text.find(kBegin);
    const std::size_t end = text.find(kEnd);
    ASSERT_NE(begin, std::string::npos) << "docs/configuration.md has lost its markers";
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(text.substr(begin + kBegin.size(), end - begin - kBegin.size()), "\n" + settings_markdown())
        << "put the output of `deliverd config docs` between the markers of docs/configuration.md";
}

}  // namespace
}  // namespace deliverd::config
