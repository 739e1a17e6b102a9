// What the sink makes of receivers that fail, and of being stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sink/http/http_sink.h"
#include "sink/http/testing/fault_server.h"
#include "sink/testing/collector.h"
#include "sink/testing/stop_contract.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// Long enough for a request to go out on a busy machine: before that, running out of time is not ambiguous.
constexpr auto kShortTimeout = 2s;
constexpr std::string_view kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

std::unique_ptr<Sink> sink_to(std::string url, Duration timeout = kTestPatience, std::size_t max_connections = 64) {
    static NullLog log;
    HttpSinkOptions options;
    options.url = std::move(url);
    options.timeout = timeout;
    options.max_connections = max_connections;
    auto made = make_http_sink(std::move(options), log);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
}

void answer_all(Peer& peer) {
    while (peer.read_request() && peer.write(kOk)) {
    }
}

/// Reads the request, writes `answer`, closes.
FaultServer::Script answering(std::string_view answer) {
    return [answer](Peer& peer) {
        if (peer.read_request()) peer.write(answer);
    };
}

TEST(HttpFault, NobodyListensIsRetryable) {
    std::string url;
    {
        const FaultServer gone(answer_all);
        url = gone.url();
    }
    const auto outcome = send_one(*sink_to(url), test_message(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "NETWORK_TIMEOUT");
    EXPECT_THAT(outcome.detail, HasSubstr("127.0.0.1:"));
}

TEST(HttpFault, AnUnknownHostIsRetryable) {
    const auto outcome = send_one(*sink_to("http://nowhere.invalid/in"), test_message(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_EQ(outcome.code, "NETWORK_TIMEOUT");
    EXPECT_THAT(outcome.detail, HasSubstr("nowhere.invalid"));
}

TEST(HttpFault, AConnectionClosedWithoutAnAnswerIsAmbiguous) {
    for (const auto& script : {FaultServer::Script([](Peer&) {}), answering("")}) {
        const FaultServer server(script);
        const auto outcome = send_one(*sink_to(server.url()), test_message(1));
        EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << outcome.detail;
        EXPECT_EQ(outcome.code, "NETWORK_TIMEOUT");
    }
}

TEST(HttpFault, NoAnswerInTimeIsAmbiguous) {
    const FaultServer server([](Peer& peer) { peer.wait_until_closed(); });
    const auto outcome = send_one(*sink_to(server.url(), kShortTimeout), test_message(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(outcome.code, "NETWORK_TIMEOUT");
    EXPECT_THAT(outcome.detail, HasSubstr(" 2 s"));
}

TEST(HttpFault, ASlowlyDrippingAnswerEndsAtTheTimeout) {
    const FaultServer server([](Peer& peer) {
        if (!peer.read_request() || !peer.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")) return;
        pollfd entry{peer.fd(), POLLIN, 0};  // readable once the client has closed
        while (::poll(&entry, 1, 10) == 0 && peer.write("x")) {
        }
    });
    const auto outcome = send_one(*sink_to(server.url(), kShortTimeout), test_message(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(outcome.code, "NETWORK_TIMEOUT");
}

TEST(HttpFault, HalfAnAnswerIsAmbiguousUnlessTheStatusRefuses) {
    struct Case {
        std::string_view answer;
        OutcomeKind kind;
        std::string_view code;
    };
    for (const auto& c :
         {Case{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"id", OutcomeKind::ambiguous, "UNKNOWN"},
          Case{"HTTP/1.1 200 OK\r\nContent-Le", OutcomeKind::ambiguous, "UNKNOWN"},
          Case{"HTTP/1.1 299 Odd\r\nContent-Length: 10\r\n\r\n{", OutcomeKind::ambiguous, "UNKNOWN"},
          Case{"HTTP/1.1 300 Odd\r\nContent-Length: 10\r\n\r\n{", OutcomeKind::retryable, "UNKNOWN"},
          Case{"HTTP/1.1 409 Conflict\r\nContent-Length: 99\r\n\r\nalready", OutcomeKind::ambiguous, "UNKNOWN"},
          Case{"HTTP/1.1 422 No\r\nContent-Length: 10\r\n\r\n{", OutcomeKind::permanent, "BAD_REQUEST"},
          Case{"HTTP/1.1 502 No\r\nContent-Length: 10\r\n\r\n{", OutcomeKind::retryable, "BROKER_5XX"}}) {
        const FaultServer server(answering(c.answer));
        const auto outcome = send_one(*sink_to(server.url()), test_message(1));
        EXPECT_EQ(outcome.kind, c.kind) << c.answer << outcome.detail;
        EXPECT_EQ(outcome.code, c.code) << c.answer;
    }
}

TEST(HttpFault, ABrokersAnswerThatBreaksOffIsAmbiguous) {
    for (const std::string_view answer :
         {"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"idempotency_key\":\"memory-1\"}",
          "HTTP/1.1 409 Conflict\r\nContent-Length: 99\r\n\r\nalready processed"}) {
        const FaultServer server(answering(answer));
        NullLog log;
        HttpSinkOptions options;
        options.url = server.url();
        options.broker = ProcessedMatch{};
        const auto http = make_http_sink(options, log);
        const auto outcome = send_one(**http, test_message(1));
        EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << answer << outcome.detail;
        EXPECT_EQ(outcome.code, "UNKNOWN") << answer;
        EXPECT_FALSE(outcome.answer);
    }
}

TEST(HttpFault, GarbageIsAmbiguousUnknown) {
    for (const std::string_view answer :
         {"220 mail.example ESMTP\r\n", "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n"}) {
        const FaultServer server(answering(answer));
        const auto outcome = send_one(*sink_to(server.url()), test_message(1));
        EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << answer;
        EXPECT_EQ(outcome.code, "UNKNOWN") << answer;
        EXPECT_THAT(outcome.detail, HasSubstr("is not HTTP")) << answer;
    }
}

TEST(HttpFault, AHandshakeThatTakesTooLongSentNothing) {
    const FaultServer server([](Peer& peer) { peer.wait_until_closed(); });
    const auto outcome = send_one(*sink_to(server.url("https"), 200ms), test_message(1));
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_THAT(outcome.detail, HasSubstr("no connection to 127.0.0.1:"));
}

TEST(HttpFault, AnEndlessSuccessIsDelivered) {
    const FaultServer server([](Peer& peer) {
        if (!peer.read_request() || !peer.write("HTTP/1.1 200 OK\r\n\r\n")) return;
        while (peer.write(std::string(65536, 'x'))) {
        }
    });
    EXPECT_EQ(send_one(*sink_to(server.url()), test_message(1)).kind, OutcomeKind::delivered);
}

TEST(HttpFault, ACutAnswerDoesNotAffectTheNextOne) {
    std::atomic<bool> first = true;
    const FaultServer server([&first](Peer& peer) {
        if (!peer.read_request()) return;
        if (first.exchange(false)) {
            peer.write("HTTP/1.1 200 OK\r\n\r\n");
            while (peer.write(std::string(65536, 'x'))) {
            }
        } else {
            peer.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{");
        }
    });
    const auto http = sink_to(server.url(), kTestPatience, 1);
    EXPECT_EQ(send_one(*http, test_message(1)).kind, OutcomeKind::delivered);
    EXPECT_EQ(send_one(*http, test_message(2)).kind, OutcomeKind::ambiguous);
}

TEST(HttpFault, ConnectionsAreReused) {
    const FaultServer server(answer_all);
    const auto http = sink_to(server.url());
    for (int i = 0; i < 10; ++i) EXPECT_EQ(send_one(*http, test_message(i)).kind, OutcomeKind::delivered);
    EXPECT_EQ(server.accepts(), 1);
}

TEST(HttpFault, ARequestLostOnAReusedConnectionIsNotSentAgain) {
    for (const auto* body : {"{}", ""}) {
        std::atomic<int> requests = 0;
        const FaultServer server([&](Peer& peer) {
            if (!peer.read_request() || ++requests > 1) return;
            peer.write(kOk);
            if (peer.read_request()) ++requests;  // taken, and never answered
        });
        const auto http = sink_to(server.url());
        ASSERT_EQ(send_one(*http, test_message(1)).kind, OutcomeKind::delivered);
        const auto outcome = send_one(*http, test_message(2, body));
        EXPECT_EQ(outcome.kind, OutcomeKind::ambiguous) << outcome.detail;
        EXPECT_EQ(requests, 2) << "body '" << body << "'";
    }
}

TEST(HttpFault, AKeptConnectionThatTheReceiverClosedIsReplaced) {
    std::atomic<int> closed = 0;
    const FaultServer server([&](Peer& peer) {
        if (peer.read_request()) peer.write(kOk);
        ::shutdown(peer.fd(), SHUT_RDWR);
        ++closed;
    });
    const auto http = sink_to(server.url());
    EXPECT_EQ(send_one(*http, test_message(1)).kind, OutcomeKind::delivered);
    pollfd nothing{-1, 0, 0};
    while (closed == 0) ::poll(&nothing, 1, 1);
    EXPECT_EQ(send_one(*http, test_message(2)).kind, OutcomeKind::delivered);
    EXPECT_EQ(server.accepts(), 2);
}

class HttpStop : public testing::Test {
protected:
    void send(Sink& sink, int count) {
        for (int i = 0; i < count; ++i) messages_.push_back(test_message(i));
        sink.send(pointers_to(messages_), collector_);
    }

    void expect_one_each(OutcomeKind kind) {
        for (const auto& message : messages_) {
            const auto outcomes = collector_.of(message.id);
            ASSERT_EQ(outcomes.size(), 1U) << message.id;
            EXPECT_EQ(outcomes.front().kind, kind) << message.id;
        }
    }

    std::vector<Message> messages_;
    Collector collector_;
};

TEST_F(HttpStop, SaysWhatWasNotSentAndWhatIsInDoubt) {
    const FaultServer server([](Peer& peer) { peer.wait_until_closed(); });
    const auto http = sink_to(server.url(), kTestPatience, 3);
    send(*http, 10);  // three under way, seven waiting
    const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
    pollfd nothing{-1, 0, 0};
    while (server.accepts() < 3 && std::chrono::steady_clock::now() < deadline) ::poll(&nothing, 1, 1);
    const StoppedMessages stopped = stop_and_count(*http, 0s, messages_, collector_);
    EXPECT_EQ(stopped.in_doubt, 3U);
    EXPECT_EQ(stopped.not_sent, 7U);
}

TEST_F(HttpStop, WaitsForWhatIsUnderWay) {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
    const FaultServer server([&](Peer& peer) {
        while (peer.read_request()) {
            std::unique_lock lock(mutex);
            changed.wait_for(lock, kTestPatience, [&] { return open; });
            peer.write(kOk);
        }
    });
    const auto http = sink_to(server.url(), kTestPatience, 3);
    send(*http, 10);
    std::thread stopper([&] { http->stop(24h); });  // ends with the last answer, or this test never does
    {
        const std::lock_guard lock(mutex);
        open = true;
        changed.notify_all();
    }
    stopper.join();
    expect_one_each(OutcomeKind::delivered);
    EXPECT_LE(server.accepts(), 3);
}

TEST_F(HttpStop, DestroyingStops) {
    const FaultServer server([](Peer& peer) { peer.wait_until_closed(); });
    auto http = sink_to(server.url());
    send(*http, 5);
    http.reset();
    for (const auto& message : messages_) {
        const auto outcomes = collector_.of(message.id);
        ASSERT_EQ(outcomes.size(), 1U) << message.id;
        EXPECT_EQ(outcomes.front().code, kStopped) << message.id;
    }
}

}  // namespace
}  // namespace deliverd::sink
