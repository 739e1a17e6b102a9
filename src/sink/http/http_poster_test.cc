// Posting to addresses that come from data: a real server on a loopback address, which is what must be refused.
#include "sink/http/http_poster.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "http/testing/server_fixture.h"
#include "sink/http/http_url.h"
#include "sink/http/testing/fault_server.h"

namespace deliverd::sink {
namespace {

bool is_private(const char* text) {
    sockaddr_storage storage = {};
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
    } else {
        EXPECT_EQ(inet_pton(AF_INET6, text, &v6->sin6_addr), 1) << text;
        v6->sin6_family = AF_INET6;
    }
    return is_private_address(*reinterpret_cast<const sockaddr*>(&storage));
}

TEST(AddressGuard, EverythingButThePublicInternetIsPrivate) {
    for (const char* address : {"0.0.0.0",
                                "10.1.2.3",
                                "100.64.0.1",
                                "100.127.255.255",
                                "127.0.0.1",
                                "127.255.255.254",
                                "168.63.129.16",
                                "169.254.169.254",
                                "172.16.0.1",
                                "172.31.255.255",
                                "192.168.1.1",
                                "192.0.0.8",
                                "198.18.0.1",
                                "224.0.0.1",
                                "255.255.255.255",
                                "::",
                                "::1",
                                "fe80::1",
                                "fec0::1",
                                "fc00::1",
                                "fd12::1",
                                "ff02::1",
                                "::ffff:127.0.0.1",
                                "::ffff:10.0.0.1",
                                "64:ff9b::7f00:1",
                                "2002:7f00:1::1",
                                "2002:a00:1::",
                                "2001:db8::1",
                                "2001::1",
                                "2001:2::1",
                                "2001:10::1",
                                "2001:1f:ffff::1",
                                "2001:20::1",
                                "2001:2f:ffff::1",
                                "3fff::1",
                                "3fff:fff:ffff::1",
                                "::127.0.0.1"}) {
        EXPECT_TRUE(is_private(address)) << address;
    }
    for (const char* address :
         {"1.1.1.1",         "8.8.8.8",       "172.15.255.255",  "172.32.0.1",      "100.63.255.255", "100.128.0.1",
          "192.167.255.255", "192.169.0.1",   "169.253.1.1",     "126.255.255.255", "128.0.0.1",      "223.255.255.255",
          "168.63.129.15",   "168.63.129.17", "2606:4700::1111", "2001:2:1::1",     "2001:30::1",     "2001:200::1",
          "3fff:1000::1",    "3ffe::1",       "::ffff:8.8.8.8",  "64:ff9b::808:808"}) {
        EXPECT_FALSE(is_private(address)) << address;
    }
}

class HttpPosterTest : public ::testing::Test {
protected:
    HttpPosterTest()
        : server_(http::serve({}, [this](const http::Request& request) {
              const std::lock_guard lock(mutex_);
              seen_.push_back(request);
              http::Response response{status_, {}, "text/plain", "words"};
              if (status_ == 302) response.headers.emplace_back("Location", url("/elsewhere"));
              if (status_ == 429) response.headers.emplace_back("Retry-After", "7");
              return response;
          })) {}

    std::string url(const std::string& path) const {
        return "http://127.0.0.1:" + std::to_string(server_->port()) + path;
    }
    std::unique_ptr<HttpPoster> poster(HttpPosterOptions options) {
        auto made = make_http_poster(std::move(options));
        EXPECT_TRUE(made) << made.error().message;
        return std::move(*made);
    }
    std::vector<http::Request> seen() {
        const std::lock_guard lock(mutex_);
        return seen_;
    }

    std::mutex mutex_;
    std::vector<http::Request> seen_;
    std::atomic<int> status_ = 200;
    std::unique_ptr<http::Server> server_;
};

TEST_F(HttpPosterTest, SendsJsonWithTheTokenAndTheKey) {
    const auto poster = this->poster({.token = "s3cret", .token_hosts = {"127.0.0.1"}, .allow_private = true});
    const PostAnswer answer = poster->post(url("/hooks?x=1"), R"({"a":1})", "hook-1");
    EXPECT_TRUE(answer.is_success()) << answer.problem;
    ASSERT_EQ(seen().size(), 1U);
    const http::Request request = seen().front();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/hooks");
    EXPECT_EQ(request.body, R"({"a":1})");
    EXPECT_EQ(request.header("content-type"), "application/json");
    EXPECT_EQ(request.header("authorization"), "Bearer s3cret");
    EXPECT_EQ(request.header("idempotency-key"), "hook-1");
}

TEST(TokenHosts, TheTokenGoesToNamedHostsOverHttpsOrToLoopback) {
    const std::vector<std::string> hosts = {"example.com", "127.0.0.1", "::1", "localhost", "10.0.0.1"};
    for (const char* url :
         {"https://example.com/", "https://EXAMPLE.com:8443/x?y#z", "https://u:p@example.com/", "https://127.0.0.1/",
          "http://127.0.0.1:9/", "http://[::1]:9/", "http://localhost/", "https://10.0.0.1/"}) {
        EXPECT_TRUE(may_have_token(url, hosts)) << url;
    }
    for (const char* url :
         {"http://example.com/", "https://example.com.evil.net/", "https://evil.net/example.com",
          "https://example.com@evil.net/", "https://evil.net#@example.com/", "https://evil.net?@example.com/",
          "https://sub.example.com/", "https://example.com./", "http://10.0.0.1/", "http://127.0.0.2/",
          "http://localhost.evil.net/", "ftp://example.com/", "example.com", ""}) {
        EXPECT_FALSE(may_have_token(url, hosts)) << url;
    }
    EXPECT_FALSE(may_have_token("https://example.com/", {}));
    for (const char* url : {"https://any.example/", "http://127.1.2.3/", "http://[::1]:9/", "http://LOCALHOST/"}) {
        EXPECT_TRUE(is_guarded_url(url)) << url;
    }
    for (const char* url :
         {"http://any.example/", "http://10.0.0.1/", "http://localhost@any.example/", "ftp://127.0.0.1/"}) {
        EXPECT_FALSE(is_guarded_url(url)) << url;
    }
}

TEST(TokenHosts, AHostIsANameOrAnAddressAlone) {
    EXPECT_EQ(read_token_host("Example.COM").value(), "example.com");
    EXPECT_EQ(read_token_host("[::1]").value(), "::1");
    EXPECT_EQ(read_token_host("::1").value(), "::1");
    for (const char* text : {"", "https://example.com", "example.com:443", "example.com/x", "a@b", "a b", "a,b", "*"}) {
        const auto read = read_token_host(text);
        EXPECT_EQ(read ? *read : read.error().code, "bad_argument") << text;
    }
}

TEST_F(HttpPosterTest, TheTokenIsNotSentToOtherHosts) {
    status_ = 401;
    for (const std::vector<std::string>& hosts : {std::vector<std::string>{}, {"example.com", "localhost"}}) {
        const auto poster = this->poster({.token = "s3cret", .token_hosts = hosts, .allow_private = true});
        const PostAnswer answer = poster->post(url("/"), "{}", "k");
        EXPECT_EQ(answer.problem, "HTTP 401; it was sent without the token, which is not for http://127.0.0.1");
        EXPECT_EQ(seen().back().header("authorization"), "");
    }
}

TEST_F(HttpPosterTest, APrivateAddressIsNotEvenConnectedTo) {
    const auto poster = this->poster({.token = "s3cret"});
    const std::string port = std::to_string(server_->port());
    for (const std::string& host : {std::string("127.0.0.1"), std::string("localhost"), std::string("2130706433"),
                                    std::string("[::ffff:127.0.0.1]"), std::string("0x7f.1")}) {
        const PostAnswer answer = poster->post("http://" + host + ":" + port + "/", "{}", "k");
        EXPECT_EQ(answer.code, "PRIVATE_ADDRESS") << host << " " << answer.problem;
        EXPECT_EQ(answer.status, 0);
    }
    EXPECT_TRUE(seen().empty());
}

TEST_F(HttpPosterTest, ARedirectIsNotFollowed) {
    status_ = 302;
    const PostAnswer answer = poster({.allow_private = true})->post(url("/"), "{}", "k");
    EXPECT_FALSE(answer.is_success());
    EXPECT_EQ(answer.code, "302");
    EXPECT_NE(answer.problem.find("redirects are not followed"), std::string::npos);
    EXPECT_EQ(seen().size(), 1U);
}

TEST_F(HttpPosterTest, RefusalsAndMissingAnswersAreReported) {
    const auto poster = this->poster({.allow_private = true});
    status_ = 429;
    PostAnswer answer = poster->post(url("/"), "{}", "k");
    EXPECT_EQ(answer.code, "429");
    ASSERT_TRUE(answer.retry_after);
    EXPECT_EQ(*answer.retry_after, std::chrono::seconds(7));
    status_ = 204;
    EXPECT_TRUE(poster->post(url("/"), "{}", "a key\r\nX-Bad: 1").is_success());
    EXPECT_EQ(seen().back().header("x-bad"), "");
    for (const char* bad : {"ftp://example.com/", "http://", "nonsense", "file:///etc/passwd", ""}) {
        EXPECT_EQ(poster->post(bad, "{}", "k").code, "BAD_ENDPOINT") << bad;
    }
    const std::string gone = url("/");
    server_.reset();
    answer = poster->post(gone, "{}", "k");
    EXPECT_EQ(answer.status, 0);
    EXPECT_EQ(answer.code, "NETWORK_ERROR");
}

TEST_F(HttpPosterTest, APostOnAKeptConnectionThatEndsIsSentOnce) {
    std::atomic<int> requests = 0;
    const FaultServer server([&](Peer& peer) {
        while (peer.read_request()) {
            if (++requests == 2) return;
            peer.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    const auto poster = this->poster({.allow_private = true});
    EXPECT_TRUE(poster->post(server.url(), R"({"n":1})", "a").is_success());
    const PostAnswer lost = poster->post(server.url(), R"({"n":2})", "b");
    EXPECT_EQ(lost.status, 0);
    EXPECT_EQ(lost.code, "NETWORK_ERROR");
    EXPECT_EQ(requests, 2);
    EXPECT_TRUE(poster->post(server.url(), R"({"n":3})", "c").is_success());
    EXPECT_EQ(requests, 3);
}

TEST_F(HttpPosterTest, AnAnswerThatEndsWithinItsHeaderIsNoAnswer) {
    const FaultServer server([](Peer& peer) {
        if (peer.read_request()) peer.write("HTTP/1.1 200 OK\r\nContent-Le");
    });
    const PostAnswer answer = poster({.allow_private = true})->post(server.url(), "{}", "k");
    EXPECT_EQ(answer.status, 0);
    EXPECT_EQ(answer.code, "NETWORK_ERROR");
}

TEST_F(HttpPosterTest, AStopEndsThePostUnderWayAndAllLaterOnes) {
    const auto one = poster({.allow_private = true, .timeout = std::chrono::minutes(10)});
    std::thread stopper;
    {
        // The server's answer waits for the lock that is held here.
        const std::unique_lock lock(mutex_);
        stopper = std::thread([&] { one->stop(); });
        const PostAnswer cut = one->post(url("/"), "{}", "k");
        EXPECT_EQ(cut.status, 0);
        EXPECT_EQ(cut.code, "STOPPED");
    }
    stopper.join();
    EXPECT_EQ(one->post(url("/"), "{}", "k").code, "STOPPED");
}

TEST_F(HttpPosterTest, ATokenThatCannotBeAHeaderIsRefusedAndNotShown) {
    const auto made = make_http_poster({.token = "a\nb-secret"});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, "bad_argument");
    EXPECT_EQ(made.error().message.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace deliverd::sink
