#include "base/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>
#include <string>

namespace deliverd {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

constexpr std::string_view kNames[] = {"{", "}", "[", "]", "key", "string", "number", "literal"};

/// One line per event: depth, token, raw, and the text of keys and strings.
std::string events_of(std::string_view json, LoneSurrogates lone = LoneSurrogates::refuse) {
    std::string lines;
    const auto note = [&lines](const JsonEvent& event) -> Result<void> {
        lines += std::to_string(event.depth) + " " + std::string(kNames[static_cast<std::size_t>(event.token)]) + " " +
                 std::string(event.raw);
        if (event.token == JsonToken::key || event.token == JsonToken::string) lines += " " + std::string(event.text);
        lines += "\n";
        return {};
    };
    const auto read = read_json(json, note, lone);
    return read ? lines : lines + "refused: " + read.error().message + "\n";
}

TEST(JsonReader, EveryEventHasItsPlaceAndItsText) {
    EXPECT_EQ(events_of(" { \"a\\n\" : [ 1.50 ,\"x\\\\\\\"\", true ] ,\"b\":{\"c\":null},\"d\":\"\" } \n"),
              "0 { {\n"
              "1 key \"a\\n\" a\n\n"
              "1 [ [\n"
              "2 number 1.50\n"
              "2 string \"x\\\\\\\"\" x\\\"\n"
              "2 literal true\n"
              "1 ] [ 1.50 ,\"x\\\\\\\"\", true ]\n"
              "1 key \"b\" b\n"
              "1 { {\n"
              "2 key \"c\" c\n"
              "2 literal null\n"
              "1 } {\"c\":null}\n"
              "1 key \"d\" d\n"
              "1 string \"\" \n"
              "0 } { \"a\\n\" : [ 1.50 ,\"x\\\\\\\"\", true ] ,\"b\":{\"c\":null},\"d\":\"\" }\n");
    EXPECT_EQ(events_of("false"), "0 literal false\n");
    EXPECT_EQ(events_of(" -0 "), "0 number -0\n");
}

TEST(JsonReader, ARefusalSaysWhyAndWhere) {
    EXPECT_EQ(events_of(""), "refused: it ends too early at byte 0\n");
    EXPECT_THAT(events_of("[1,"), EndsWith("refused: it ends too early at byte 3\n"));
    EXPECT_THAT(events_of("[1, x]"), EndsWith("refused: unexpected 'x' at byte 4\n"));
    EXPECT_THAT(events_of("\"a\nb\""), EndsWith("refused: unexpected byte 0x0A at byte 2\n"));
    EXPECT_THAT(events_of("1 2"), EndsWith("refused: more follows the JSON value at byte 2\n"));
    EXPECT_THAT(events_of("[\"ab\xff\"]"), EndsWith("refused: not UTF-8 at byte 4\n"));
    EXPECT_THAT(events_of(R"("\u12G4")"), EndsWith("refused: \\u without four hex digits at byte 5\n"));
    EXPECT_THAT(events_of(R"(["\ud800"])"), HasSubstr("refused: half of a surrogate pair at byte"));
    EXPECT_THAT(events_of(R"("\udc00")"), HasSubstr("refused: half of a surrogate pair at byte"));
}

TEST(JsonReader, TheNestingIsBounded) {
    const auto nested = [](std::size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); };
    EXPECT_TRUE(is_json(nested(kMaxJsonDepth)));
    EXPECT_THAT(events_of(nested(kMaxJsonDepth + 1)), EndsWith("refused: nested deeper than 512 levels at byte 512\n"));
}

TEST(JsonReader, TheListenersFailureEndsTheReadingAtItsToken) {
    std::size_t heard = 0;
    const auto stop = [&heard](const JsonEvent& event) -> Result<void> {
        ++heard;
        if (event.raw == "2") return ambiguous("mine", "no twos");
        return {};
    };
    const auto read = read_json("[1,  2, 3]", stop);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, "no twos at byte 5");
    EXPECT_EQ(read.error().code, "mine");
    EXPECT_EQ(read.error().error_class, ErrorClass::ambiguous);
    EXPECT_EQ(heard, 3U);
}

TEST(JsonReader, HalvesOfSurrogatePairsAreReplacedWhereThatIsWanted) {
    const auto replaced = [](std::string_view json) { return events_of(json, LoneSurrogates::replace); };
    EXPECT_EQ(replaced(R"(["\ud83d\ude00","\ud800x","\udc00\ud800","\\ud800",1])"),
              "0 [ [\n"
              "1 string \"\\ud83d\\ude00\" \U0001F600\n"
              "1 string \"\\ud800x\" \uFFFDx\n"
              "1 string \"\\udc00\\ud800\" \uFFFD\uFFFD\n"
              "1 string \"\\\\ud800\" \\ud800\n"
              "1 number 1\n"
              "0 ] [\"\\ud83d\\ude00\",\"\\ud800x\",\"\\udc00\\ud800\",\"\\\\ud800\",1]\n");
    EXPECT_EQ(replaced(R"({"\ud800\ud83d\ude00":0})"),
              "0 { {\n1 key \"\\ud800\\ud83d\\ude00\" \uFFFD\U0001F600\n1 number 0\n"
              "0 } {\"\\ud800\\ud83d\\ude00\":0}\n");
    EXPECT_THAT(replaced("[\"\\ud800\",}"), HasSubstr("refused: unexpected '}' at byte 10"));
}

TEST(JsonReader, NumbersMayHaveAnySize) {
    const std::string digits(400, '7');
    for (const std::string& number : {std::string("1e400"), std::string("-1E-99999999999"), digits, "0." + digits,
                                      "1e" + digits, std::string("1e+2147483647")}) {
        EXPECT_EQ(events_of("[\"1e99999999999\"," + number + "]"),
                  "0 [ [\n1 string \"1e99999999999\" 1e99999999999\n1 number " + number + "\n0 ] [\"1e99999999999\"," +
                      number + "]\n");
    }
}

TEST(JsonReader, MembersAreAsWritten) {
    const std::string text = R"( {"a" : 1.0, "\u0061":[ {"x":2} ],"b":{} } )";
    const auto members = json_members(text);
    ASSERT_TRUE(members) << members.error().message;
    ASSERT_EQ(members->size(), 3U);
    EXPECT_EQ((*members)[0].key, "a");
    EXPECT_EQ((*members)[0].value, "1.0");
    EXPECT_EQ((*members)[1].key, "a");
    EXPECT_EQ((*members)[1].name, R"("\u0061")");
    EXPECT_EQ((*members)[1].value, R"([ {"x":2} ])");
    EXPECT_EQ((*members)[2].value, "{}");
    EXPECT_EQ(json_members("{}")->size(), 0U);
    for (const std::string_view other : {"[]", "[{}]", "1", "\"{}\"", "null"}) {
        EXPECT_EQ(json_members(other).error().message, "not a JSON object at byte 0") << other;
    }
}

TEST(JsonReader, AStringIsWhatItSays) {
    EXPECT_EQ(json_string(R"("a\u00e9\/")"), "a\u00e9/");
    EXPECT_EQ(json_string("\"\""), "");
    for (const std::string_view other : {"", "1", "null", "[\"a\"]", "\"a", "\"a\"b", R"("\ud800")"}) {
        EXPECT_EQ(json_string(other), std::nullopt) << other;
    }
    EXPECT_EQ(json_string(R"("\ud800")", LoneSurrogates::replace), "\uFFFD");
}

/// Another reader of the same parser, which makes a tree, agrees on any bytes.
RC_GTEST_PROP(JsonReaderProperty, AnyBytesAreReadOrRefused, ()) {
    const std::string bytes =
        *rc::gen::oneOf(rc::gen::container<std::string>(rc::gen::elementOf(std::string("{}[]\",:\\u0d8e-. tn"))),
                        rc::gen::arbitrary<std::string>());
    boost::json::error_code error;
    boost::json::parse_options options;
    options.max_depth = kMaxJsonDepth;
    const auto tree = boost::json::parse(bytes, error, {}, options);
    if (!error) RC_ASSERT(is_json(bytes));
    if (is_json(bytes) && error) RC_ASSERT(error == boost::json::error::exponent_overflow);
}

}  // namespace
}  // namespace deliverd
