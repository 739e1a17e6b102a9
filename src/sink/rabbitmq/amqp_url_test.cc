#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "sink/rabbitmq/connection.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;
using testing::Not;

auto parts(std::string_view url) {
    const auto parsed = parse_amqp_url(url);
    EXPECT_TRUE(parsed) << url << ": " << parsed.error().message;
    const auto& p = parsed.value();
    return std::tuple(p.tls, p.server.host, int{p.server.port}, p.server.user, p.server.password, p.vhost);
}

TEST(AmqpUrl, HasDefaultsForWhatIsLeftOut) {
    EXPECT_EQ(parts("amqp://rabbit"), std::tuple(false, "rabbit", 5672, "guest", "guest", "/"));
    EXPECT_EQ(parts("amqps://rabbit/"), std::tuple(true, "rabbit", 5671, "guest", "guest", "/"));
    EXPECT_EQ(parts("amqp://me@rabbit:99"), std::tuple(false, "rabbit", 99, "me", "", "/"));
}

TEST(AmqpUrl, DecodesWhatIsEncoded) {
    EXPECT_EQ(parts("amqp://u%40x:p%3a%2F@h:1/%2f"), std::tuple(false, "h", 1, "u@x", "p:/", "/"));
    EXPECT_EQ(parts("amqp://u:a:b@h/v%20w%C3%A9"), std::tuple(false, "h", 5672, "u", "a:b", "v w\u00e9"));
    EXPECT_EQ(parts("amqps://[::1]:5/x"), std::tuple(true, "::1", 5, "guest", "guest", "x"));
}

TEST(AmqpUrl, RefusesWhatItCannotRead) {
    for (const auto* url : {"",
                            "http://h",
                            "amqp:",
                            "amqp://",
                            "amqp:///v",
                            "amqp://:s3cret@h",
                            "amqp://u:s3cret%@h",
                            "amqp://u:s3cret%0@h",
                            "amqp://u:s3cret%zz@h",
                            "amqp://u:s3cret%00@h",
                            "amqp://h:0",
                            "amqp://h:65536",
                            "amqp://h:12x",
                            "amqp://h:",
                            "amqp://[::1",
                            "amqp://[::1]x",
                            "amqp://a,b",
                            "amqp://h//",
                            "amqp://h/a/b",
                            "amqp://u:s3cret@h/v?heartbeat=1"}) {
        const auto parsed = parse_amqp_url(url);
        ASSERT_FALSE(parsed) << url;
        EXPECT_EQ(parsed.error().code, "bad_argument");
        EXPECT_THAT(parsed.error().message, Not(HasSubstr("s3cret")));
    }
}

TEST(AmqpUrl, NamesThePlaceWithoutSecrets) {
    EXPECT_EQ(parse_amqp_url("amqp://u:p@h/v")->server.place(), "h:5672");
    EXPECT_EQ(parse_amqp_url("amqp://u:p@[::1]/v")->server.place(), "[::1]:5672");
}

}  // namespace
}  // namespace deliverd::sink
