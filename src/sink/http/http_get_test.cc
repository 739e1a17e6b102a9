#include "sink/http/http_get.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "sink/http/testing/fault_server.h"
#include "sink/http/testing/tls_server.h"
#include "sink/testing/collector.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;

const std::atomic<bool> kNeverStopped = false;

HttpGetOptions options_for(const std::string& url) {
    HttpGetOptions options;
    options.url = url;
    options.connect_timeout = kTestPatience;
    options.timeout = kTestPatience;
    return options;
}

/// Answers every request with `answer`.
FaultServer::Script always_answering(std::string answer) {
    return [answer = std::move(answer)](Peer& peer) {
        while (peer.read_request()) {
            if (!peer.write(answer)) return;
        }
    };
}

std::string get_problem(const std::string& answer) {
    const FaultServer server(always_answering(answer));
    const auto body = http_get(options_for(server.url()), kNeverStopped);
    return body ? "" : body.error().message;
}

TEST(HttpGet, AnswersTheBody) {
    std::string seen;
    const FaultServer server([&](Peer& peer) {
        seen = peer.read_request().value_or("");
        peer.write("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    });
    EXPECT_EQ(http_get(options_for(server.url()), kNeverStopped).value(), "hello");
    EXPECT_THAT(seen, testing::StartsWith("GET /in HTTP/1.1\r\n"));
}

TEST(HttpGet, AnythingBut200IsAFailure) {
    EXPECT_EQ(get_problem("HTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\n{}"), "HTTP 404");
    EXPECT_EQ(get_problem("HTTP/1.1 204 No\r\n\r\n"), "HTTP 204");
    EXPECT_EQ(get_problem("HTTP/1.1 302 No\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
              "HTTP 302: redirects are not followed");
    EXPECT_NE(get_problem("HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nhello"), "") << "cut short";
}

TEST(HttpGet, ALongAnswerIsNotRead) {
    HttpGetOptions options = options_for("");
    const auto body = [&options](std::size_t size) {
        const FaultServer server(always_answering("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(size) +
                                                  "\r\n\r\n" + std::string(size, 'x')));
        options.url = server.url();
        return http_get(options, kNeverStopped);
    };
    EXPECT_EQ(body(options.max_bytes).value().size(), options.max_bytes);
    EXPECT_EQ(body(options.max_bytes + 1).error().message, "the answer is longer than 65536 bytes");
}

TEST(HttpGet, ATlsCertificateIsChecked) {
    const auto context = make_tls_context();
    const FaultServer server([&](Peer& peer) {
        H2Peer h2(context.get(), peer.fd());
        while (const auto stream = h2.next_request()) h2.answer_200(*stream);
    });
    const auto body = http_get(options_for(server.url("https")), kNeverStopped);
    ASSERT_FALSE(body);
    EXPECT_THAT(body.error().message, HasSubstr("certificate"));
    HttpGetOptions no_authorities = options_for(server.url("https"));
    no_authorities.ca_file = "/nowhere/ca.pem";
    EXPECT_FALSE(http_get(no_authorities, kNeverStopped));
}

TEST(HttpGet, EndsWhenItIsStopped) {
    std::atomic<bool> stopped = false;
    const FaultServer server([&](Peer& peer) {
        peer.read_request();
        stopped = true;  // and never answers
        peer.wait_until_closed();
    });
    HttpGetOptions options = options_for(server.url());
    options.timeout = std::chrono::hours(1);
    EXPECT_FALSE(http_get(options, stopped));
}

TEST(HttpGet, AnUnreachableServerIsAFailureWithItsCause) {
    std::string url;
    {
        const FaultServer server(always_answering(""));
        url = server.url();
    }
    const auto body = http_get(options_for(url), kNeverStopped);
    ASSERT_FALSE(body);
    EXPECT_EQ(body.error().error_class, ErrorClass::retryable);
    EXPECT_THAT(body.error().message, HasSubstr("127.0.0.1"));
    EXPECT_EQ(http_get(options_for("file:///etc/passwd"), kNeverStopped).error().code, "bad_argument");
}

}  // namespace
}  // namespace deliverd::sink
