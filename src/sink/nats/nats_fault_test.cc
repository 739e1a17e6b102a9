// What the sink makes of servers that die, hang or refuse, and of being stopped. Each has a server of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <map>
#include <set>

#include "sink/nats/nats_sink.h"
#include "sink/nats/testing/nats_server.h"
#include "sink/nats/testing/streams.h"
#include "sink/testing/collector.h"
#include "sink/testing/stop_contract.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

Message event_of_key(std::int64_t id, std::string key = "k") {
    auto message = test_message(id);
    message.key = std::move(key);
    message.type = "T";
    message.topic = "s.a";
    return message;
}

/// For a message that stays without an answer: others have to get theirs in that time.
constexpr auto kShortTimeout = 3s;

std::unique_ptr<Sink> sink_to(NatsSinkOptions options) {
    static NullLog log;
    auto made = make_nats_sink(std::move(options), log);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
}

std::unique_ptr<Sink> sink_to(const NatsServer& server, Duration timeout = kTestPatience) {
    NatsSinkOptions options;
    options.url = server.url();
    options.timeout = timeout;
    return sink_to(std::move(options));
}

/// As a relay's lane: one message of a key at a time, and the same one again until it is delivered.
class OneAtATime final : public OutcomeReceiver {
public:
    OneAtATime(int keys, int of_each) {
        for (int k = 0; k < keys; ++k) {
            for (int i = 0; i < of_each; ++i) {
                const auto id = static_cast<std::int64_t>(k) * of_each + i;
                waiting_["key-" + std::to_string(k)].push_back(event_of_key(id, "key-" + std::to_string(k)));
            }
        }
    }

    void on_outcome(const Message& message, Outcome outcome) override {
        const std::lock_guard lock(mutex_);
        if (under_way_.erase(message.key) != 1) ++surplus_;
        ++kinds_[outcome.kind == OutcomeKind::delivered ? "delivered" : outcome.code];
        if (outcome.kind == OutcomeKind::delivered) {
            delivered_.insert(message.message_id);
            waiting_[message.key].pop_front();
        }
        changed_.notify_all();
    }

    /// Sends until everything is delivered; once `when` are, `before` and `after` are called around a send.
    bool send_all(Sink& sink, std::size_t when, const std::function<void()>& before,
                  const std::function<void()>& after) {
        const auto end = std::chrono::steady_clock::now() + 60s;
        bool called = false;
        while (std::chrono::steady_clock::now() < end) {
            std::vector<const Message*> ready;
            bool call = false;
            {
                std::unique_lock lock(mutex_);
                changed_.wait_for(lock, 10ms, [&] { return under_way_.size() < waiting_.size(); });
                bool left = false;
                for (auto& [key, messages] : waiting_) {
                    left = left || !messages.empty();
                    if (!messages.empty() && under_way_.insert(key).second) ready.push_back(&messages.front());
                }
                if (!left) return true;
                call = !called && delivered_.size() >= when && !ready.empty();
            }
            if (call) before();
            sink.send(ready, *this);
            if (call) after();
            called = called || call;
        }
        return false;
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::deque<Message>> waiting_;
    std::set<std::string> under_way_;
    std::set<std::string> delivered_;
    std::map<std::string, int> kinds_;
    int surplus_ = 0;
};

TEST(NatsFault, AServerKilledAndStartedAgainLosesNothingAndKeepsEachKeysOrder) {
    NatsServer server;
    Streams(server.url()).add("s");
    constexpr int kKeys = 500;
    constexpr int kOfEach = 40;
    OneAtATime work(kKeys, kOfEach);
    const auto nats = sink_to(server);
    // Paused first, or it might have acknowledged all that is under way before it dies.
    ASSERT_TRUE(work.send_all(
        *nats, 8'000, [&] { server.pause(); },
        [&] {
            server.kill9();
            server.start();
        }))
        << work.delivered_.size();
    nats->stop(0s);
    EXPECT_EQ(work.surplus_, 0);
    EXPECT_EQ(work.delivered_.size(), static_cast<std::size_t>(kKeys) * kOfEach);
    EXPECT_GT(work.kinds_["CONNECTION_LOST"] + work.kinds_["BROKER_UNREACHABLE"], 0);

    Streams streams(server.url());
    std::map<std::string, std::vector<std::string>> first_arrivals;
    std::set<std::string> seen;
    for (const auto& stored : streams.all("s")) {
        const auto& id = stored.headers.at("Nats-Msg-Id");
        if (seen.insert(id).second) first_arrivals[stored.headers.at("aggregate_id")].push_back(id);
    }
    EXPECT_EQ(seen, work.delivered_);
    for (int k = 0; k < kKeys; ++k) {
        std::vector<std::string> expected;
        for (int i = 0; i < kOfEach; ++i) expected.push_back("memory-" + std::to_string(k * kOfEach + i));
        EXPECT_EQ(first_arrivals["key-" + std::to_string(k)], expected);
    }
}

TEST(NatsFault, APausedServerIsAmbiguous) {
    NatsServer server;
    Streams(server.url()).add("s");
    const auto nats = sink_to(server, kShortTimeout);
    ASSERT_EQ(send_one(*nats, event_of_key(1)).kind, OutcomeKind::delivered);
    server.pause();
    const auto outcome = send_one(*nats, event_of_key(2));
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(outcome.code, "ACK_TIMEOUT");
    EXPECT_THAT(outcome.detail, HasSubstr(" 3 s"));
    server.resume();
    const auto later = sink_to(server);
    EXPECT_EQ(send_one(*later, event_of_key(2)).kind, OutcomeKind::delivered);
    EXPECT_EQ(Streams(server.url()).count("s"), 2U);  // it had arrived
}

TEST(NatsFault, AConnectionLostBeforeTheAcknowledgementIsAmbiguous) {
    NatsServer server;
    Streams(server.url()).add("s");
    const auto nats = sink_to(server);
    ASSERT_EQ(send_one(*nats, event_of_key(1)).kind, OutcomeKind::delivered);
    server.pause();
    Collector collector;
    const auto message = event_of_key(2);
    const Message* pointer = &message;
    nats->send({&pointer, 1}, collector);
    // What libnats has not written yet is not sent at all; either way nobody can know.
    server.kill9();
    ASSERT_TRUE(collector.wait_for(1));
    const auto outcome = collector.of(2).front();
    EXPECT_TRUE(outcome.code == "CONNECTION_LOST" || outcome.code == kBrokerUnreachable) << outcome.code;
    EXPECT_EQ(outcome.kind == OutcomeKind::ambiguous, outcome.code == "CONNECTION_LOST");
    EXPECT_EQ(outcome.not_attempted, outcome.code == kBrokerUnreachable);
}

TEST(NatsFault, WithoutAServerNothingIsTriedAndWithOneDeliveryResumes) {
    NatsServer server;
    Streams(server.url()).add("s");
    server.kill9();
    const auto nats = sink_to(server);
    for (int i = 0; i < 3; ++i) {
        const auto outcome = send_one(*nats, event_of_key(i));
        EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
        EXPECT_EQ(outcome.code, kBrokerUnreachable);
        EXPECT_TRUE(outcome.not_attempted);
        EXPECT_THAT(outcome.detail, HasSubstr("127.0.0.1:"));
    }
    EXPECT_FALSE(nats->check(2s));
    server.start();
    const auto end = std::chrono::steady_clock::now() + kTestPatience;
    auto outcome = send_one(*nats, event_of_key(5));
    while (outcome.not_attempted && std::chrono::steady_clock::now() < end) outcome = send_one(*nats, event_of_key(5));
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
}

TEST(NatsFault, WithoutJetStreamAMissingStreamIsNotPermanent) {
    const NatsServer server({.jetstream = false});
    const auto nats = sink_to(server);
    const auto outcome = send_one(*nats, event_of_key(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "JETSTREAM_UNAVAILABLE");
    EXPECT_TRUE(outcome.not_attempted);
    const auto checked = nats->check(kTestPatience);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, "JETSTREAM_UNAVAILABLE");
}

TEST(NatsFault, AWrongPasswordIsReportedAndNotShown) {
    const NatsServer server({.extra = R"(authorization { user: relay, password: "right-s3cret" })"});
    Streams(server.url("relay:right-s3cret@")).add("s");
    NatsSinkOptions options;
    options.url = server.url("relay:wrong-s3cret@");
    const auto wrong = sink_to(options);
    const auto checked = wrong->check(kTestPatience);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, "UNAUTHORIZED");
    EXPECT_THAT(checked.error().message, HasSubstr("refused user, password"));
    EXPECT_THAT(checked.error().message, Not(HasSubstr("s3cret")));
    const auto outcome = send_one(*wrong, event_of_key(1));
    EXPECT_TRUE(outcome.not_attempted);
    EXPECT_THAT(outcome.detail, HasSubstr("refused user, password"));
    EXPECT_THAT(outcome.detail, Not(HasSubstr("s3cret")));
    options.url = server.url("relay:right-s3cret@");
    const auto right = sink_to(options);
    EXPECT_TRUE(right->check(kTestPatience));
    EXPECT_EQ(send_one(*right, event_of_key(1)).kind, OutcomeKind::delivered);
}

TEST(NatsFault, ATokenComesFromItsFileAtEachTry) {
    const NatsServer server({.extra = R"(authorization { token: "right-s3cret" })"});
    Streams(server.url("right-s3cret@")).add("s");
    const auto path = server.folder() / "token";
    NatsSinkOptions options;
    options.url = server.url();
    options.token_file = path;
    const auto nats = sink_to(options);
    EXPECT_EQ(nats->check(kTestPatience).error().code, "TOKEN_UNREADABLE");
    EXPECT_TRUE(send_one(*nats, event_of_key(1)).not_attempted);
    std::ofstream(path) << "wrong-s3cret\n";
    EXPECT_EQ(nats->check(kTestPatience).error().code, "UNAUTHORIZED");
    std::ofstream(path) << "right-s3cret\n";
    EXPECT_TRUE(nats->check(kTestPatience));
    const auto end = std::chrono::steady_clock::now() + kTestPatience;
    auto outcome = send_one(*nats, event_of_key(1));
    while (outcome.not_attempted && std::chrono::steady_clock::now() < end) outcome = send_one(*nats, event_of_key(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered) << outcome.detail;
}

/// A server with a stream "s" where the user `relay` may not publish to "s.a".
class NatsPermissions : public testing::Test {
protected:
    std::unique_ptr<Sink> relay(Duration timeout) {
        NatsSinkOptions options;
        options.url = server_.url("relay:r@");
        options.timeout = timeout;
        return sink_to(options);
    }
    void SetUp() override { Streams(server_.url("admin:a@")).add("s"); }

    NatsServer server_{{.extra = R"(authorization { users: [
        { user: admin, password: a }
        { user: relay, password: r, permissions: { publish: { deny: "s.a" } } } ] })"}};
};

TEST_F(NatsPermissions, ASubjectTheUserMayNotUseIsPermanent) {
    const auto nats = relay(kTestPatience);
    const auto outcome = send_one(*nats, event_of_key(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::permanent) << outcome.detail;
    EXPECT_EQ(outcome.code, "NOT_PERMITTED");
    EXPECT_THAT(outcome.detail, HasSubstr("'s.a'"));
    auto allowed = event_of_key(2);
    allowed.topic = "s.b";
    EXPECT_EQ(send_one(*nats, allowed).kind, OutcomeKind::delivered);
}

TEST_F(NatsPermissions, OfManyEachIsJudgedByItsSubject) {
    const auto nats = relay(kTestPatience);
    std::vector<Message> messages;
    for (int i = 0; i < 1000; ++i) {
        messages.push_back(event_of_key(i));
        if (i % 2 == 1) messages.back().topic = "s.b";
    }
    Collector collector;
    nats->send(pointers_to(messages), collector);
    ASSERT_TRUE(collector.wait_for(messages.size()));
    for (int i = 0; i < 1000; ++i) {
        EXPECT_EQ(collector.of(i).front().code, i % 2 == 1 ? "" : "NOT_PERMITTED") << i;
    }
}

TEST_F(NatsPermissions, ARefusalSaysNothingAboutALaterSilence) {
    const auto nats = relay(kShortTimeout);
    ASSERT_EQ(send_one(*nats, event_of_key(1)).code, "NOT_PERMITTED");
    server_.pause();
    const auto outcome = send_one(*nats, event_of_key(2));  // by now it may be allowed
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(outcome.code, "ACK_TIMEOUT");
}

TEST(NatsFault, AUserWhoMayNotAskWhyIsNotTriedForEver) {
    const NatsServer server({.extra = R"(authorization { users: [
        { user: relay, password: r, permissions: { publish: { deny: "$JS.API.>" } } } ] })"});
    NatsSinkOptions options;
    options.url = server.url("relay:r@");
    options.timeout = kShortTimeout;
    const auto outcome = send_one(*sink_to(options), event_of_key(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);  // nobody took it, so it is not ambiguous
    EXPECT_EQ(outcome.code, "JETSTREAM_UNAVAILABLE");
    EXPECT_FALSE(outcome.not_attempted);
}

TEST(NatsFault, TlsIsCheckedAgainstTheAuthorities) {
    const NatsServer server({.tls = true});
    NatsSinkOptions options;
    options.url = server.url("", "tls", "localhost");
    const auto unknown = sink_to(options)->check(kTestPatience);
    ASSERT_FALSE(unknown);
    EXPECT_THAT(unknown.error().message, HasSubstr("no TLS with NATS at localhost:"));
    EXPECT_THAT(unknown.error().message, HasSubstr("ca_file"));
    options.verify_tls = false;
    EXPECT_TRUE(sink_to(options)->check(kTestPatience));
    options.verify_tls = true;
    options.ca_file = server.ca_file();
    const auto trusting = sink_to(options);
    const auto checked = trusting->check(kTestPatience);
    EXPECT_TRUE(checked) << checked.error().message;
    EXPECT_EQ(send_one(*trusting, event_of_key(1)).code, "NO_STREAM");
    options.url = server.url("", "tls", "127.0.0.1");
    const auto by_address = sink_to(options)->check(kTestPatience);
    EXPECT_TRUE(by_address) << by_address.error().message;
    options.url = server.url("", "nats", "localhost");  // the server wants TLS, so there is TLS
    EXPECT_TRUE(sink_to(options)->check(kTestPatience));
    const NatsServer plain;
    options.url = plain.url("", "tls");
    const auto none = sink_to(options)->check(kTestPatience);
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().message, HasSubstr("no TLS with NATS"));
}

class NatsStop : public testing::Test {
protected:
    void send(Sink& sink, int count) {
        for (int i = 0; i < count; ++i) messages_.push_back(event_of_key(i));
        sink.send(pointers_to(messages_), collector_);
    }

    NatsServer server_;
    std::vector<Message> messages_;
    Collector collector_;
};

TEST_F(NatsStop, ReportsWhatIsLeftAndThenNothingMore) {
    Streams(server_.url()).add("s");
    const auto nats = sink_to(server_);
    ASSERT_EQ(send_one(*nats, event_of_key(-1)).kind, OutcomeKind::delivered);
    server_.pause();
    send(*nats, 10'000);  // more than the window: some were never published
    const StoppedMessages stopped = stop_and_count(*nats, 3s, messages_, collector_);  // some have to be published
    EXPECT_GT(stopped.in_doubt, 0U);
    EXPECT_LE(stopped.in_doubt, 4096U);  // the window: the rest was never published, and its outcome says so
    server_.resume();
}

TEST_F(NatsStop, InTheMiddleReportsEachOnce) {
    Streams(server_.url()).add("s");
    const auto nats = sink_to(server_);
    send(*nats, 20'000);
    ASSERT_TRUE(collector_.wait_for(1'000));
    nats->stop(0s);
    EXPECT_EQ(collector_.count(), messages_.size());
    std::set<std::string> delivered;
    for (const auto& message : messages_) {
        const auto outcomes = collector_.of(message.id);
        ASSERT_EQ(outcomes.size(), 1U);
        if (outcomes.front().kind == OutcomeKind::delivered) delivered.insert(message.message_id);
    }
    std::set<std::string> stored;
    for (const auto& message : Streams(server_.url()).all("s")) stored.insert(message.headers.at("Nats-Msg-Id"));
    EXPECT_TRUE(std::includes(stored.begin(), stored.end(), delivered.begin(), delivered.end()));
}

TEST_F(NatsStop, WaitsForWhatIsUnderWay) {
    Streams(server_.url()).add("s");
    const auto nats = sink_to(server_);
    send(*nats, 5'000);
    nats->stop(24h);
    for (const auto& message : messages_) {
        ASSERT_EQ(collector_.of(message.id).size(), 1U);
        EXPECT_EQ(collector_.of(message.id).front().kind, OutcomeKind::delivered);
    }
}

}  // namespace
}  // namespace deliverd::sink
