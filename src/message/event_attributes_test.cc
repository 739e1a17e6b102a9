#include "message/event_attributes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace deliverd {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

Message created() {
    Message message;
    message.message_id = "0190-id";
    message.key = "order-7";
    message.type = "OrderCreated";
    message.created_at = "2026-02-20T10:30:00.123Z";
    message.headers = {{"traceparent", "00-ab-cd-01"}, {"correlation_id", "c1"}, {"event_type", "forged"}};
    return message;
}

TEST(PlainAttributes, SayWhatTheEventIsAndThenTheMetadata) {
    EXPECT_THAT(plain_attributes(created()),
                ElementsAre(Pair("message_id", "0190-id"), Pair("aggregate_id", "order-7"),
                            Pair("event_type", "OrderCreated"), Pair("created_at", "2026-02-20T10:30:00.123Z"),
                            Pair("traceparent", "00-ab-cd-01"), Pair("correlation_id", "c1")));
}

/// The first of a name counts, however many there are; and the time does not grow with the square of their number:
/// 200,000 names took minutes.
TEST(EventAttributes, OfAnyNumberAreToldApartAtOnce) {
    constexpr int kNames = 200'000;
    Message message = created();
    message.headers.clear();
    for (int n = 0; n < 2 * kNames; ++n)
        message.headers.emplace_back("n" + std::to_string(n % kNames), std::to_string(n));
    const Attributes plain = plain_attributes(message);
    const Attributes cloud = cloudevents_attributes(message, "/shop");
    EXPECT_EQ(plain.size(), 4U + kNames);
    EXPECT_EQ(plain.back(), Attributes::value_type("n199999", "199999"));
    EXPECT_EQ(cloud.size(), 7U + kNames);
    EXPECT_EQ(cloud.back(), Attributes::value_type("n199999", "199999"));
}

TEST(CloudEventsAttributes, AreThoseOfTheStandardAndTheMetadataAsExtensions) {
    EXPECT_THAT(
        cloudevents_attributes(created(), "/shop"),
        ElementsAre(Pair("specversion", "1.0"), Pair("id", "0190-id"), Pair("source", "/shop"),
                    Pair("type", "OrderCreated"), Pair("time", "2026-02-20T10:30:00.123Z"), Pair("subject", "order-7"),
                    Pair("partitionkey", "order-7"), Pair("traceparent", "00-ab-cd-01"), Pair("correlationid", "c1"),
                    Pair("eventtype", "forged")));
}

TEST(CloudEventsAttributes, LeaveOutWhatWouldForgeTheStandardsOwn) {
    Message message = created();
    message.headers = {{"id", "x"}, {"Type", "x"}, {"data_content_type", "x"}, {"…", "x"}, {"a_b", "1"}, {"ab", "2"}};
    const Attributes attributes = cloudevents_attributes(message, "/shop");
    EXPECT_THAT(Attributes(attributes.begin() + 7, attributes.end()), ElementsAre(Pair("ab", "1")));
}

// The example of the CloudEvents HTTP binding, section 3.1.3.2: Euro € 😀.
TEST(PercentEncoded, IsTheStandardsExample) {
    EXPECT_EQ(percent_encoded("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
}

TEST(PercentEncoded, LeavesNothingThatCouldEndAHeader) {
    EXPECT_EQ(percent_encoded("a\r\nb\"%"), "a%0D%0Ab%22%25");
    EXPECT_EQ(percent_encoded("2026-02-20T10:30:00Z/!"), "2026-02-20T10:30:00Z/!");
}

/// As a receiver decodes it.
std::string decoded(std::string_view value) {
    std::string out;
    for (std::size_t i = 0; i < value.size(); ++i) {
        const bool encoded = value[i] == '%';
        out.push_back(encoded ? static_cast<char>(std::stoi(std::string(value.substr(i + 1, 2)), nullptr, 16))
                              : value[i]);
        if (encoded) i += 2;
    }
    return out;
}

TEST(PlainHeaderValue, StandsAsItIsWhereItCan) {
    for (const std::string value : {"", "order-1", "a b: c, d", "a=b;\"c\"", "2026-02-20T10:30:00Z"}) {
        EXPECT_EQ(plain_header_value(value), value);
    }
}

TEST(PlainHeaderValue, DecodesToExactlyWhatWentIn) {
    for (const std::string value :
         {"%41", "A", "100%", "a b", " a", "a ", "gr\u00f6\u00dfe", "a\r\nb", "a\tb", "%", "%%25", ""}) {
        const auto header = plain_header_value(value);
        EXPECT_EQ(decoded(header), value) << header;
        EXPECT_TRUE(stands_in_a_header(header)) << header;
    }
    EXPECT_EQ(plain_header_value("%41"), "%2541");
}

TEST(HttpHeaderName, CarriesAPrefixAndDashes) {
    EXPECT_EQ(http_header_name("aggregate_id"), "X-aggregate-id");
    EXPECT_EQ(http_header_name("a b:c\r\n"), "X-a-b-c--");
}

}  // namespace
}  // namespace deliverd
