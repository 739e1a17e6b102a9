#include "wal/value_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <string>

#include "base/text.h"

namespace deliverd::wal {
namespace {

std::string time_of(std::string_view text) {
    std::string scratch = "left over";
    return std::string(time_text(text, scratch));
}

std::string value_of(std::string_view text, std::uint32_t type) {
    std::string scratch = "left over";
    return std::string(value_text(text, type, scratch));
}

TEST(ValueTextTest, AByteaIsItsBytesAndACharacterLosesItsFilling) {
    EXPECT_EQ(value_of("\\x00ffC3", 17), std::string("\0\xff\xc3", 3));
    EXPECT_EQ(value_of("\\x", 17), "");
    EXPECT_EQ(value_of("\\x0", 17), "\\x0");
    EXPECT_EQ(value_of("\\x0g", 17), "\\x0g");
    EXPECT_EQ(value_of("00", 17), "00");
    EXPECT_EQ(value_of(" a b  ", 1042), " a b");
    EXPECT_EQ(value_of("   ", 1042), "");
    EXPECT_EQ(value_of("\\x00  ", 25), "\\x00  ");
}

TEST(ValueTextTest, ATimeIsRfc3339WithMicroseconds) {
    EXPECT_EQ(time_of("2026-02-20 10:30:00.123456+00"), "2026-02-20T10:30:00.123456Z");
    EXPECT_EQ(time_of("2026-02-20 10:30:00.5+00"), "2026-02-20T10:30:00.500000Z");
    EXPECT_EQ(time_of("2026-02-20 10:30:00+00"), "2026-02-20T10:30:00.000000Z");
    EXPECT_EQ(time_of("2026-02-20 10:30:00.25"), "2026-02-20T10:30:00.250000Z");
    EXPECT_EQ(time_of("1970-01-01 00:00:00+00"), "1970-01-01T00:00:00.000000Z");
}

TEST(ValueTextTest, ATimeFarAwayIsTheNearestOne) {
    for (const char* early : {"-infinity", "1969-12-31 23:59:59.999999+00", "0044-03-15 00:00:00+00 BC",
                              "0044-03-15 00:00:00.5 BC", "10000-03-15 00:00:00+00 BC"}) {
        EXPECT_EQ(time_of(early), "1970-01-01T00:00:00.000000Z") << early;
    }
    for (const char* late : {"infinity", "10000-01-01 00:00:00+00", "294276-12-31 23:59:59.999999+00"}) {
        EXPECT_EQ(time_of(late), "9999-12-31T23:59:59.999999Z") << late;
    }
}

TEST(ValueTextTest, WhatIsNoTimeOfTheSessionIsNone) {
    for (const char* other : {"", "yesterday", "2026-02-20", "2026-02-20 10:30:00+02", "2026-02-20 10:30:00.1234567",
                              "2026-02-20T10:30:00Z", "20 Feb 2026", "12345"}) {
        EXPECT_EQ(time_of(other), "") << other;
    }
}

TEST(ValueTextTest, AnEventsTimeIsKeptWithinWhatAllFormatsHold) {
    using std::chrono::sys_days;
    using std::chrono::year;
    EXPECT_EQ(event_time(sys_days(year(1600) / 1 / 1)), "1970-01-01T00:00:00.000000Z");
    EXPECT_EQ(event_time(sys_days(year(12'000) / 1 / 1)), "9999-12-31T23:59:59.999999Z");
    EXPECT_EQ(event_time(WallTime(std::chrono::microseconds(1))), "1970-01-01T00:00:00.000001Z");
}

RC_GTEST_PROP(ValueTextPropertyTest, ATimeIsKeptExactly, ()) {
    const WallTime time{std::chrono::microseconds(*rc::gen::inRange<std::int64_t>(0, 253'402'300'799'999'999))};
    std::string text = rfc3339_micros(time);
    text[10] = ' ';
    text.pop_back();
    while (text.ends_with('0')) text.pop_back();  // as PostgreSQL writes it
    if (text.ends_with('.')) text.pop_back();
    RC_ASSERT(time_of(text + "+00") == rfc3339_micros(time));
}

}  // namespace
}  // namespace deliverd::wal
