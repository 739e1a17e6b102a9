#include "sink/http/request_headers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "sink/testing/collector.h"

namespace deliverd::sink {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Key;
using testing::Not;
using testing::Pair;

TEST(EventHeaders, ArePrefixedAndDashed) {
    auto message = test_event(1, "order.created");
    message.headers = {{"correlation_id", "c 1, d"}, {"traceparent", "00-ab-cd-01"}, {"tracestate", "a=b,c=d"}};
    EXPECT_THAT(event_headers(message, {}),
                ElementsAre(Pair("X-aggregate-id", "order-1"), Pair("X-event-type", "OrderCreated"),
                            Pair("X-created-at", "2026-02-20T10:30:00.123Z"), Pair("X-correlation-id", "c 1, d"),
                            Pair("X-traceparent", "00-ab-cd-01"), Pair("X-tracestate", "a=b,c=d"),
                            Pair("traceparent", "00-ab-cd-01"), Pair("tracestate", "a=b,c=d")));
}

TEST(EventHeaders, EncodeValuesThatAHeaderCannotHold) {
    auto message = test_event(1, "order.created");
    message.key = "größe";
    message.headers = {{"lines", "a\r\nX-Evil: 1"}, {"edge", "a "},     {"tab", "a\tb"},
                       {"traceparent", "ä"},        {"literal", "%41"}, {"tracestate", "a=%41"}};
    const auto headers = event_headers(message, {});
    EXPECT_THAT(headers, Contains(Pair("X-aggregate-id", "gr%C3%B6%C3%9Fe")));
    EXPECT_THAT(headers, Contains(Pair("X-lines", "a%0D%0AX-Evil:%201")));
    EXPECT_THAT(headers, Contains(Pair("X-edge", "a%20")));
    EXPECT_THAT(headers, Contains(Pair("X-tab", "a%09b")));
    EXPECT_THAT(headers, Contains(Pair("X-literal", "%2541")));
    EXPECT_THAT(headers, Contains(Pair("X-traceparent", "%C3%A4")));
    EXPECT_THAT(headers, Contains(Pair("tracestate", "a=%41")));  // its standard's own, which is never encoded
    EXPECT_THAT(headers, Not(Contains(Key("traceparent"))));
}

TEST(EventHeaders, WithTheSameNameAreSentOnce) {
    auto message = test_event(1, "order.created");
    message.headers = {
        {"a_b", "1"}, {"A-B", "2"}, {"aggregate-id", "forged"}, {"Traceparent", "x"}, {"traceparent", "y"}};
    const auto headers = event_headers(message, {});
    EXPECT_THAT(headers, ElementsAre(Pair("X-aggregate-id", "order-1"), Pair("X-event-type", "OrderCreated"),
                                     Pair("X-created-at", "2026-02-20T10:30:00.123Z"), Pair("X-a-b", "1"),
                                     Pair("X-Traceparent", "x"), Pair("traceparent", "x")));
}

/// With the square of their number it would take minutes, and ctest would end it.
TEST(EventHeaders, ManyNamesAreComparedInLinearTime) {
    constexpr int kNames = 200'000;
    auto message = test_event(1, "order.created");
    message.headers.clear();
    for (int n = 0; n < kNames; ++n) message.headers.emplace_back("n" + std::to_string(n), "v");
    // Of the processor, so that a busy machine does not matter: it takes about a second. If each name is compared
    // with all others, it is minutes.
    constexpr std::clock_t kMostSeconds = 10;
    const std::clock_t before = std::clock();
    EXPECT_EQ(event_headers(message, {}).size(), 3U + kNames);
    EXPECT_LT((std::clock() - before) / CLOCKS_PER_SEC, kMostSeconds);
}

/// Proxies and frameworks believe these about the sender and the request; metadata is anybody's words.
TEST(EventHeaders, AreNeverHeadersThatReceiversTrust) {
    auto message = test_event(1, "order.created");
    for (const char* name : {"forwarded_for",
                             "Forwarded-Host",
                             "forwarded.proto",
                             "FORWARDED_USER",
                             "real_ip",
                             "client_ip",
                             "cluster_client_ip",
                             "original_url",
                             "original-method",
                             "rewrite_url",
                             "remote_user",
                             "auth_request_user",
                             "authenticated_user",
                             "http_method_override",
                             "method_override",
                             "envoy_internal",
                             "amzn_oidc_identity",
                             "accel_redirect",
                             "api_key",
                             "csrf_token",
                             "xsrf_token",
                             "goog_iap_jwt",
                             "ms_client_principal",
                             "webauth_user",
                             "ssl_client_verify",
                             "client_cert",
                             "ARR_ClientCert",
                             "consumer_username",
                             "jwt_assertion",
                             "user",
                             "user_id",
                             "access_token",
                             "ms_token_aad_id_token",
                             "authentik_groups",
                             "real_port",
                             "csrftoken"}) {
        message.headers.emplace_back(name, "forged");
    }
    message.headers.emplace_back("request_id", "r-1");
    message.headers.emplace_back("author", "ann");
    message.headers.emplace_back("client_id", "c-1");
    message.headers.emplace_back("usergroup", "g");
    EXPECT_THAT(event_headers(message, {}),
                ElementsAre(Pair("X-aggregate-id", "order-1"), Pair("X-event-type", "OrderCreated"),
                            Pair("X-created-at", "2026-02-20T10:30:00.123Z"), Pair("X-request-id", "r-1"),
                            Pair("X-author", "ann"), Pair("X-client-id", "c-1"), Pair("X-usergroup", "g")));
}

TEST(EventHeaders, AreTheExampleOfCloudEventsHttpBinding) {
    auto message = test_event(1, "order.created");
    message.message_id = "1234-1234-1234";
    message.type = "com.example.someevent";
    message.created_at = "2018-04-05T03:56:24Z";
    message.key = "Euro € 😀";  // and its example of a value that must be encoded
    const EventAttributesOptions options{EventFormat::cloudevents, "/mycontext/subcontext"};
    EXPECT_THAT(
        event_headers(message, options),
        ElementsAre(Pair("ce-specversion", "1.0"), Pair("ce-id", "1234-1234-1234"),
                    Pair("ce-source", "/mycontext/subcontext"), Pair("ce-type", "com.example.someevent"),
                    Pair("ce-time", "2018-04-05T03:56:24Z"), Pair("ce-subject", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
                    Pair("ce-partitionkey", "Euro%20%E2%82%AC%20%F0%9F%98%80")));
}

TEST(EventHeaders, OfCloudEventsCarryMetadataAsExtensions) {
    auto message = test_event(1, "order.created");
    message.headers = {{"correlation_id", "a\"b%"}, {"traceparent", "00-ab-cd-01"}};
    const auto headers = event_headers(message, {EventFormat::cloudevents, "/s"});
    EXPECT_THAT(headers, Contains(Pair("ce-correlationid", "a%22b%25")));
    EXPECT_THAT(headers, Contains(Pair("ce-traceparent", "00-ab-cd-01")));
    EXPECT_THAT(headers, Contains(Pair("traceparent", "00-ab-cd-01")));
}

}  // namespace
}  // namespace deliverd::sink
