#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "http/testing/raw_client.h"
#include "http/testing/server_fixture.h"

namespace deliverd::http {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Server, AnswersOverAndOverOnOneConnection) {
    const auto server = serve({});
    RawClient client(server->port());
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(client.send(get("/a?b=" + std::to_string(i))));
        const auto response = client.response();
        EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
        EXPECT_THAT(response, HasSubstr("\r\n\r\nGET /a b=" + std::to_string(i)));
        EXPECT_EQ(response.find("Server:"), std::string::npos);
    }
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
    const auto server = serve({});
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("/1") + post("two") + get("/3")));
    EXPECT_THAT(client.response(), HasSubstr("GET /1"));
    EXPECT_THAT(client.response(), HasSubstr("POST /p  two"));
    EXPECT_THAT(client.response(), HasSubstr("GET /3"));
}

TEST(Server, ReadsChunkedBodies) {
    const auto server = serve({});
    RawClient client(server->port());
    ASSERT_TRUE(client.send(
        "POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n4\r\n two\r\n0\r\n\r\n"));
    EXPECT_THAT(client.response(), HasSubstr("POST /p  one two"));
}

TEST(Server, DropsTheTrailerOfAChunkedBody) {
    const auto server = serve({}, [](const Request& request) {
        std::string seen;
        for (const auto& [name, value] : request.headers) seen += name + "=" + value + ";";
        return Response{200, {}, "text/plain", seen + request.body};
    });
    RawClient client(server->port());
    ASSERT_TRUE(
        client.send("POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\none\r\n0\r\nHost: y\r\nAuthorization: Bearer t\r\n\r\n"));
    EXPECT_THAT(client.response(), HasSubstr("\r\n\r\nHost=x;Transfer-Encoding=chunked;one"));
}

TEST(Server, SaysContinueBeforeTheBodyIsSent) {
    const auto server = serve({});
    RawClient client(server->port());
    ASSERT_TRUE(client.send("POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
    EXPECT_EQ(client.response(), "HTTP/1.1 100 Continue\r\n\r\n");
    ASSERT_TRUE(client.send("abc"));
    EXPECT_THAT(client.response(), HasSubstr("POST /p  abc"));
}

TEST(Server, AnswersHeadWithoutABody) {
    const auto server = serve({});
    RawClient client(server->port());
    ASSERT_TRUE(client.send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\n" + get("/b")));
    const auto head = client.response(false);
    EXPECT_THAT(head, HasSubstr("Content-Length: 9\r\n"));
    EXPECT_THAT(client.response(), HasSubstr("GET /b"));  // nothing stood between the two
}

TEST(Server, ClosesForHttp10AndForConnectionClose) {
    const auto server = serve({});
    for (const auto* request : {"GET /a HTTP/1.0\r\n\r\n", "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"}) {
        RawClient client(server->port());
        ASSERT_TRUE(client.send(request));
        EXPECT_THAT(client.response(), HasSubstr("GET /a"));
        EXPECT_TRUE(client.closed());
    }
    RawClient client(server->port());
    ASSERT_TRUE(client.send("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    EXPECT_THAT(client.response(), HasSubstr("Connection: keep-alive\r\n"));
    ASSERT_TRUE(client.send("GET /b HTTP/1.0\r\n\r\n"));
    EXPECT_THAT(client.response(), HasSubstr("GET /b"));
}

TEST(Server, TakesAbsoluteTargets) {
    const auto server = serve({});
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("http://other:99/a/b?c")));
    EXPECT_THAT(client.response(), HasSubstr("\r\n\r\nGET /a/b c"));
}

TEST(Server, RefusesWhatIsNotSoundHttpAndCloses) {
    const auto server = serve({});
    struct Case {
        std::string request, status;
    };
    const std::string host = " HTTP/1.1\r\nHost: x\r\n";
    const std::vector<Case> cases = {
        {"this is not http\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "400"},
        {"GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", "400"},
        {"GET noslash" + host + "\r\n", "400"},
        {"get /" + host + "\r\n", "400"},
        {"GET /" + host + "Bad Header: 1\r\n\r\n", "400"},
        {"GET / HTTP/1.1\r\nHost: x\r\n folded: 1\r\nbroken\r\n\r\n", "400"},
        {"POST /" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", "400"},
        {"POST /" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
        {"POST /" + host + "Content-Length: -1\r\n\r\n", "400"},
        {"POST /" + host + "Transfer-Encoding: gzip\r\n\r\n", "501"},
        {"POST /" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", "501"},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
        {"POST /" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400"},
        {"POST /" + host + "Expect: a-miracle\r\nContent-Length: 1\r\n\r\n", "417"},
    };
    for (const auto& c : cases) {
        RawClient client(server->port());
        ASSERT_TRUE(client.send(c.request));
        EXPECT_THAT(client.response(), StartsWith("HTTP/1.1 " + c.status)) << c.request;
        EXPECT_TRUE(client.closed()) << c.request;
    }
}

TEST(Server, RefusesHeadersOverTheLimit) {
    ServerOptions options;
    options.max_header_bytes = 1024;
    const auto server = serve(options);
    RawClient small(server->port());
    ASSERT_TRUE(small.send(get("/a", "X-A: " + std::string(800, 'a') + "\r\n")));
    EXPECT_THAT(small.response(), StartsWith("HTTP/1.1 200"));
    RawClient large(server->port());
    ASSERT_TRUE(large.send(get("/a", "X-A: " + std::string(2000, 'a') + "\r\n")));
    EXPECT_THAT(large.response(), StartsWith("HTTP/1.1 431"));
    EXPECT_TRUE(large.closed());
}

TEST(Server, CountsTheFirstLineAndTheFieldsOfAHeaderTogether) {
    ServerOptions options;
    options.max_header_bytes = 1024;
    const auto server = serve(options);
    const std::size_t rest = get("/", "X-A: \r\n").size();
    for (const std::size_t size : {1024U, 1025U}) {
        RawClient client(server->port());
        const std::string request =
            get("/" + std::string(600, 'a'), "X-A: " + std::string(size - rest - 600, 'a') + "\r\n");
        ASSERT_EQ(request.size(), size);
        ASSERT_TRUE(client.send(request));
        EXPECT_THAT(client.response(), StartsWith(size == 1024 ? "HTTP/1.1 200" : "HTTP/1.1 431"));
    }
}

TEST(Server, RefusesBodiesOverTheLimitWhileTheClientIsStillSending) {
    ServerOptions options;
    options.max_body_bytes = 1000;
    const auto server = serve(options);
    RawClient fits(server->port());
    ASSERT_TRUE(fits.send(post(std::string(1000, 'x'))));
    EXPECT_THAT(fits.response(), StartsWith("HTTP/1.1 200"));
    RawClient announced(server->port());
    ASSERT_TRUE(announced.send(post(std::string(4'000'000, 'x'))));  // all of it goes out before the answer is read
    const auto response = announced.response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 413"));
    EXPECT_THAT(response, HasSubstr("PAYLOAD_TOO_LARGE"));
    RawClient chunked(server->port());
    ASSERT_TRUE(chunked.send("POST /p HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
                             std::string(2000, 'x') + "\r\n0\r\n\r\n"));
    EXPECT_THAT(chunked.response(), StartsWith("HTTP/1.1 413"));
    RawClient expecting(server->port());
    ASSERT_TRUE(expecting.send("POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n"));
    EXPECT_THAT(expecting.response(), StartsWith("HTTP/1.1 413"));
}

TEST(Server, RunsHandlersAtOnceAndRefusesWhatCannotBeQueued) {
    ServerOptions options;
    options.handler_threads = 3;
    options.max_queued_requests = 1;
    Gate gate;
    const auto server = serve(options, [&](const Request&) {
        gate.pass();
        return Response{200, {}, "text/plain", "done"};
    });
    std::vector<RawClient> clients;
    for (int i = 0; i < 3; ++i) {
        clients.emplace_back(server->port());
        ASSERT_TRUE(clients.back().send(get("/a")));
        ASSERT_TRUE(gate.wait_for(i + 1));
    }
    // One of the next two takes the only place in the queue, the other is refused; which one, the I/O thread decides.
    RawClient fourth(server->port());
    RawClient fifth(server->port());
    ASSERT_TRUE(fourth.send(get("/a")));
    ASSERT_TRUE(fifth.send(get("/a")));
    pollfd entries[] = {{fourth.fd(), POLLIN, 0}, {fifth.fd(), POLLIN, 0}};
    ASSERT_EQ(::poll(entries, 2, 20000), 1);
    auto& refused = entries[0].revents != 0 ? fourth : fifth;
    EXPECT_THAT(refused.response(), testing::AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("\r\nRetry-After: 1\r\n")));
    gate.open();
    for (auto& client : clients) EXPECT_THAT(client.response(), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT((&refused == &fourth ? fifth : fourth).response(), StartsWith("HTTP/1.1 200"));
}

TEST(Server, AnswersQuickRequestsWhileAllHandlerThreadsAreBusy) {
    ServerOptions options;
    options.handler_threads = 1;
    options.max_queued_requests = 1;
    options.is_quick = [](const Request& request) { return request.path.starts_with("/quick"); };
    Gate gate;
    const auto server = serve(options, [&](const Request& request) {
        if (request.path == "/slow") gate.pass();
        if (request.path == "/quick/throw") throw std::runtime_error("boom");
        return echo(request);
    });
    RawClient busy(server->port());
    ASSERT_TRUE(busy.send(get("/slow")));
    ASSERT_TRUE(gate.wait_for(1));
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("/quick/1") + get("/quick/throw") + get("/quick/2") + get("/slow")));
    EXPECT_THAT(client.response(), HasSubstr("GET /quick/1"));
    EXPECT_THAT(client.response(), StartsWith("HTTP/1.1 500"));
    EXPECT_THAT(client.response(), HasSubstr("GET /quick/2"));
    gate.open();
    EXPECT_THAT(client.response(), HasSubstr("GET /slow"));
    EXPECT_THAT(busy.response(), HasSubstr("GET /slow"));
}

TEST(Server, TurnsExceptionsInto500) {
    const auto server = serve({}, [](const Request& request) -> Response {
        if (request.path == "/odd") throw 42;
        throw std::runtime_error("boom");
    });
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("/a") + get("/odd")));
    EXPECT_THAT(client.response(), StartsWith("HTTP/1.1 500"));
    const auto second = client.response();
    EXPECT_THAT(second, StartsWith("HTTP/1.1 500"));
    EXPECT_EQ(second.find("boom"), std::string::npos);
}

TEST(Server, SaysWhyItCannotListen) {
    const auto server = serve({});
    ServerOptions options;
    options.port = server->port();
    const auto second = Server::start(options, echo, plain_error);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, "bind_failed");
    EXPECT_THAT(second.error().message, HasSubstr("127.0.0.1:" + std::to_string(server->port())));
    EXPECT_THAT(second.error().message, HasSubstr("choose another port"));
    options.host = "192.0.2.1";  // documentation address: never this machine's
    const auto elsewhere = Server::start(options, echo, plain_error);
    ASSERT_FALSE(elsewhere);
    EXPECT_THAT(elsewhere.error().message, HasSubstr("192.0.2.1"));
}

TEST(ServerStop, FinishesRequestsUnderWayAndClosesIdleConnections) {
    Gate gate;
    const auto server = serve({}, [&](const Request& request) {
        if (request.path == "/slow") gate.pass();
        return echo(request);
    });
    RawClient idle(server->port());
    ASSERT_TRUE(idle.send(get("/a")));
    ASSERT_THAT(idle.response(), StartsWith("HTTP/1.1 200"));
    RawClient busy(server->port());
    ASSERT_TRUE(busy.send(get("/slow")));
    ASSERT_TRUE(gate.wait_for(1));
    std::thread stopper([&] { server->stop(RawClient::kPatience); });
    EXPECT_TRUE(idle.closed());
    EXPECT_FALSE(RawClient(server->port()).connected());
    gate.open();
    const auto response = busy.response();
    EXPECT_THAT(response, HasSubstr("GET /slow"));
    EXPECT_THAT(response, HasSubstr("Connection: close"));
    EXPECT_TRUE(busy.closed());
    stopper.join();
    server->stop(0s);
}

TEST(ServerStop, EndsWithItsPatienceWhenAClientDoesNot) {
    const auto server = serve({});
    RawClient half(server->port());
    ASSERT_TRUE(half.send("POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"));
    ASSERT_THAT(half.response(), StartsWith("HTTP/1.1 100"));  // the request is under way now
    server->stop(50ms);
    EXPECT_TRUE(half.closed());
}

TEST(ServerStop, AnswersWholeOrNotAtAllUnderLoad) {
    for (int round = 0; round < 5; ++round) {
        const auto server =
            serve({}, [](const Request&) { return Response{200, {}, "text/plain", std::string(1000, 'x')}; });
        Gate started;
        std::atomic<int> torn = 0;
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                RawClient client(server->port());
                for (int n = 0; client.send(get("/a")); ++n) {
                    const auto response = client.response();
                    if (response.empty()) return;
                    if (!response.ends_with(std::string(1000, 'x'))) ++torn;
                    if (n == 5) started.pass();
                }
            });
        }
        EXPECT_TRUE(started.wait_for(4));
        started.open();
        server->stop(RawClient::kPatience);
        for (auto& thread : threads) thread.join();
        EXPECT_EQ(torn, 0);
    }
}

}  // namespace
}  // namespace deliverd::http
