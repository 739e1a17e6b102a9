#include "sink/nats/endings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sink/sink.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;

TEST(NatsEndings, OnlyWhatMayHaveArrivedIsAmbiguous) {
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
