#include "sink/server_url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deliverd::sink {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ServerUrl, HasDecodedParts) {
    const auto url = parse_server_url("amqps://u%40x:p%3a%5E@[::1]:5671/a%2Fb/c").value();
    EXPECT_EQ(url.scheme, "amqps");
    EXPECT_EQ(url.user, "u@x");
    EXPECT_EQ(url.password, "p:^");
    EXPECT_EQ(url.host, "::1");
    EXPECT_EQ(url.port, 5671);
    EXPECT_EQ(url.path, "/a%2Fb/c");
    EXPECT_THAT(url.segments, ElementsAre("a/b", "c"));
    EXPECT_EQ(url.place(), "[::1]:5671");
    const auto bare = parse_server_url("nats://a_b.example").value();
    EXPECT_EQ(bare.place(), "a_b.example");
    EXPECT_EQ(bare.user + bare.password + bare.path, "");
    EXPECT_EQ(bare.port, 0);
}

TEST(ServerUrl, WhatIsReadInTwoWaysIsRefusedAndNeverRepeated) {
    for (const auto* text : {"",
                             "host:1",
                             "x:",
                             "x://",
                             "x://u:s3cret@",
                             "x:///s3cret",
                             "x://u:s3cret@h@h2:1/v",
                             "x://u:s3cret#q@h/",
                             "x://u:s3cret?q@h/",
                             "x://u:s3cret@h:",
                             "x://u:s3cret@h:0",
                             "x://u:s3cret@h:65536",
                             "x://u:s3cret@h:99999",
                             "x://u:s3cret@h:123456",
                             "x://u:s3cret@h:1x",
                             "x://u:s3cret@[::1",
                             "x://u:s3cret@[::1]x",
                             "x://:s3cret@h",
                             "x://u:s3cret%0@h",
                             "x://u:s3cret%00@h",
                             "x://u:s3cret@h/%00",
                             "x://u:s3cret@a,b",
                             "x://u:s3cret@a b",
                             "x://u:s3cret@h/?a",
                             "x://u:s3cret@h/#a"}) {
        const auto url = parse_server_url(text);
        ASSERT_FALSE(url) << text;
        EXPECT_EQ(url.error().code, "bad_argument");
        EXPECT_THAT(url.error().message, Not(HasSubstr("s3cret")));
    }
}

TEST(ServerUrl, AListIsSplitAtItsCommas) {
    EXPECT_THAT(comma_separated("a,b:1"), ElementsAre("a", "b:1"));
    EXPECT_THAT(comma_separated(",a,"), ElementsAre("", "a", ""));
    EXPECT_THAT(comma_separated(""), ElementsAre(""));
}

}  // namespace
}  // namespace deliverd::sink
