// Events over HTTP: their headers, their signature, and a receiver that is left alone while it fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing/recording_log.h"
#include "http/server.h"
#include "sink/http/http_sink.h"
#include "sink/http/testing/fault_server.h"
#include "sink/http/webhook_signature.h"
#include "sink/testing/collector.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
constexpr const char* kOther = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX";

class HttpEvents : public testing::Test {
protected:
    HttpEvents() {
        http::ServerOptions options;
        options.port = 0;
        auto server = http::Server::start(
            options,
            [this](const http::Request& request) {
                const std::lock_guard lock(mutex_);
                last_ = request;
                ++requests_;
                return http::Response{status_, {}, "text/plain", ""};
            },
            [](int status, std::string_view code, std::string_view) {
                return http::Response{status, {}, "text/plain", std::string(code)};
            });
        EXPECT_TRUE(server);
        server_ = std::move(*server);
    }

    HttpSinkOptions options() {
        HttpSinkOptions out;
        out.url = "http://127.0.0.1:" + std::to_string(server_->port()) + "/in";
        out.events = EventAttributesOptions{};
        return out;
    }

    std::unique_ptr<Sink> sink(HttpSinkOptions options) {
        auto made = make_http_sink(std::move(options), log_);
        EXPECT_TRUE(made) << made.error().message;
        return std::move(*made);
    }

    void answer_with(int status) {
        const std::lock_guard lock(mutex_);
        status_ = status;
    }
    http::Request last() {
        const std::lock_guard lock(mutex_);
        return last_;
    }
    int requests() {
        const std::lock_guard lock(mutex_);
        return requests_;
    }

    static Message event(std::int64_t id = 1) {
        auto message = test_message(id, R"({"a": 1})");
        message.key = "order-1";
        message.type = "OrderCreated";
        message.created_at = "2026-02-20T10:30:00.123Z";
        message.headers = {{"correlation_id", "größe"}, {"traceparent", "00-ab-cd-01"}};
        return message;
    }

    RecordingLog log_;
    std::mutex mutex_;
    http::Request last_;
    int requests_ = 0;
    int status_ = 200;
    std::unique_ptr<http::Server> server_;  // last: its handler uses the rest
};

TEST_F(HttpEvents, SayWhatTheyAreInHeaders) {
    ASSERT_EQ(send_one(*sink(options()), event()).kind, OutcomeKind::delivered);
    const auto request = last();
    EXPECT_EQ(request.body, R"({"a": 1})");
    EXPECT_EQ(request.header("Idempotency-Key"), "memory-1");
    EXPECT_EQ(request.header("Content-Type"), "application/json");
    EXPECT_EQ(request.header("X-aggregate-id"), "order-1");
    EXPECT_EQ(request.header("X-event-type"), "OrderCreated");
    EXPECT_EQ(request.header("X-created-at"), "2026-02-20T10:30:00.123Z");
    EXPECT_EQ(request.header("X-correlation-id"), "gr%C3%B6%C3%9Fe");
    EXPECT_EQ(request.header("X-traceparent"), "00-ab-cd-01");
    EXPECT_EQ(request.header("traceparent"), "00-ab-cd-01");
    EXPECT_EQ(request.header("correlation_id"), "");
    EXPECT_EQ(request.header("X-message-id"), "");
    EXPECT_EQ(request.header("webhook-signature"), "");
}

TEST_F(HttpEvents, AreCloudEventsWhereThatIsWanted) {
    auto wanted = options();
    wanted.events = EventAttributesOptions{EventFormat::cloudevents, "/shop"};
    ASSERT_EQ(send_one(*sink(wanted), event()).kind, OutcomeKind::delivered);
    const auto request = last();
    EXPECT_EQ(request.header("ce-specversion"), "1.0");
    EXPECT_EQ(request.header("ce-id"), "memory-1");
    EXPECT_EQ(request.header("ce-source"), "/shop");
    EXPECT_EQ(request.header("ce-type"), "OrderCreated");
    EXPECT_EQ(request.header("ce-correlationid"), "gr%C3%B6%C3%9Fe");
    EXPECT_EQ(request.header("Content-Type"), "application/json");
    EXPECT_EQ(request.header("X-event-type"), "");
    EXPECT_EQ(request.body, R"({"a": 1})");
}

TEST_F(HttpEvents, AreSignedWithEachSecret) {
    auto wanted = options();
    wanted.secret = std::string(kSecret) + " " + kOther;
    const auto before = std::chrono::system_clock::now();
    ASSERT_EQ(send_one(*sink(wanted), event()).kind, OutcomeKind::delivered);
    const auto request = last();
    EXPECT_EQ(request.header("webhook-id"), "memory-1");
    const auto seconds = std::stoll(std::string(request.header("webhook-timestamp")));
    EXPECT_GE(seconds, std::chrono::floor<std::chrono::seconds>(before).time_since_epoch().count());
    EXPECT_LE(seconds, std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()));
    const auto secrets = WebhookSecrets::parse(wanted.secret);
    EXPECT_EQ(request.header("webhook-signature"), secrets->sign("memory-1", seconds, R"({"a": 1})"));
}

TEST_F(HttpEvents, TheSecretIsReadAgainWhenItsFileChanges) {
    const auto path = std::filesystem::temp_directory_path() / ("deliverd_secret_" + std::to_string(::getpid()));
    const auto write = [&](std::string_view text) { std::ofstream(path, std::ios::trunc) << text << "\n"; };
    const auto signed_by = [&](std::string_view secret) {
        const auto request = last();
        const auto seconds = std::stoll(std::string(request.header("webhook-timestamp")));
        return request.header("webhook-signature") ==
               WebhookSecrets::parse(secret)->sign("memory-1", seconds, R"({"a": 1})");
    };
    auto wanted = options();
    wanted.secret_file = path;
    const auto http = sink(wanted);
    write(kSecret);
    ASSERT_EQ(send_one(*http, event()).kind, OutcomeKind::delivered);
    EXPECT_TRUE(signed_by(kSecret));
    write(std::string(kOther) + "\n" + kSecret);
    ASSERT_EQ(send_one(*http, event()).kind, OutcomeKind::delivered);
    EXPECT_TRUE(signed_by(std::string(kOther) + " " + kSecret));
    EXPECT_TRUE(http->check(5s));
    for (const auto* bad : {"", "s3cret", "whsec_c2hvcnQ="}) {
        write(bad);
        const auto outcome = send_one(*http, event());
        EXPECT_EQ(outcome.code, "SECRET_UNREADABLE") << bad;
        EXPECT_TRUE(outcome.not_attempted);
        EXPECT_THAT(outcome.detail, HasSubstr(path.string()));
        EXPECT_THAT(outcome.detail, Not(HasSubstr("s3cret")));
        const auto checked = http->check(5s);
        ASSERT_FALSE(checked);
        EXPECT_EQ(checked.error().code, "SECRET_UNREADABLE");
        EXPECT_THAT(checked.error().message, Not(HasSubstr("c2hvcnQ")));
    }
    std::filesystem::remove(path);
    EXPECT_EQ(send_one(*http, event()).code, "SECRET_UNREADABLE");
    http->stop(0s);
    EXPECT_EQ(log_.events().size(), 1U);  // when the file turned bad, not with each message
    EXPECT_THAT(log_.text(), Not(HasSubstr("s3cret")));
}

TEST_F(HttpEvents, RefuseABadSecretWithoutRepeatingIt) {
    auto wanted = options();
    wanted.secret = "whsec_s3cret";
    const auto refused = make_http_sink(wanted, log_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "bad_argument");
    EXPECT_THAT(refused.error().message, Not(HasSubstr("s3cret")));
    EXPECT_FALSE(check_http_secret("whsec_s3cret"));
    EXPECT_TRUE(check_http_secret(kSecret));
    wanted.secret = kSecret;
    wanted.secret_file = "/nowhere";
    EXPECT_FALSE(make_http_sink(wanted, log_));
}

TEST_F(HttpEvents, AFailingReceiverGetsNothingDuringThePauseAndThenOneProbe) {
    auto wanted = options();
    wanted.breaker_failures = 3;
    wanted.breaker_pause = 2s;  // not over before the fourth is sent
    const auto http = sink(wanted);
    answer_with(503);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(send_one(*http, event(i)).code, "BROKER_5XX");
    const auto paused = send_one(*http, event(4));
    EXPECT_EQ(paused.kind, OutcomeKind::retryable);
    EXPECT_EQ(paused.code, "DESTINATION_PAUSED");
    EXPECT_TRUE(paused.not_attempted);
    ASSERT_TRUE(paused.retry_after);
    EXPECT_GT(*paused.retry_after, 0s);
    EXPECT_LE(*paused.retry_after, wanted.breaker_pause);
    EXPECT_EQ(requests(), 3);
    EXPECT_EQ(log_.events(), std::vector<std::string>{"destination paused"});

    answer_with(200);
    const auto end = std::chrono::steady_clock::now() + kTestPatience;
    auto outcome = send_one(*http, event(5));
    while (outcome.not_attempted && std::chrono::steady_clock::now() < end) outcome = send_one(*http, event(5));
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered);
    EXPECT_EQ(requests(), 4);
    EXPECT_EQ(send_one(*http, event(6)).kind, OutcomeKind::delivered);
    EXPECT_EQ(log_.events(), (std::vector<std::string>{"destination paused", "destination resumed"}));
}

TEST_F(HttpEvents, RefusalsDoNotPauseAReceiver) {
    auto wanted = options();
    wanted.breaker_failures = 2;
    const auto http = sink(wanted);
    for (const int status : {400, 401, 404, 409, 422, 429, 400, 302}) {
        answer_with(status);
        EXPECT_FALSE(send_one(*http, event()).not_attempted) << status;
    }
    EXPECT_EQ(requests(), 8);
}

TEST_F(HttpEvents, AMessageThatFailedBeforeDoesNotCountForTheBreaker) {
    auto wanted = options();
    wanted.breaker_failures = 2;
    const auto http = sink(wanted);
    answer_with(500);
    Message again = event();
    again.failures = 1;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(send_one(*http, again).code, "BROKER_5XX");
    EXPECT_EQ(send_one(*http, event()).code, "BROKER_5XX");
    EXPECT_EQ(send_one(*http, again).code, "BROKER_5XX");  // nor does it end the row
    EXPECT_EQ(send_one(*http, event()).code, "BROKER_5XX");
    EXPECT_EQ(send_one(*http, again).code, "DESTINATION_PAUSED");
}

TEST_F(HttpEvents, WithoutABreakerNothingIsPaused) {
    const auto http = sink(options());
    answer_with(500);
    for (int i = 0; i < 50; ++i) EXPECT_EQ(send_one(*http, event(i)).code, "BROKER_5XX");
    EXPECT_EQ(requests(), 50);
}

TEST(HttpBreaker, CountsReceiversThatCannotBeReachedOrDoNotAnswer) {
    NullLog log;
    HttpSinkOptions options;
    options.breaker_failures = 2;
    options.breaker_pause = 1h;
    {
        const FaultServer gone([](Peer&) {});
        options.url = gone.url();
    }
    const auto unreachable = make_http_sink(options, log);
    EXPECT_EQ(send_one(**unreachable, test_message(1)).code, "NETWORK_TIMEOUT");
    EXPECT_EQ(send_one(**unreachable, test_message(2)).code, "NETWORK_TIMEOUT");
    EXPECT_EQ(send_one(**unreachable, test_message(3)).code, "DESTINATION_PAUSED");

    const FaultServer silent([](Peer& peer) { peer.wait_until_closed(); });
    options.url = silent.url();
    options.timeout = 50ms;
    const auto stuck = make_http_sink(options, log);
    EXPECT_EQ(send_one(**stuck, test_message(1)).code, "NETWORK_TIMEOUT");
    EXPECT_EQ(send_one(**stuck, test_message(2)).code, "NETWORK_TIMEOUT");
    EXPECT_EQ(send_one(**stuck, test_message(3)).code, "DESTINATION_PAUSED");
}

TEST(HttpBreaker, OneOfManyMessagesIsTheProbe) {
    std::mutex mutex;
    std::condition_variable changed;
    bool answer = false;
    std::atomic<int> requests = 0;
    const FaultServer server([&](Peer& peer) {
        while (peer.read_request()) {
            if (++requests == 1) {
                peer.write("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            std::unique_lock lock(mutex);
            changed.wait_for(lock, kTestPatience, [&] { return answer; });
            peer.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    NullLog log;
    HttpSinkOptions options;
    options.url = server.url();
    options.timeout = kTestPatience;
    options.breaker_failures = 1;
    options.breaker_pause = 1ms;
    const auto http = make_http_sink(options, log);
    ASSERT_EQ(send_one(**http, test_message(1)).code, "BROKER_5XX");

    std::vector<Message> messages;
    for (int i = 0; i < 20; ++i) messages.push_back(test_message(i));
    const auto pointers = pointers_to(messages);
    const auto end = std::chrono::steady_clock::now() + kTestPatience;
    std::vector<std::unique_ptr<Collector>> batches;  // all paused, until one of a batch is the probe
    while (requests < 2 && std::chrono::steady_clock::now() < end) {
        batches.push_back(std::make_unique<Collector>());
        (*http)->send(pointers, *batches.back());
        while (requests < 2 && batches.back()->count() < 20 && std::chrono::steady_clock::now() < end) {
            std::this_thread::yield();
        }
    }
    auto& with_probe = *batches.back();
    ASSERT_TRUE(with_probe.wait_for(19));
    Collector later;
    (*http)->send(pointers, later);
    ASSERT_TRUE(later.wait_for(20));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(later.of(i).front().code, "DESTINATION_PAUSED");
    EXPECT_EQ(with_probe.count(), 19U);
    EXPECT_EQ(requests, 2);
    {
        const std::lock_guard lock(mutex);
        answer = true;
    }
    changed.notify_all();
    ASSERT_TRUE(with_probe.wait_for(20));
    EXPECT_EQ(send_one(**http, test_message(100)).kind, OutcomeKind::delivered);
    EXPECT_EQ(requests, 3);
}

}  // namespace
}  // namespace deliverd::sink
