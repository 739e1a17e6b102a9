#include "sink/nats/outcomes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sink/sink.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;

TEST(PublishAnswer, AnAcknowledgementIsDelivered) {
    const auto stored = outcome_of_publish(R"({"stream":"ORDERS","seq":42})", "orders.a");
    EXPECT_EQ(stored.kind, OutcomeKind::delivered);
    EXPECT_EQ(stored.receipt, "ORDERS@42");
    const auto again = outcome_of_publish(R"({"stream":"ORDERS","seq":42,"duplicate": true})", "orders.a");
    EXPECT_EQ(again.kind, OutcomeKind::delivered);
    EXPECT_EQ(again.receipt, "ORDERS@42");
    const auto unnumbered = outcome_of_publish(R"({"stream":"ORDERS","seq":0,"duplicate":true})", "orders.a");
    EXPECT_EQ(unnumbered.kind, OutcomeKind::delivered) << "an earlier copy is stored, wherever";
    const auto first = outcome_of_publish(R"({"stream":"ORDERS","seq":1})", "orders.a");
    EXPECT_EQ(first.kind, OutcomeKind::delivered);
    const auto domain = outcome_of_publish(R"({"stream":"S","domain":"hub","seq":7})", "orders.a");
    EXPECT_EQ(domain.receipt, "S@7");
}

TEST(PublishAnswer, ErrorsAreReadByTheirCode) {
    struct Case {
        const char* error;
        OutcomeKind kind;
        const char* code;
        bool not_attempted;
    };
    for (const auto& c : {
             Case{R"({"code":503,"err_code":10077,"description":"maximum messages exceeded"})", OutcomeKind::retryable,
                  "STREAM_FULL", false},
             Case{R"({"code":503,"err_code":10077,"description":"maximum bytes exceeded"})", OutcomeKind::retryable,
                  "STREAM_FULL", false},
             Case{R"({"code":500,"err_code":10077,"description":"no space left on device"})", OutcomeKind::retryable,
                  "NO_RESOURCES", true},
             Case{R"({"code":503,"err_code":10077,"description":"message to large"})", OutcomeKind::retryable,
                  "STORE_FAILED", false},
             Case{R"({"code":503,"err_code":10077,"description":"store is closed"})", OutcomeKind::retryable,
                  "STORE_FAILED", false},
             Case{R"({"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"})",
                  OutcomeKind::permanent, "MESSAGE_TOO_LARGE", false},
             Case{R"({"code":400,"err_code":10071,"description":"wrong last sequence: 5"})", OutcomeKind::permanent,
                  "REJECTED", false},
             Case{R"({"code":400,"err_code":10060,"description":"expected stream does not match"})",
                  OutcomeKind::permanent, "REJECTED", false},
             Case{R"({"code":500,"err_code":10047,"description":"insufficient storage resources available"})",
                  OutcomeKind::retryable, "NO_RESOURCES", true},
             Case{R"({"code":500,"err_code":10028,"description":"insufficient memory resources available"})",
                  OutcomeKind::retryable, "NO_RESOURCES", true},
             Case{R"({"code":503,"err_code":10023,"description":"insufficient resources"})", OutcomeKind::retryable,
                  "NO_RESOURCES", true},
             Case{R"({"code":400,"err_code":10002,"description":"resource limits exceeded for account"})",
                  OutcomeKind::retryable, "NO_RESOURCES", true},
             Case{R"({"code":409,"err_code":10158,"description":"duplicate message id is in process"})",
                  OutcomeKind::retryable, "STORE_FAILED", false},
             Case{R"({"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"})",
                  OutcomeKind::retryable, "JETSTREAM_UNAVAILABLE", true},
             Case{R"({"code":500,"err_code":10009,"description":"JetStream cluster can not handle request"})",
                  OutcomeKind::retryable, "JETSTREAM_UNAVAILABLE", true},
             Case{R"({"code":429,"err_code":10167,"description":"too many requests"})", OutcomeKind::retryable,
                  "RATE_LIMITED", true},
             Case{R"({"code":500,"err_code":10118,"description":"stream is offline"})", OutcomeKind::retryable,
                  "JETSTREAM_UNAVAILABLE", true},
             Case{R"({"code":503,"err_code":10039,"description":"JetStream not enabled for account"})",
                  OutcomeKind::retryable, "JETSTREAM_UNAVAILABLE", true},
             Case{R"({"code":503,"err_code":10076,"description":"JetStream not enabled"})", OutcomeKind::retryable,
                  "JETSTREAM_UNAVAILABLE", true},
             Case{R"({"code":500,"err_code":10007,"description":"JetStream cluster not assigned to this server"})",
                  OutcomeKind::retryable, "JETSTREAM_UNAVAILABLE", true},
             Case{R"({"code":400,"err_code":10097,"description":"header size exceeds maximum allowed of 64k"})",
                  OutcomeKind::permanent, "MESSAGE_TOO_LARGE", false},
             Case{R"({"code":500,"err_code":1,"description":"no space left on device"})", OutcomeKind::retryable,
                  "STORE_FAILED", false},
             Case{R"({"code":499,"err_code":1,"description":"maximum messages exceeded"})", OutcomeKind::permanent,
                  "REJECTED", false},
         }) {
        const auto outcome =
            outcome_of_publish(std::string(R"({"stream":"S","seq":0,"error":)") + c.error + "}", "orders.a");
        EXPECT_EQ(outcome.kind, c.kind) << c.error;
        EXPECT_EQ(outcome.code, c.code) << c.error;
        EXPECT_EQ(outcome.not_attempted, c.not_attempted) << c.error;
    }
}

TEST(PublishAnswer, AnAnswerThatIsNotJetStreamsIsAmbiguous) {
    for (const auto* answer : {"", "ok", "[]", "{}", R"({"stream":"","seq":1})", R"({"stream":"S"})", R"({"seq":1})",
                               R"({"stream":"S","seq":"1"})", R"({"stream":"S","seq":0})", R"({"stream":7,"seq":1})",
                               R"({"error":7})", "{\"stream\":\"S\",\"seq\":1"}) {
        const auto outcome = outcome_of_publish(answer, "orders.a");
        EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << answer;
        EXPECT_EQ(outcome.code, "UNKNOWN") << answer;
    }
}

TEST(StreamNames, OnlyJetStreamItselfMakesAMissingStreamPermanent) {
    for (const auto* none : {R"({"type":"io.nats.jetstream.api.v1.stream_names_response","total":0,"streams":null})",
                             R"({"total":0,"streams":[]})", R"({"total":0})"}) {
        const auto outcome = outcome_of_stream_names(none, "orders.a");
        EXPECT_EQ(outcome.kind, OutcomeKind::permanent) << none;
        EXPECT_EQ(outcome.code, "NO_STREAM");
        EXPECT_THAT(outcome.detail, HasSubstr("'orders.a'"));
        EXPECT_THAT(outcome.detail, HasSubstr("create a stream"));
    }
    const auto starting = outcome_of_stream_names(R"({"total":1,"streams":["ORDERS"]})", "orders.a");
    EXPECT_EQ(starting.kind, OutcomeKind::retryable);
    EXPECT_EQ(starting.code, "STREAM_NOT_READY");
    EXPECT_TRUE(starting.not_attempted);
    EXPECT_THAT(starting.detail, HasSubstr("'ORDERS'"));
    for (const auto* off :
         {R"({"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}})", "",
          "nonsense"}) {
        const auto outcome = outcome_of_stream_names(off, "orders.a");
        EXPECT_EQ(outcome.kind, OutcomeKind::retryable) << off;
        EXPECT_EQ(outcome.code, "JETSTREAM_UNAVAILABLE") << off;
        EXPECT_TRUE(outcome.not_attempted);
    }
}

TEST(StreamNames, AnAnswerThatIsNoListNamesNoStream) {
    EXPECT_EQ(outcome_of_stream_names(R"({"streams":"ORDERS"})", "orders.a").code, "NO_STREAM");
    EXPECT_EQ(outcome_of_stream_names(R"({"streams":[7]})", "orders.a").code, "STREAM_NOT_READY");
}

TEST(PublishAnswer, JetStreamsProblemIsItsOwnDescription) {
    EXPECT_EQ(jetstream_problem(R"({"error":{"err_code":10076,"description":"not\nenabled"}})"), "not enabled (10076)");
    EXPECT_EQ(jetstream_problem(R"({"memory":0})"), "");
    EXPECT_THAT(jetstream_problem("HTTP/1.1 400"), HasSubstr("not JetStream's"));
}

TEST(PublishAnswer, DetailsAreOneShortLine) {
    const std::string subject = std::string(5000, 'x') + "\n";
    const auto outcome = outcome_of_stream_names(R"({"streams":[]})", subject);
    EXPECT_LE(outcome.detail.size(), kMaxDetailBytes);
    EXPECT_THAT(outcome.detail, HasSubstr("create a stream"));
    EXPECT_THAT(outcome.detail, testing::Not(HasSubstr("\n")));
}

TEST(NatsOutcomes, OnlyWhatMayHaveArrivedIsAmbiguous) {
    struct Case {
        Outcome outcome;
        OutcomeKind kind;
        std::string_view code;
    };
    const Error passing{ErrorClass::retryable, "NOT_YET", "later"};
    const Error lasting{ErrorClass::permanent, "BAD_SUBJECT", "never"};
    for (const auto& c : {
             Case{unreachable("refused"), OutcomeKind::retryable, kBrokerUnreachable},
             Case{refused(passing), OutcomeKind::retryable, "NOT_YET"},
             Case{refused(lasting), OutcomeKind::permanent, "BAD_SUBJECT"},
             Case{too_large(9, "nats:4222", 8), OutcomeKind::permanent, "MESSAGE_TOO_LARGE"},
             Case{not_permitted("nats:4222", "a"), OutcomeKind::permanent, "NOT_PERMITTED"},
             Case{not_acknowledged("nats:4222", std::chrono::seconds(5), "a"), OutcomeKind::ambiguous, "ACK_TIMEOUT"},
             Case{connection_lost("nats:4222", "reset"), OutcomeKind::ambiguous, "CONNECTION_LOST"},
         }) {
        EXPECT_EQ(c.outcome.kind, c.kind) << c.code;
        EXPECT_EQ(c.outcome.code, c.code);
        EXPECT_EQ(c.outcome.not_attempted, c.code == kBrokerUnreachable) << c.code;
        EXPECT_FALSE(c.outcome.detail.empty()) << c.code;
    }
    EXPECT_THAT(refused(lasting).detail, HasSubstr("never"));
}

}  // namespace
}  // namespace deliverd::sink
