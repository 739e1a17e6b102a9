#include "base/text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <vector>

namespace deliverd {
namespace {

TEST(Utf8, AcceptsTheBoundaries) {
    for (const std::string_view text : {"", "plain", "\x7f", "\u0080", "\u07ff", "\u0800", "\xed\x9f\xbf", "\ue000",
                                        "\uffff", "\U00010000", "\U0010ffff"}) {
        EXPECT_EQ(find_invalid_utf8(text), std::nullopt) << text;
    }
    EXPECT_EQ(find_invalid_utf8(std::string_view("a\0b", 3)), std::nullopt);
}

TEST(Utf8, FindsTheFirstBadByte) {
    EXPECT_EQ(find_invalid_utf8("ab\x80"), 2U);            // a continuation without its lead
    EXPECT_EQ(find_invalid_utf8("\xc0\xaf"), 0U);          // overlong '/'
    EXPECT_EQ(find_invalid_utf8("\xc1\xbf"), 0U);          // overlong
    EXPECT_EQ(find_invalid_utf8("\xe0\x9f\xbf"), 0U);      // overlong U+07FF
    EXPECT_EQ(find_invalid_utf8("\xf0\x8f\xbf\xbf"), 0U);  // overlong U+FFFF
    EXPECT_EQ(find_invalid_utf8("x\xed\xa0\x80"), 1U);     // surrogate D800
    EXPECT_EQ(find_invalid_utf8("x\xed\xbf\xbf"), 1U);     // surrogate DFFF
    EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0U);  // U+110000
    EXPECT_EQ(find_invalid_utf8("\xf5\x80\x80\x80"), 0U);
    EXPECT_EQ(find_invalid_utf8("\u20ac\xe2\x82"), 3U);  // cut short
    EXPECT_EQ(find_invalid_utf8("\xe2\x82z"), 0U);
    EXPECT_EQ(find_invalid_utf8("\xff"), 0U);
}

TEST(Shorten, KeepsWhatFits) {
    EXPECT_EQ(shorten("abc", 3), "abc");
    EXPECT_EQ(shorten("", 0), "");
}

TEST(Shorten, CutsAtACharacter) {
    EXPECT_EQ(shorten("abcdefgh", 7), "abcd\u2026");
    EXPECT_EQ(shorten("ab\u20accdef", 7), "ab\u2026");  // 4 bytes are left, the euro sign needs 3 after "ab"
    EXPECT_EQ(shorten("\u20ac\u20ac", 2), "");
}

RC_GTEST_PROP(ShortenProperty, NeverLongerAndNeverHalfACharacter, (std::uint8_t limit)) {
    const auto words = *rc::gen::container<std::vector<std::string>>(
        rc::gen::element<std::string>("a", "\u00e9", "\u20ac", "\U0001F600"));
    std::string text;
    for (const auto& word : words) text += word;
    const std::string cut = shorten(text, limit);
    RC_ASSERT(cut.size() <= limit);
    RC_ASSERT(!find_invalid_utf8(cut).has_value());
}

TEST(OneLine, ReplacesWhatBreaksLines) {
    EXPECT_EQ(one_line("a\nb\tc\x1b[31m\x7f"), "a b c [31m ");
    EXPECT_EQ(one_line(std::string_view("x\0y", 3)), "x y");
    EXPECT_EQ(one_line("\u20ac\xff!"), "\u20ac\ufffd!");
    // C1: what a terminal takes for ESC and the next letter, as UTF-8 and as single bytes.
    EXPECT_EQ(one_line("a\u0080b\u0085c\u009b31m\u009d\u009f"), "a b c 31m  ");
    EXPECT_EQ(one_line("\x9b"
                       "31m"),
              "\ufffd31m");
    EXPECT_EQ(one_line("\u00a0\u00e9\u0400"), "\u00a0\u00e9\u0400");
    EXPECT_EQ(one_line("a\u2028b\u2029c"), "a b c");
}

TEST(ValidUtf8, ReplacesOnlyBadBytes) {
    EXPECT_EQ(valid_utf8("a\n\u20ac"), "a\n\u20ac");
    EXPECT_EQ(valid_utf8("\xff"
                         "a\xc0\xaf"),
              "\ufffd"
              "a\ufffd\ufffd");
}

RC_GTEST_PROP(ValidUtf8Property, AnythingBecomesValid, (const std::string& bytes)) {
    RC_ASSERT(!find_invalid_utf8(valid_utf8(bytes)).has_value());
    RC_ASSERT(!find_invalid_utf8(one_line(bytes)).has_value());
}

TEST(Nearest, FindsTheLikelyWord) {
    const std::vector<std::string_view> keys = {"batch_size", "parallelism", "retry", "sink", "lease_seconds"};
    EXPECT_EQ(nearest("batchsize", keys), "batch_size");
    EXPECT_EQ(nearest("paralelism", keys), "parallelism");
    EXPECT_EQ(nearest("lease_second", keys), "lease_seconds");
    EXPECT_EQ(nearest("snik", keys), "sink");        // swapped letters are one edit
    EXPECT_EQ(nearest("snek", keys), std::nullopt);  // two edits are half of "sink"
    EXPECT_EQ(nearest("sinc", keys), "sink");
    EXPECT_EQ(nearest("entirely_else", keys), std::nullopt);
    EXPECT_EQ(nearest("", keys), std::nullopt);
    EXPECT_EQ(nearest("x", {}), std::nullopt);
    EXPECT_EQ(nearest(std::string(1'000'000, 'a'), keys), std::nullopt);
}

TEST(Nearest, PrefersTheCloser) {
    const std::vector<std::string_view> keys = {"timeout", "timeouts_ms", "timeout_ms"};
    EXPECT_EQ(nearest("timeout_m", keys), "timeout_ms");
}

WallTime utc(int year, unsigned month, unsigned day, std::int64_t seconds_of_day, std::int64_t micros) {
    return WallTime(
               std::chrono::sys_days(std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day))) +
           std::chrono::seconds(seconds_of_day) + std::chrono::microseconds(micros);
}

TEST(Rfc3339, Prints) {
    EXPECT_EQ(rfc3339_millis(utc(2026, 2, 20, 10 * 3600 + 30 * 60, 123'999)), "2026-02-20T10:30:00.123Z");
    EXPECT_EQ(rfc3339_millis(WallTime{}), "1970-01-01T00:00:00.000Z");
    EXPECT_EQ(rfc3339_millis(utc(1969, 12, 31, 86399, 999'999)), "1969-12-31T23:59:59.999Z");
    EXPECT_EQ(rfc3339_micros(utc(2026, 2, 20, 10 * 3600 + 30 * 60, 123'999)), "2026-02-20T10:30:00.123999Z");
    EXPECT_EQ(rfc3339_micros(WallTime{}), "1970-01-01T00:00:00.000000Z");
    EXPECT_EQ(rfc3339_micros(utc(9999, 12, 31, 86399, 7)), "9999-12-31T23:59:59.000007Z");
}

TEST(Rfc3339, ReadsEveryForm) {
    const WallTime expected = utc(2026, 2, 20, 10 * 3600 + 30 * 60, 123'456);
    for (const std::string_view text :
         {"2026-02-20T10:30:00.123456Z", "2026-02-20 10:30:00.123456Z", "2026-02-20t10:30:00.123456z",
          "2026-02-20T10:30:00.123456789Z", "2026-02-20T12:30:00.123456+02:00", "2026-02-20 05:00:00.123456-05:30",
          "2026-02-20 10:30:00.123456+00"}) {
        EXPECT_EQ(parse_rfc3339(text), expected) << text;
    }
    EXPECT_EQ(parse_rfc3339("2026-02-20T10:30:00Z"), utc(2026, 2, 20, 37'800, 0));
    EXPECT_EQ(parse_rfc3339("2026-02-20T10:30:00.5Z"), utc(2026, 2, 20, 37'800, 500'000));
    EXPECT_EQ(parse_rfc3339("2024-02-29T00:00:00Z"), utc(2024, 2, 29, 0, 0));
    EXPECT_EQ(parse_rfc3339("2016-12-31T23:59:60Z"), utc(2017, 1, 1, 0, 0));
}

TEST(Rfc3339, WhatSomebodyElseWroteIsATimeWhereItCanBeShown) {
    const auto shown = [](std::int64_t millis) {
        const auto time = foreign_time(millis);
        return time ? rfc3339_millis(*time) : "none";
    };
    EXPECT_EQ(shown(0), "1970-01-01T00:00:00.000Z");
    EXPECT_EQ(shown(1'771'583'400'123), "2026-02-20T10:30:00.123Z");
    EXPECT_EQ(shown(-62'135'596'800'000), "0001-01-01T00:00:00.000Z");
    EXPECT_EQ(shown(-62'135'596'800'001), "none");
    EXPECT_EQ(shown(253'402'300'799'999), "9999-12-31T23:59:59.999Z");
    EXPECT_EQ(shown(253'402'300'800'000), "none");
    EXPECT_EQ(shown(1'700'000'000'000'000), "none") << "microseconds taken for milliseconds";
    EXPECT_EQ(shown(9'000'000'000'000'000'000), "none") << "more than a time can hold";
    EXPECT_EQ(shown(std::numeric_limits<std::int64_t>::min()), "none");
}

TEST(Rfc3339, RefusesTheRest) {
    for (const std::string_view text : {"",
                                        "2026",
                                        "2026-02-20",
                                        "2026-02-20T10:30:00",
                                        "2026-02-30T10:30:00Z",
                                        "2025-02-29T00:00:00Z",
                                        "2026-13-01T00:00:00Z",
                                        "2026-00-01T00:00:00Z",
                                        "2026-02-20T24:00:00Z",
                                        "2026-02-20T10:60:00Z",
                                        "2026-02-20T10:30:61Z",
                                        "2026-02-20T10:30:00.Z",
                                        "2026-02-20T10:30:00Zx",
                                        "2026-02-20T10:30:00+24:00",
                                        "2026-02-20T10:30:00+01:60",
                                        "2026-02-20T10:30:00+1",
                                        "26-02-20T10:30:00Z",
                                        "2026-2-20T10:30:00Z",
                                        "2026-02-20X10:30:00Z",
                                        " 2026-02-20T10:30:00Z",
                                        "-026-02-20T10:30:00Z"}) {
        EXPECT_EQ(parse_rfc3339(text), std::nullopt) << text;
    }
}

RC_GTEST_PROP(Rfc3339Property, RoundTripsToTheMillisecond, ()) {
    // From the year 0000 to 9999, which is what the format can say.
    const auto millis = *rc::gen::inRange<std::int64_t>(-62'167'219'200'000, 253'402'300'800'000);
    const WallTime time{std::chrono::milliseconds(millis)};
    RC_ASSERT(parse_rfc3339(rfc3339_millis(time)) == time);
}

TEST(Text, LettersFoldInAsciiOnly) {
    EXPECT_EQ(ascii_lower("X-Ab_9 \xC3\x84"), "x-ab_9 \xC3\x84");
    EXPECT_TRUE(equal_ignoring_case("Content-TYPE", "content-type"));
    EXPECT_FALSE(equal_ignoring_case("a", "ab"));
    EXPECT_FALSE(equal_ignoring_case("@", "`"));
}

TEST(Text, HexDigitsInEitherCase) {
    EXPECT_EQ(hex_value('0'), 0U);
    EXPECT_EQ(hex_value('f'), 15U);
    EXPECT_EQ(hex_value('A'), 10U);
    for (const char c : {'g', 'G', '/', ':', '@', '`', '\0'}) EXPECT_EQ(hex_value(c), std::nullopt) << c;
    EXPECT_EQ(hex_text(std::string_view("\x00\x1F\xFF", 3)), "001fff");
}

TEST(Text, PercentCoding) {
    EXPECT_EQ(url_encoded("Az09-._~"), "Az09-._~");
    EXPECT_EQ(url_encoded("a/b c\xE2\x82\xAC%"), "a%2Fb%20c%E2%82%AC%25");
    EXPECT_EQ(percent_encoded("a b", [](char c) { return c == ' '; }), "%61 %62");
    EXPECT_EQ(percent_decoded("a%2fb%2F+%00"), std::string("a/b/+\0", 6));
    for (const char* broken : {"%", "a%1", "%1g", "%g1", "%%41"}) EXPECT_EQ(percent_decoded(broken), std::nullopt);
}

RC_GTEST_PROP(TextProperty, WhatIsEncodedForAUrlIsDecodedAgain, (const std::string& bytes)) {
    RC_ASSERT(percent_decoded(url_encoded(bytes)) == bytes);
}

}  // namespace
}  // namespace deliverd
