// Clients that are slow or silent, and more of them than there are places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "http/testing/raw_client.h"
#include "http/testing/server_fixture.h"

namespace deliverd::http {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

bool descriptors_fall_to(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + RawClient::kPatience;
    while (open_descriptors() > count) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

/// Connects anew until a request is answered 200, or the patience ends.
bool is_served_in_the_end(const Server& server) {
    const auto deadline = std::chrono::steady_clock::now() + RawClient::kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
        RawClient client(server.port());
        client.send(get("/again"));
        if (client.response().starts_with("HTTP/1.1 200")) return true;
    }
    return false;
}

TEST(SlowClients, CutsAClientThatDripsItsHeaderWhileOthersAreServed) {
    ServerOptions options;
    options.header_timeout = 2s;  // from the connection on: there must be time for a turn of the loop
    const auto server = serve(options);
    RawClient slow(server->port());
    RawClient other(server->port());
    const std::string request = get("/slow", "X-A: " + std::string(10000, 'a') + "\r\n");
    std::size_t sent = 0;
    int served = 0;
    // A byte every 10 ms would keep any timeout alive that starts anew with each byte.
    while (sent < request.size() && !slow.readable(10ms)) {
        slow.send(std::string_view(request).substr(sent++, 1));
        if (!other.send(get("/other"))) break;
        if (other.response().starts_with("HTTP/1.1 200")) ++served;
    }
    EXPECT_LT(sent, request.size());
    EXPECT_TRUE(slow.closed());
    EXPECT_GT(served, 0);
}

TEST(SlowClients, CutsClientsThatStopTalking) {
    // A server for each, with the others' limits far off: a client that is only slow must not be cut by them.
    const auto impatient_in = [](Duration ServerOptions::* limit) {
        ServerOptions options;
        options.header_timeout = options.body_timeout = options.idle_timeout = 2 * RawClient::kPatience;
        options.*limit = 100ms;
        return serve(options);
    };
    const auto header_server = impatient_in(&ServerOptions::header_timeout);
    RawClient silent(header_server->port());
    EXPECT_TRUE(silent.closed());
    const auto body_server = impatient_in(&ServerOptions::body_timeout);
    RawClient half_a_body(body_server->port());
    ASSERT_TRUE(half_a_body.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"));
    EXPECT_TRUE(half_a_body.closed());
    const auto idle_server = impatient_in(&ServerOptions::idle_timeout);
    RawClient idle(idle_server->port());
    ASSERT_TRUE(idle.send(get("/a")));
    EXPECT_THAT(idle.response(), StartsWith("HTTP/1.1 200"));
    EXPECT_TRUE(idle.closed());
}

TEST(SlowClients, CutsAClientThatDoesNotReadItsAnswer) {
    ServerOptions options;
    options.write_timeout = 200ms;
    options.max_connections = 1;
    const auto server = serve(options, [](const Request& request) {
        return Response{200, {}, "text/plain", std::string(request.path == "/huge" ? 64UL * 1024 * 1024 : 1, 'x')};
    });
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("/huge")));
    ASSERT_TRUE(client.readable(RawClient::kPatience));
    EXPECT_TRUE(is_served_in_the_end(*server));  // there is one place, so the first client has lost it
}

TEST(SlowClients, LoseTheirConnectionWhenTheyDripABody) {
    ServerOptions options;
    options.body_timeout = 300ms;
    const auto server = serve(options);
    const std::size_t before = open_descriptors();
    {
        RawClient slow(server->port());
        ASSERT_TRUE(slow.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"));
        std::size_t sent = 0;
        while (sent < 100000 && !slow.readable(10ms)) {
            slow.send("x");
            ++sent;
        }
        EXPECT_LT(sent, 100000);
        EXPECT_TRUE(slow.closed());
        EXPECT_EQ(slow.rest(), "");  // nothing that could be taken for an answer
    }
    EXPECT_TRUE(descriptors_fall_to(before));
}

TEST(SlowClients, MayLeaveInTheMiddleOfABody) {
    const auto server = serve({});
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 20; ++i) {
        RawClient client(server->port());
        ASSERT_TRUE(client.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"));
        if (i % 2 == 0) continue;
        client.finish_sending();
        EXPECT_TRUE(client.closed());
    }
    EXPECT_TRUE(descriptors_fall_to(before));
    EXPECT_TRUE(is_served_in_the_end(*server));
}

TEST(FullHouse, ANewConnectionTakesThePlaceOfTheOneThatWaitedLongest) {
    ServerOptions options;
    options.max_connections = 3;
    const auto server = serve(options);
    RawClient kept_alive(server->port());
    ASSERT_TRUE(kept_alive.send(get("/a")));
    ASSERT_THAT(kept_alive.response(), StartsWith("HTTP/1.1 200"));
    RawClient half_a_header(server->port());
    ASSERT_TRUE(half_a_header.send("GET /half HTTP/1.1\r\nHo"));
    RawClient silent(server->port());
    RawClient first(server->port());
    ASSERT_TRUE(first.send(get("/first")));
    EXPECT_THAT(first.response(), HasSubstr("GET /first"));
    EXPECT_TRUE(kept_alive.closed());
    RawClient second(server->port());
    ASSERT_TRUE(second.send(get("/second")));
    EXPECT_THAT(second.response(), HasSubstr("GET /second"));
    EXPECT_TRUE(half_a_header.closed());
    EXPECT_EQ(half_a_header.rest(), "");
    // The newcomers have their places, and so has the one that has waited less long.
    for (auto* client : {&first, &second, &silent}) {
        ASSERT_TRUE(client->send(get("/again")));
        EXPECT_THAT(client->response(), HasSubstr("GET /again"));
    }
}

TEST(FullHouse, EachAnswerPutsAConnectionBehindThoseThatWait) {
    ServerOptions options;
    options.max_connections = 2;
    const auto server = serve(options);
    RawClient active(server->port());
    ASSERT_TRUE(active.send(get("/a")));
    ASSERT_THAT(active.response(), HasSubstr("GET /a"));
    RawClient silent(server->port());
    ASSERT_TRUE(active.send(get("/b")));
    ASSERT_THAT(active.response(), HasSubstr("GET /b"));
    RawClient newcomer(server->port());
    EXPECT_TRUE(silent.closed());
    ASSERT_TRUE(active.send(get("/c")));
    EXPECT_THAT(active.response(), HasSubstr("GET /c"));
}

TEST(FullHouse, ManySilentConnectionsKeepNobodyOut) {
    ServerOptions options;
    options.max_connections = 8;
    const auto server = serve(options);
    std::vector<RawClient> silent;
    for (int i = 0; i < 200; ++i) {
        silent.emplace_back(server->port());
        if (i % 2 == 0) silent.back().send("POST /p HT");
        if (i % 10 != 0) continue;
        RawClient client(server->port());
        ASSERT_TRUE(client.send(get("/in")));
        ASSERT_THAT(client.response(), StartsWith("HTTP/1.1 200")) << i;
    }
}

TEST(FullHouse, RefusesNewConnectionsWhileAllAreServed) {
    ServerOptions options;
    options.max_connections = 3;
    Gate gate;
    const auto server = serve(options, [&](const Request& request) {
        if (request.path == "/slow") gate.pass();
        return echo(request);
    });
    std::vector<RawClient> busy;
    for (int i = 0; i < 3; ++i) {
        busy.emplace_back(server->port());
        // A body that has been read to its end protects as well as none.
        ASSERT_TRUE(
            busy.back().send(i == 0 ? "POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo" : get("/slow")));
    }
    ASSERT_TRUE(busy.front().send("dy"));
    ASSERT_TRUE(gate.wait_for(3));
    RawClient over(server->port());
    const std::string refusal = over.response();
    EXPECT_THAT(refusal, StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(refusal, HasSubstr("\r\nRetry-After: 1\r\n"));
    EXPECT_TRUE(over.closed());
    gate.open();
    for (auto& client : busy) EXPECT_THAT(client.response(), StartsWith("HTTP/1.1 200"));
    EXPECT_TRUE(is_served_in_the_end(*server));
}

TEST(FullHouse, OfThoseWithAWholeHeaderTheOldestThatOwesItsBodyGoes) {
    ServerOptions options;
    options.max_connections = 3;
    Gate gate;
    const auto server = serve(options, [&](const Request& request) {
        if (request.path == "/slow") gate.pass();
        return echo(request);
    });
    RawClient handled(server->port());
    ASSERT_TRUE(handled.send(get("/slow")));
    ASSERT_TRUE(gate.wait_for(1));
    const auto begin_body = [](RawClient& client) {  // the 100 says that its header has been read
        ASSERT_TRUE(client.send("POST /p HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"));
        ASSERT_THAT(client.response(), StartsWith("HTTP/1.1 100"));
    };
    RawClient oldest(server->port());
    begin_body(oldest);
    RawClient younger(server->port());
    begin_body(younger);
    ASSERT_TRUE(oldest.send("bo"));  // dribbling on does not make it younger
    RawClient newcomer(server->port());
    ASSERT_TRUE(newcomer.send(get("/new")));
    EXPECT_THAT(newcomer.response(), HasSubstr("GET /new"));
    EXPECT_TRUE(oldest.closed());
    EXPECT_EQ(oldest.rest(), "");
    ASSERT_TRUE(younger.send("body"));
    EXPECT_THAT(younger.response(), HasSubstr("POST /p"));
    gate.open();
    EXPECT_THAT(handled.response(), HasSubstr("GET /slow"));
}

TEST(FullHouse, ManyDribblingBodiesKeepNobodyOut) {
    ServerOptions options;
    options.max_connections = 8;
    const auto server = serve(options);
    std::vector<RawClient> dribbling;
    for (int i = 0; i < 200; ++i) {
        dribbling.emplace_back(server->port());
        dribbling.back().send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nab");
        for (auto& client : dribbling) client.send("c");
        if (i % 10 != 0) continue;
        RawClient client(server->port());
        ASSERT_TRUE(client.send(get("/in")));
        ASSERT_THAT(client.response(), StartsWith("HTTP/1.1 200")) << i;
    }
}

/// Leaves this process room for `free` more descriptors, until the end of its life.
class FewDescriptors {
public:
    explicit FewDescriptors(std::size_t free) {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        rlimit low = before_;
        low.rlim_cur = std::min<rlim_t>(before_.rlim_cur, 200 + open_descriptors());
        ::setrlimit(RLIMIT_NOFILE, &low);
        for (int fd = 0; (fd = ::dup(STDERR_FILENO)) >= 0;) taken_.push_back(fd);
        for (; free > 0 && !taken_.empty(); --free) give_back();
    }
    ~FewDescriptors() {
        while (!taken_.empty()) give_back();
        ::setrlimit(RLIMIT_NOFILE, &before_);
    }
    FewDescriptors(const FewDescriptors&) = delete;
    FewDescriptors& operator=(const FewDescriptors&) = delete;

private:
    void give_back() {
        ::close(taken_.back());
        taken_.pop_back();
    }

    rlimit before_{};
    std::vector<int> taken_;
};

TEST(FullHouse, WithoutDescriptorsTheOneThatWaitedLongestGoes) {
    const auto server = serve({});
    std::vector<RawClient> idle;
    for (int i = 0; i < 3; ++i) {
        idle.emplace_back(server->port());
        ASSERT_TRUE(idle.back().send(get("/in")));
        ASSERT_THAT(idle.back().response(), StartsWith("HTTP/1.1 200"));
    }
    const FewDescriptors limit(1);  // the client's own end takes it
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("/new")));
    EXPECT_THAT(client.response(), HasSubstr("GET /new"));
    EXPECT_TRUE(idle[0].closed());
    ASSERT_TRUE(idle[1].send(get("/still")));
    EXPECT_THAT(idle[1].response(), HasSubstr("GET /still"));
}

TEST(FullHouse, WithoutDescriptorsAndAllServedItWaitsForOne) {
    Gate gate;
    const auto server = serve({}, [&](const Request& request) {
        if (request.path == "/slow") gate.pass();
        return echo(request);
    });
    RawClient busy(server->port());
    ASSERT_TRUE(busy.send(get("/slow")));
    ASSERT_TRUE(gate.wait_for(1));
    const FewDescriptors limit(1);
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("/new")));
    EXPECT_FALSE(client.readable(300ms));
    gate.open();
    EXPECT_THAT(busy.response(), HasSubstr("GET /slow"));
    EXPECT_THAT(client.response(), HasSubstr("GET /new"));
}

TEST(HostileClients, ARefusedBodyIsNotRead) {
    ServerOptions options;
    std::atomic<int> handled = 0;
    options.refuse = [](const Request& head) -> std::optional<Response> {
        if (head.path == "/p" && head.body.empty()) return Response{401, {}, "text/plain", "no"};
        return std::nullopt;
    };
    const auto server = serve(options, Handler([&](const Request& request) {
                                  ++handled;
                                  return echo(request);
                              }));
    RawClient client(server->port());
    ASSERT_TRUE(client.send("POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"));
    const auto answer = client.response();
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 401 ")) << answer;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos);
    EXPECT_EQ(handled, 0);
    RawClient other(server->port());
    ASSERT_TRUE(other.send("POST /q HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab" + get("/p")));
    EXPECT_NE(other.response().find("POST /q  ab"), std::string::npos);
    EXPECT_NE(other.response().find("GET /p"), std::string::npos) << "without a body the handler decides";
}

TEST(HostileClients, BodiesShareABudgetAndGiveItBack) {
    ServerOptions options;
    options.max_body_bytes = 100'000;
    options.max_total_body_bytes = 100'000;
    const auto server = serve(options);
    const std::string half = "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + std::string(59'999, 'a');
    auto first = std::make_unique<RawClient>(server->port());
    ASSERT_TRUE(first->send(half));
    // The second is refused as soon as the first has been read; until then both may wait for their last byte.
    const auto deadline = std::chrono::steady_clock::now() + RawClient::kPatience;
    std::string answer;
    while (answer.empty() && std::chrono::steady_clock::now() < deadline) {
        RawClient second(server->port());
        ASSERT_TRUE(second.send(half));
        if (second.readable(std::chrono::milliseconds(200))) answer = second.response();
    }
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
    EXPECT_NE(answer.find("Retry-After: "), std::string::npos);
    ASSERT_TRUE(first->send("a"));
    EXPECT_TRUE(first->response().starts_with("HTTP/1.1 200 "));
    for (int i = 0; i < 20; ++i) {  // a share that stayed taken would fail the second of these
        const auto taken = [&] {    // the handler's thread gives the share back a moment after it has answered
            RawClient next(server->port());
            return next.send(half + "a") && next.response().starts_with("HTTP/1.1 200 ");
        };
        bool ok = taken();
        while (!ok && std::chrono::steady_clock::now() < deadline + RawClient::kPatience) ok = taken();
        ASSERT_TRUE(ok) << i;
    }
}

TEST(HostileClients, ADelayedAnswerWaitsAndGivesItsPlaceToOthers) {
    ServerOptions options;
    options.max_connections = 1;
    std::atomic<bool> handled = false;
    const auto server = serve(options, Handler([&handled](const Request& request) {
                                  Response response = echo(request);
                                  if (request.path == "/late") response.delay = std::chrono::milliseconds(300);
                                  if (request.path == "/never") {
                                      response.delay = std::chrono::hours(1);
                                      handled = true;
                                  }
                                  return response;
                              }));
    const auto began = std::chrono::steady_clock::now();
    {
        RawClient late(server->port());
        ASSERT_TRUE(late.send(get("/late")));
        EXPECT_TRUE(late.response().starts_with("HTTP/1.1 200 "));
        EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::milliseconds(300));
    }
    RawClient never(server->port());
    ASSERT_TRUE(never.send(get("/never")));
    const auto deadline = std::chrono::steady_clock::now() + RawClient::kPatience;
    // Before its request has been read it would give way in any case.
    while (!handled && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    std::string answer;
    while (!answer.starts_with("HTTP/1.1 200 ") && std::chrono::steady_clock::now() < deadline) {
        RawClient other(server->port());  // 503 while the one before it is still being handled
        ASSERT_TRUE(other.send(get("/a")));
        answer = other.response();
    }
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
    EXPECT_TRUE(never.closed());
}

}  // namespace
}  // namespace deliverd::http
