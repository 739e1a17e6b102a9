// For tests: what Sink::stop() promises about messages that have no answer yet, the same for every sink.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "sink/testing/collector.h"

namespace deliverd::sink {

struct StoppedMessages {
    std::size_t not_sent = 0;  // retryable
    std::size_t in_doubt = 0;  // ambiguous
};

/// `messages` were sent and none of them is going to be answered. Stops the sink: each has one outcome then, which says
/// kStopped, and nothing is sent any more.
inline StoppedMessages stop_and_count(Sink& sink, Duration patience, const std::vector<Message>& messages,
                                      Collector& collector) {
    sink.stop(patience);
    StoppedMessages counts;
    for (const Message& message : messages) {
        const auto outcomes = collector.of(message.id);
        EXPECT_EQ(outcomes.size(), 1U) << message.id;
        if (outcomes.empty()) continue;
        EXPECT_EQ(outcomes.front().code, kStopped) << message.id;
        const bool not_sent = outcomes.front().kind == OutcomeKind::retryable;
        EXPECT_TRUE(not_sent || outcomes.front().kind == OutcomeKind::ambiguous) << message.id;
        ++(not_sent ? counts.not_sent : counts.in_doubt);
    }
    const Outcome late = send_one(sink, messages.front());
    EXPECT_EQ(late.code, kStopped);
    EXPECT_EQ(late.kind, OutcomeKind::retryable);
    sink.stop(Duration::zero());
    EXPECT_EQ(collector.count(), messages.size());
    return counts;
}

}  // namespace deliverd::sink
