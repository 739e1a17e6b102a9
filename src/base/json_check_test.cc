#include "base/json_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"

namespace deliverd {
namespace {

using testing::HasSubstr;
using testing::Optional;

TEST(JsonCheck, TakesEveryJsonValue) {
    for (const std::string_view text :
         {"{}", "[]", " {\"a\": [1, 2.5e-3, null, true, \"ä\\u00e4\\ud83d\\ude00\"]}\n", "1", "-0", "\"\"", "null",
          R"({"a":1,"a":2})", "123456789012345678901234567890", "1e400", "-1E-400"}) {
        EXPECT_EQ(json_problem(text, JsonKind::any), std::nullopt) << text;
    }
}

TEST(JsonCheck, NamesWhatIsWrongAndWhere) {
    EXPECT_THAT(json_problem("", JsonKind::any), Optional(HasSubstr("is not JSON: it ends too early at byte 0")));
    for (const std::string_view text :
         {"{", "{a:1}", "[1,]", "'a'", "NaN", "{\"a\":1", "\"\n\"", "// no\n1", "\"\\ud800\"", "\"\xff\""}) {
        EXPECT_THAT(json_problem(text, JsonKind::any), Optional(HasSubstr("is not JSON"))) << text;
    }
    EXPECT_THAT(json_problem("{} {}", JsonKind::any), Optional(HasSubstr("more follows the JSON value at byte 3")));
    EXPECT_THAT(json_problem("01", JsonKind::any), Optional(HasSubstr("more follows the JSON value at byte 1")));
    EXPECT_THAT(json_problem(R"({"a":"x\u0000y"})", JsonKind::any), Optional(HasSubstr("U+0000")));
    EXPECT_THAT(json_problem(R"({"\u0000":1})", JsonKind::any), Optional(HasSubstr("U+0000")));
}

TEST(JsonCheck, ObjectsOnlyWhereOneIsWanted) {
    EXPECT_EQ(json_problem(R"({"a":[{}]})", JsonKind::object), std::nullopt);
    for (const std::string_view text : {"[{}]", "1", "-1", "18446744073709551615", "1.5", "\"{}\"", "null", "true"}) {
        EXPECT_THAT(json_problem(text, JsonKind::object), Optional(HasSubstr("is not a JSON object"))) << text;
    }
}

TEST(JsonCheck, TheNestingIsBounded) {
    const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
    EXPECT_EQ(json_problem(nested(kMaxJsonDepth), JsonKind::any), std::nullopt);
    EXPECT_THAT(json_problem(nested(kMaxJsonDepth + 1), JsonKind::any), Optional(HasSubstr("deeper than 512")));
    EXPECT_THAT(json_problem(std::string(1'000'000, '['), JsonKind::any), Optional(HasSubstr("deeper than 512")));
}

TEST(JsonCheck, NumbersThatAreShortOnlyWithTheirExponents) {
    for (const std::string_view text :
         {"1", R"({"a":1.5e3,"b":[1E-20,2e+300]})", "1e65536", "-1E-65536", "123456789012345678901234567890",
          R"({"id":"deadbeef1e999999","1e99999":[true,"0E70000"]})"}) {
        EXPECT_TRUE(is_compact_json(text)) << text;
    }
    std::string many = "[0";
    for (int i = 0; i < 3; ++i) many += ",1e30000";
    for (const std::string& text :
         {std::string("1e65537"), std::string("[1E+9999999]"), many + "]", std::string("{")}) {
        EXPECT_FALSE(is_compact_json(text)) << text;
    }
}

}  // namespace
}  // namespace deliverd
