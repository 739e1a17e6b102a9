#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <regex>

#include "deadletter/topic_pattern.h"

namespace deliverd::deadletter {
namespace {

using testing::HasSubstr;

bool matches(std::string_view pattern, const std::string& name) {
    return std::regex_search(name, std::regex(subscription_of(pattern)));
}

TEST(TopicPattern, IsOfWholeNames) {
    EXPECT_EQ(subscription_of("*.dlq.v1"), R"(^.*\.dlq\.v1$)");
    EXPECT_TRUE(matches("*.dlq.v1", "k1s0.system.auth.login.v1.dlq.v1"));
    EXPECT_FALSE(matches("*.dlq.v1", "orders.dlq.v10"));
    EXPECT_FALSE(matches("*.dlq.v1", "orders.dlq-v1"));
    EXPECT_FALSE(matches("dlq", "a.dlq.b"));
    EXPECT_TRUE(matches("orders-?.dlq", "orders-1.dlq"));
    EXPECT_FALSE(matches("orders-?.dlq", "orders-.dlq"));
    EXPECT_FALSE(matches("orders-?.dlq", "orders-12.dlq"));
}

TEST(TopicPattern, WhatMeansSomethingToARegexIsItself) {
    const std::string all = R"(a.b[c]d{1}e(f)g\h+i^j$k|l)";
    EXPECT_TRUE(matches(all, all));
    EXPECT_FALSE(matches("a.b", "axb"));
    EXPECT_FALSE(matches("a|b", "a"));
}

/// What a pattern means, in the plainest way there is.
bool fits(std::string_view pattern, std::string_view name) {
    if (pattern.empty()) return name.empty();
    if (pattern[0] == '*') return fits(pattern.substr(1), name) || (!name.empty() && fits(pattern, name.substr(1)));
    if (name.empty()) return false;
    return (pattern[0] == '?' || pattern[0] == name[0]) && fits(pattern.substr(1), name.substr(1));
}

RC_GTEST_PROP(TopicPattern, MatchesAsAShellWould, ()) {
    constexpr std::size_t kLongest = 11;  // fits() takes its time
    const auto some = [](const char* letters) {
        const auto any = rc::gen::container<std::string>(rc::gen::elementOf(std::string(letters)));
        return (*any).substr(0, kLongest);
    };
    const std::string pattern = some("ab.*?");
    const std::string name = some("ab.");
    RC_ASSERT(matches(pattern, name) == fits(pattern, name));
}

TEST(TopicPattern, OneThatNothingCanMatchIsRefused) {
    EXPECT_TRUE(check_topic_pattern("*.dlq.v1"));
    EXPECT_TRUE(check_topic_pattern("a_B-9.?"));
    for (const char* bad : {"", "a b", "a/b", "^a", "a,b", "\xc3\xa9"}) {
        const auto checked = check_topic_pattern(bad);
        ASSERT_FALSE(checked) << bad;
        EXPECT_EQ(checked.error().error_class, ErrorClass::permanent);
    }
    EXPECT_THAT(check_topic_pattern("a,b").error().message, HasSubstr("'a,b'"));
}

}  // namespace
}  // namespace deliverd::deadletter
