// A fake server, for faults that a real one does not show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "sink/rabbitmq/rabbitmq_sink.h"
#include "sink/rabbitmq/testing/fake_broker.h"
#include "sink/rabbitmq/testing/sink_fixture.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;

std::unique_ptr<Sink> sink_to(const FaultServer& server, Duration timeout = kTestPatience,
                              Duration connect_timeout = kTestPatience) {
    static NullLog log;
    RabbitmqSinkOptions options;
    options.url = "amqp://127.0.0.1:" + std::to_string(server.port());
    options.timeout = timeout;
    options.connect_timeout = connect_timeout;
    auto made = make_rabbitmq_sink(options, log);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
}

void expect_unreachable(const Outcome& outcome) {
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, kBrokerUnreachable);
    EXPECT_TRUE(outcome.not_attempted);
}

TEST(RabbitmqFault, SomethingElseThatAnswersIsNotABroker) {
    const FaultServer server([](Peer& peer) {
        peer.write("HTTP/1.1 400 Bad Request\r\n\r\n");
        peer.wait_until_closed();
    });
    const auto rabbit = sink_to(server);
    expect_unreachable(send_one(*rabbit, event(1, "q")));
    EXPECT_FALSE(rabbit->check(kTestPatience));
}

TEST(RabbitmqFault, AServerThatSaysNothingIsGivenUpInTime) {
    const FaultServer server([](Peer& peer) { peer.wait_until_closed(); });
    const auto rabbit = sink_to(server, kTestPatience, std::chrono::milliseconds(300));
    expect_unreachable(send_one(*rabbit, event(1, "q")));
    const auto checked = rabbit->check(std::chrono::milliseconds(300));
    ASSERT_FALSE(checked);
    EXPECT_THAT(checked.error().message, HasSubstr("login"));
}

TEST(RabbitmqFault, AStopDoesNotWaitForAHandshakeThatHangs) {
    std::atomic<bool> is_open = false;
    const FaultServer server([&](Peer& peer) {
        is_open = true;
        is_open.notify_all();
        peer.wait_until_closed();
    });
    const auto rabbit = sink_to(server, kTestPatience, std::chrono::hours(1));
    const auto message = event(1, "q");
    const auto* pointer = &message;
    Collector collector;
    rabbit->send({&pointer, 1}, collector);
    is_open.wait(false);
    rabbit->stop(Duration::zero());  // would take an hour
    ASSERT_EQ(collector.count(), 1U);
    EXPECT_EQ(collector.of(1).front().kind, OutcomeKind::retryable);
}

TEST(RabbitmqFault, AServerThatHangsUpAfterTheMessageLeavesItInDoubt) {
    for (const std::string& last_words :
         {std::string(), amqp_ack(1).substr(0, 12), std::string(64, '\xFF'), amqp_ack(7), amqp_ack(7, true)}) {
        const FaultServer server([&](Peer& peer) {
            FakeBroker broker(peer);
            if (broker.shake_hands() && broker.next_publish()) peer.write(last_words);
        });
        const auto rabbit = sink_to(server);
        const auto outcome = send_one(*rabbit, event(1, "q"));
        EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << testing::PrintToString(last_words);
        EXPECT_EQ(outcome.code, "CONNECTION_LOST");
    }
}

TEST(RabbitmqFault, AMessageSentInPartIsNotInDoubt) {
    const FaultServer server([&](Peer& peer) {
        FakeBroker broker(peer);
        if (!broker.shake_hands()) return;
        char some[100'000];
        (void)::recv(peer.fd(), some, sizeof some, MSG_WAITALL);  // part of it; then the connection is closed
    });
    const auto rabbit = sink_to(server);
    const auto outcome = send_one(*rabbit, event(1, "q", std::string(64UL * 1024 * 1024, 'x')));
    EXPECT_EQ(outcome.code, "CONNECTION_LOST");
    EXPECT_NE(outcome.kind, OutcomeKind::delivered);
}

TEST(RabbitmqFault, AServerThatStopsReadingInTheMiddleOfAMessageIsGivenUpInTime) {
    const FaultServer server([&](Peer& peer) {
        FakeBroker broker(peer);
        if (!broker.shake_hands()) return;
        pollfd closed{peer.fd(), POLLRDHUP, 0};
        ::poll(&closed, 1, -1);
    });
    const auto rabbit = sink_to(server, std::chrono::milliseconds(500));
    const auto outcome = send_one(*rabbit, event(1, "q", std::string(64UL * 1024 * 1024, 'x')));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);  // it cannot have taken what it has not read
    EXPECT_EQ(outcome.code, "CONNECTION_LOST");
}

TEST(RabbitmqFault, AServerThatSendsHeartbeatsButNoConfirmsKeepsItsConnection) {
    const FaultServer server([&](Peer& peer) {
        FakeBroker broker(peer);
        if (!broker.shake_hands() || !broker.next_publish() || !peer.write(amqp_ack(1))) return;
        if (!broker.next_publish()) return;  // the second is never confirmed in time
        pollfd more{peer.fd(), POLLIN, 0};
        while (::poll(&more, 1, 50) == 0) peer.write(amqp_ack(1));
        if (!broker.next_publish()) return;
        peer.write(amqp_ack(2) + amqp_ack(3));  // late, and the third's
        peer.wait_until_closed();
    });
    const auto rabbit = sink_to(server, std::chrono::seconds(2));  // the first and the third have to be in time
    EXPECT_EQ(send_one(*rabbit, event(1, "q")).kind, OutcomeKind::delivered);
    EXPECT_EQ(send_one(*rabbit, event(2, "q")).code, "CONFIRM_TIMEOUT");
    EXPECT_EQ(send_one(*rabbit, event(3, "q")).kind, OutcomeKind::delivered);
    EXPECT_EQ(server.accepts(), 1);
}

TEST(RabbitmqFault, TheMessageThatClosesTheChannelIsFoundBySendingItAlone) {
    const FaultServer server([&](Peer& peer) {
        FakeBroker broker(peer);
        if (!broker.shake_hands()) return;
        for (std::uint64_t tag = 1;; ++tag) {
            const auto body = broker.next_publish();
            if (!body) return;
            if (*body == "poison") break;
            if (*body != "slow") peer.write(amqp_ack(tag));
        }
        peer.write(amqp_channel_closed(406, "PRECONDITION_FAILED - something about it"));
        peer.wait_until_closed();
    });
    const auto rabbit = sink_to(server);
    ASSERT_EQ(send_one(*rabbit, event(1, "q")).kind, OutcomeKind::delivered);
    const std::vector<Message> messages{event(2, "q", "slow"), event(3, "q", "poison"), event(4, "q", "fine")};
    Collector collector;
    rabbit->send(pointers_to(messages), collector);
    ASSERT_TRUE(collector.wait_for(3));
    EXPECT_EQ(collector.of(2).front().kind, OutcomeKind::ambiguous);
    EXPECT_EQ(collector.of(3).front().kind, OutcomeKind::ambiguous);
    EXPECT_EQ(collector.of(3).front().code, "PRECONDITION_FAILED");
    const std::vector<Message> again{event(4, "q", "fine"), event(3, "q", "poison"), event(5, "q", "fine")};
    Collector second;
    rabbit->send(pointers_to(again), second);
    ASSERT_TRUE(second.wait_for(3));
    EXPECT_EQ(second.of(4).front().kind, OutcomeKind::delivered);
    EXPECT_EQ(second.of(3).front().kind, OutcomeKind::permanent);
    EXPECT_EQ(second.of(5).front().kind, OutcomeKind::delivered);
}

}  // namespace
}  // namespace deliverd::sink
