#include "base/canonical_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "base/json_text.h"

namespace deliverd {
namespace {

std::string canonical(std::string_view json) {
    const auto result = canonical_json(json);
    return result ? *result : "refused: " + result.error().message;
}

std::string refusal_code(std::string_view json) {
    const auto result = canonical_json(json);
    if (result) return "accepted as " + *result;
    EXPECT_EQ(result.error().error_class, ErrorClass::permanent);
    EXPECT_THAT(result.error().message, testing::HasSubstr(" at byte "));
    return result.error().code;
}

// RFC 8785, Appendix B: IEEE 754 bits and their JSON representation.
TEST(CanonicalJson, AppendixBNumbers) {
    const std::vector<std::pair<std::uint64_t, std::string>> samples = {
        {0x0000000000000000, "0"},
        {0x8000000000000000, "0"},
        {0x0000000000000001, "5e-324"},
        {0x8000000000000001, "-5e-324"},
        {0x7fefffffffffffff, "1.7976931348623157e+308"},
        {0xffefffffffffffff, "-1.7976931348623157e+308"},
        {0x4340000000000000, "9007199254740992"},
        {0xc340000000000000, "-9007199254740992"},
        {0x4430000000000000, "295147905179352830000"},
        {0x44b52d02c7e14af5, "9.999999999999997e+22"},
        {0x44b52d02c7e14af6, "1e+23"},
        {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
        {0x444b1ae4d6e2ef4e, "999999999999999700000"},
        {0x444b1ae4d6e2ef4f, "999999999999999900000"},
        {0x444b1ae4d6e2ef50, "1e+21"},
        {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
        {0x3eb0c6f7a0b5ed8d, "0.000001"},
        {0x41b3de4355555553, "333333333.3333332"},
        {0x41b3de4355555554, "333333333.33333325"},
        {0x41b3de4355555555, "333333333.3333333"},
        {0x41b3de4355555556, "333333333.3333334"},
        {0x41b3de4355555557, "333333333.33333343"},
        {0xbecbf647612f3696, "-0.0000033333333333333333"},
        {0x43143ff3c1cb0959, "1424953923781206.2"},
    };
    for (const auto& [bits, text] : samples) {
        EXPECT_EQ(ecmascript_number(std::bit_cast<double>(bits)), text);
        EXPECT_EQ(canonical(text), text);
    }
}

TEST(CanonicalJson, NumbersBecomeEcmascriptNumbers) {
    EXPECT_EQ(canonical("1E30"), "1e+30");
    EXPECT_EQ(canonical("4.50"), "4.5");
    EXPECT_EQ(canonical("2e-3"), "0.002");
    EXPECT_EQ(canonical("0.000000000000000000000000001"), "1e-27");
    EXPECT_EQ(canonical("-0"), "0");
    EXPECT_EQ(canonical("100e-2"), "1");
}

// RFC 8785, 3.2.2 and 3.2.3: the sample object in and out.
TEST(CanonicalJson, SampleObject) {
    const std::string_view input = R"({
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
})";
    EXPECT_EQ(canonical(input),
              "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
              "\"string\":\"\u20ac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

// RFC 8785, 3.2.3: sorted by UTF-16 code units, so the smiley (D83D …) comes before U+FB33.
TEST(CanonicalJson, SortsKeysByUtf16CodeUnits) {
    const std::string_view input = R"({
  "\u20ac": "Euro Sign",
  "\r": "Carriage Return",
  "\ufb33": "Hebrew Letter Dalet With Dagesh",
  "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face",
  "\u0080": "Control",
  "\u00f6": "Latin Small Letter O With Diaeresis"
})";
    EXPECT_EQ(canonical(input),
              "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\","
              "\"\u00f6\":\"Latin Small Letter O With Diaeresis\",\"\u20ac\":\"Euro Sign\","
              "\"\U0001F600\":\"Emoji: Grinning Face\",\"\uFB33\":\"Hebrew Letter Dalet With Dagesh\"}");
}

TEST(CanonicalJson, SortsNestedObjectsAndKeepsArrays) {
    EXPECT_EQ(canonical(R"( {"b":[3,1,{"z":1,"a":2}],"a":{"d":[],"c":{}}} )"),
              R"({"a":{"c":{},"d":[]},"b":[3,1,{"a":2,"z":1}]})");
}

TEST(CanonicalJson, EscapesOnlyWhatMustBeEscaped) {
    EXPECT_EQ(canonical(R"("\b\t\n\f\r\u0001\u001f\u007f\u00e9\/")"), "\"\\b\\t\\n\\f\\r\\u0001\\u001f\x7f\u00e9/\"");
}

TEST(CanonicalJson, RefusesDuplicateKeys) {
    EXPECT_EQ(refusal_code(R"({"a":1,"a":2})"), "json_duplicate_key");
    EXPECT_EQ(refusal_code(R"({"a":1,"b":2,"\u0061":3})"), "json_duplicate_key");
    EXPECT_EQ(refusal_code(R"([{"x":{"k":1,"k":1}}])"), "json_duplicate_key");
    EXPECT_EQ(canonical(R"([{"a":1},{"a":2}])"), R"([{"a":1},{"a":2}])");
}

TEST(CanonicalJson, DepthHasALimit) {
    const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
    EXPECT_EQ(canonical(nested(kMaxJsonDepth)), nested(kMaxJsonDepth));
    EXPECT_EQ(refusal_code(nested(kMaxJsonDepth + 1)), "bad_json");
    EXPECT_EQ(refusal_code(nested(10'000)), "bad_json");
    EXPECT_EQ(refusal_code(std::string(10'000, '[')), "bad_json");
    std::string objects;
    for (int i = 0; i < 10'000; ++i) objects += "{\"a\":";
    EXPECT_EQ(refusal_code(objects), "bad_json");
}

TEST(CanonicalJson, BesideIsNotDeeper) {
    std::string many = "[";
    for (int i = 0; i < 1000; ++i) many += i == 0 ? "[[]]" : ",[[]]";
    many += "]";
    EXPECT_EQ(canonical(many), many);
}

TEST(CanonicalJson, RefusesNumbersBeyondADouble) {
    for (const std::string_view text : {"1e400", "-1e400", "1e-400", "NaN", "Infinity", "-Infinity", "nan", "inf"}) {
        EXPECT_EQ(refusal_code(text), "bad_json") << text;
    }
}

TEST(CanonicalJson, RefusesWhatIsNotJson) {
    for (const std::string_view text : {"",          " ",
                                        "{",         "[",
                                        "[1",        "[1,",
                                        "[1,]",      "{\"a\"}",
                                        "{\"a\":}",  "{\"a\":1,}",
                                        "{a:1}",     "{1:2}",
                                        "tru",       "nul",
                                        "truefalse", "1 2",
                                        "01",        "-",
                                        "+1",        "1.",
                                        ".5",        "1e",
                                        "1e+",       "0x10",
                                        "'a'",       "\"a",
                                        "\"\\x\"",   "\"\\",
                                        "\"\\u12\"", "\"\\u12G4\"",
                                        "\"a\nb\"",  "]",
                                        "//",        "\xEF\xBB\xBF{}"}) {
        EXPECT_EQ(refusal_code(text), "bad_json") << text;
    }
    EXPECT_EQ(refusal_code(std::string_view("1\0", 2)), "bad_json");
    EXPECT_EQ(refusal_code(std::string_view("\0", 1)), "bad_json");
    EXPECT_EQ(refusal_code(std::string_view("[1,\0]", 5)), "bad_json");
}

TEST(CanonicalJson, RefusesBrokenUnicode) {
    for (const std::string_view text :
         {"\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"", R"("\ud800")",
          R"("\udc00")", R"("\ud800\ud800")", R"("\ud800x")", R"("\ud83d\n")"}) {
        EXPECT_EQ(refusal_code(text), "bad_json") << text;
    }
}

TEST(CanonicalJson, ErrorNamesTheByte) {
    EXPECT_THAT(canonical_json("[1, x]").error().message, testing::HasSubstr("at byte 4"));
    EXPECT_THAT(canonical_json("\"ab\xff\"").error().message, testing::HasSubstr("at byte 3"));
}

TEST(CanonicalMembers, AreTheTextAsWrittenInItsOrder) {
    const std::string text = "\n{ \"b\" : 1.50 , \"\\u0061\":{\"y\": 1,\"x\":[ ]},\"c\":\"\\u00e9\" } ";
    const auto members = canonical_members(text);
    ASSERT_TRUE(members.has_value()) << members.error().message;
    ASSERT_EQ(members->size(), 3U);
    const std::vector<std::array<std::string, 3>> expected = {
        {"b", "1.50", "1.5"}, {"a", R"({"y": 1,"x":[ ]})", R"({"x":[],"y":1})"}, {"c", R"("\u00e9")", "\"\u00e9\""}};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ((*members)[i].key, expected[i][0]);
        EXPECT_EQ((*members)[i].value, expected[i][1]);
        EXPECT_EQ((*members)[i].canonical, expected[i][2]);
    }
    EXPECT_EQ(canonical_object(*members), canonical(text));
    EXPECT_EQ(canonical_object({}), "{}");
    EXPECT_EQ(canonical_members("{}")->size(), 0U);
}

TEST(CanonicalMembers, OnlyAMemberItselfMayBeANumberNoDoubleHolds) {
    const auto members = canonical_members(R"({"big":1e400,"tiny":-1e-400,"fine":1e300})");
    ASSERT_TRUE(members.has_value());
    EXPECT_EQ((*members)[0].value, "1e400");
    EXPECT_EQ((*members)[0].canonical, "");
    EXPECT_EQ((*members)[1].canonical, "");
    EXPECT_EQ((*members)[2].canonical, "1e+300");
    EXPECT_EQ(canonical_members(R"({"a":[1e400]})").error().code, "bad_json");
    EXPECT_EQ(canonical_members(R"({"a":{"b":1e400}})").error().code, "bad_json");
}

TEST(CanonicalMembers, RefusesWhatIsNotOneObject) {
    for (const std::string_view text :
         {"", " ", "[]", "1", "null", "\"a\"", "{", "{}{}", "{} x", "{\"a\":1,}", "{\"a\":\xff}"}) {
        const auto members = canonical_members(text);
        ASSERT_FALSE(members.has_value()) << text;
        EXPECT_EQ(members.error().code, "bad_json") << text;
    }
    EXPECT_EQ(canonical_members(R"({"a":1,"\u0061":2})").error().code, "json_duplicate_key");
    const auto nested = [](std::size_t levels) {
        return "{\"a\":" + std::string(levels, '[') + std::string(levels, ']') + "}";
    };
    EXPECT_TRUE(canonical_members(nested(kMaxJsonDepth - 1)).has_value());
    EXPECT_FALSE(canonical_members(nested(kMaxJsonDepth)).has_value());
}

// A JSON text of up to `depth` levels; keys are made different by their position.
rc::Gen<std::string> json_text(int depth) {
    auto scalar =
        rc::gen::oneOf(rc::gen::element<std::string>("null", "true", "false", "1E5", "-0.0", "\"\\u00e9\\n\""),
                       rc::gen::map(rc::gen::arbitrary<int>(), [](int i) { return std::to_string(i); }),
                       rc::gen::map(rc::gen::string<std::string>(), [](std::string text) {
                           std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
                           std::string out;
                           append_json_string(out, text);
                           return out;
                       }));
    if (depth == 0) return scalar;
    const auto children =
        rc::gen::container<std::vector<std::string>>(rc::gen::lazy([depth] { return json_text(depth - 1); }));
    const auto join = [](const std::vector<std::string>& parts, bool object) {
        std::string out(object ? "{ " : "[ ");
        for (std::size_t i = 0; i < parts.size() && i < 6; ++i) {
            if (i > 0) out += " ,";
            if (object) out += "\"k" + std::to_string((i * 7) % 11) + "\": ";
            out += parts[i];
        }
        return out + (object ? "}" : "]");
    };
    return rc::gen::oneOf(scalar, rc::gen::map(children, [join](const auto& parts) { return join(parts, true); }),
                          rc::gen::map(children, [join](const auto& parts) { return join(parts, false); }));
}

RC_GTEST_PROP(CanonicalJsonProperty, IsIdempotent, ()) {
    const std::string text = *json_text(3);
    const auto once = canonical_json(text);
    RC_ASSERT(once.has_value());
    RC_ASSERT(canonical(*once) == *once);
}

std::u16string to_utf16(const std::vector<char32_t>& text) {
    std::u16string out;
    for (const char32_t c : text) {
        if (c < 0x10000) {
            out.push_back(static_cast<char16_t>(c));
        } else {
            out.push_back(static_cast<char16_t>(0xD800 + ((c - 0x10000) >> 10U)));
            out.push_back(static_cast<char16_t>(0xDC00 + ((c - 0x10000) & 0x3FFU)));
        }
    }
    return out;
}

std::string escaped(const std::u16string& text) {
    std::string out = "\"";
    for (const char16_t unit : text) {
        std::array<char, 8> buffer{};
        std::snprintf(buffer.data(), buffer.size(), "\\u%04x", static_cast<unsigned>(unit));
        out += buffer.data();
    }
    return out + "\"";
}

RC_GTEST_PROP(CanonicalJsonProperty, KeyOrderIsUtf16Order, ()) {
    const auto character = rc::gen::map(
        rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0x20, 0xD800), rc::gen::inRange<std::uint32_t>(0xE000, 0x10000),
                       rc::gen::inRange<std::uint32_t>(0x10000, 0x110000)),
        [](std::uint32_t c) { return static_cast<char32_t>(c); });
    const auto word = rc::gen::container<std::vector<char32_t>>(character);
    const std::u16string a = to_utf16(*word);
    const std::u16string b = to_utf16(*word);
    RC_PRE(a != b);
    const std::string text = canonical("{" + escaped(a) + ":1," + escaped(b) + ":2}");
    // The key that came last carries the value that stands at the end.
    RC_ASSERT(text.ends_with(a < b ? ":2}" : ":1}"));
}

RC_GTEST_PROP(CanonicalJsonProperty, NumbersRoundTrip, (std::uint64_t bits)) {
    const auto value = std::bit_cast<double>(bits);
    RC_PRE(std::isfinite(value));
    const std::string text = ecmascript_number(value);
    double back = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), back);
    RC_ASSERT(read.ec == std::errc() && read.ptr == text.data() + text.size());
    RC_ASSERT(back == value);
    RC_ASSERT(canonical(text) == text);
}

RC_GTEST_PROP(CanonicalJsonProperty, AnyBytesAreAnsweredNotCrashedOn, (const std::string& bytes)) {
    const auto once = canonical_json(bytes);
    if (once) RC_ASSERT(canonical(*once) == *once);
}

}  // namespace
}  // namespace deliverd
