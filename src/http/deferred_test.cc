// Replies that come later than their handler returns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "http/testing/raw_client.h"
#include "http/testing/server_fixture.h"

namespace deliverd::http {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

/// Keeps requests unanswered until a test takes them out.
class Pending {
public:
    struct One {
        const Request* request;
        Reply reply;
    };

    DeferredHandler handler() {
        return [this](const Request& request, Reply reply) {
            const std::lock_guard lock(mutex_);
            waiting_.push_back({&request, std::move(reply)});
            changed_.notify_all();
        };
    }

    /// All that wait, once there are `count`; fewer when the patience ends first.
    std::vector<One> take_all(std::size_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, RawClient::kPatience, [&] { return waiting_.size() >= count; });
        return std::exchange(waiting_, {});
    }

    /// Any one of them, chosen by `random`; none once `closed` is set and nothing waits.
    std::optional<One> take_one(std::mt19937& random, const std::atomic<bool>& closed) {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, RawClient::kPatience, [&] { return closed || !waiting_.empty(); });
        if (waiting_.empty()) return std::nullopt;
        std::swap(waiting_[random() % waiting_.size()], waiting_.back());
        One one = std::move(waiting_.back());
        waiting_.pop_back();
        return one;
    }

    void wake() {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<One> waiting_;
};

TEST(Reply, DeliversTheFirstAnswerOnly) {
    std::vector<int> delivered;
    {
        const Reply reply([&](const Response& response) { delivered.push_back(response.status); });
        const Reply copy = reply;  // NOLINT(performance-unnecessary-copy-initialization)
        copy({201, {}, "text/plain", ""});
        reply({202, {}, "text/plain", ""});
        EXPECT_EQ(delivered, std::vector<int>{201});
    }
    EXPECT_EQ(delivered, std::vector<int>{201});
}

TEST(Reply, Answers500WhenTheLastCopyGoes) {
    std::vector<int> delivered;
    {
        std::optional<Reply> reply(std::in_place, [&](const Response& r) { delivered.push_back(r.status); });
        const Reply copy = *reply;
        reply.reset();
        EXPECT_TRUE(delivered.empty());
    }
    EXPECT_EQ(delivered, std::vector<int>{500});
}

TEST(Reply, LetsGoOfWhatItHoldsWithTheAnswer) {
    const auto held = std::make_shared<int>(1);
    const Reply reply([held](const Response&) {});
    EXPECT_EQ(held.use_count(), 2);
    reply({});
    EXPECT_EQ(held.use_count(), 1);
}

TEST(Deferred, RequestsThatWaitHoldNoHandlerThread) {
    ServerOptions options;
    options.handler_threads = 1;
    options.max_queued_requests = 20;
    Pending pending;
    const auto server = serve(options, pending.handler());
    std::vector<RawClient> clients;
    for (int i = 0; i < 20; ++i) {
        clients.emplace_back(server->port());
        ASSERT_TRUE(clients.back().send(post("body " + std::to_string(i))));
    }
    auto all = pending.take_all(20);
    ASSERT_EQ(all.size(), 20);
    std::shuffle(all.begin(), all.end(), std::mt19937(1));
    for (const auto& one : all) one.reply(echo(*one.request));
    for (std::size_t i = 0; i < clients.size(); ++i) {
        EXPECT_THAT(clients[i].response(), HasSubstr("POST /p  body " + std::to_string(i)));
    }
}

TEST(Deferred, AnswersOfOneConnectionStayInOrderWhoeverGivesThem) {
    constexpr int kConnections = 24;
    constexpr int kRounds = 20;
    Pending pending;
    const auto server = serve({}, pending.handler());
    std::atomic<bool> finished = false;
    std::vector<std::thread> answerers;
    for (unsigned seed = 0; seed < 3; ++seed) {
        answerers.emplace_back([&, seed] {
            std::mt19937 random(seed);
            while (auto one = pending.take_one(random, finished)) one->reply(echo(*one->request));
        });
    }
    std::vector<RawClient> clients;
    for (int i = 0; i < kConnections; ++i) clients.emplace_back(server->port());
    const auto path = [](int client, int round) {
        return "/" + std::to_string(client) + "/" + std::to_string(round) + "/";
    };
    for (int round = 0; round < kRounds; ++round) {
        for (int i = 0; i < kConnections; ++i) {
            const auto base = path(i, round);
            ASSERT_TRUE(clients[static_cast<std::size_t>(i)].send(get(base + "a") + get(base + "b") + get(base + "c")));
        }
        for (int i = 0; i < kConnections; ++i) {
            for (const auto* name : {"a", "b", "c"}) {
                EXPECT_THAT(clients[static_cast<std::size_t>(i)].response(),
                            testing::EndsWith("\r\n\r\nGET " + path(i, round) + name + "  "));
            }
        }
    }
    finished = true;
    pending.wake();
    for (auto& thread : answerers) thread.join();
}

TEST(Deferred, OneOfTwoAnswersIsSentWhoeverIsFirst) {
    Pending pending;
    const auto server = serve({}, pending.handler());
    RawClient client(server->port());
    for (int round = 0; round < 50; ++round) {
        ASSERT_TRUE(client.send(get("/a")));
        auto all = pending.take_all(1);
        ASSERT_EQ(all.size(), 1);
        std::thread other([reply = all.front().reply] { reply({200, {}, "text/plain", "one"}); });
        all.front().reply({200, {}, "text/plain", "two"});
        other.join();
        const auto response = client.response();
        EXPECT_TRUE(response.ends_with("\r\n\r\none") || response.ends_with("\r\n\r\ntwo")) << response;
    }
    server->stop(0s);
    EXPECT_TRUE(client.closed());
    EXPECT_EQ(client.rest(), "");
}

TEST(Deferred, ADroppedReplyIsA500AndTheConnectionGoesOn) {
    const auto server = serve({}, DeferredHandler([](const Request& request, const Reply& reply) {
                                  if (request.path == "/drop") return;
                                  if (request.path == "/throw") throw std::runtime_error("boom");
                                  if (request.path == "/answered") {
                                      reply({202, {}, "text/plain", "taken"});
                                      throw std::runtime_error("too late");
                                  }
                                  reply({99, {}, "text/plain", "not a status"});
                              }));
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("/drop") + get("/throw") + get("/answered") + get("/unsound")));
    for (const auto* status : {"500", "500", "202", "500"}) {
        const auto response = client.response();
        EXPECT_THAT(response, StartsWith(std::string("HTTP/1.1 ") + status));
        EXPECT_EQ(response.ends_with("INTERNAL_ERROR"), std::string_view(status) == "500") << response;
    }
}

TEST(Deferred, StopWaitsForAnswersToCome) {
    Pending pending;
    const auto server = serve({}, pending.handler());
    RawClient idle(server->port());
    RawClient client(server->port());
    ASSERT_TRUE(client.send(get("/late")));
    auto all = pending.take_all(1);
    ASSERT_EQ(all.size(), 1);
    std::thread stopper([&] { server->stop(RawClient::kPatience); });
    EXPECT_TRUE(idle.closed());  // the stop has begun
    all.front().reply(echo(*all.front().request));
    const auto response = client.response();
    EXPECT_THAT(response, HasSubstr("GET /late"));
    EXPECT_THAT(response, HasSubstr("Connection: close"));
    stopper.join();
}

TEST(Deferred, StopEndsWithItsPatienceAndLaterRepliesDoNothing) {
    Pending pending;
    auto server = serve({}, pending.handler());
    std::vector<RawClient> clients;
    for (int i = 0; i < 8; ++i) {
        clients.emplace_back(server->port());
        ASSERT_TRUE(clients.back().send(post("kept")));
    }
    auto all = pending.take_all(8);
    ASSERT_EQ(all.size(), 8);
    server->stop(10ms);
    for (auto& client : clients) EXPECT_TRUE(client.closed());
    all[0].reply({200, {}, "text/plain", "after the stop"});
    server.reset();
    EXPECT_EQ(all[1].request->body, "kept");
    all[1].reply({200, {}, "text/plain", "after the server"});
    all.clear();  // dropped ones have nobody to tell
    for (auto& client : clients) EXPECT_EQ(client.rest(), "");
}

TEST(Deferred, RepliesMayComeFromAnyThreadWhileTheServerGoes) {
    for (int round = 0; round < 20; ++round) {
        Pending pending;
        auto server = serve({}, pending.handler());
        std::vector<RawClient> clients;
        for (int i = 0; i < 8; ++i) {
            clients.emplace_back(server->port());
            ASSERT_TRUE(clients.back().send(get("/a")));
        }
        auto all = pending.take_all(8);
        ASSERT_EQ(all.size(), 8);
        Gate gate;
        std::thread answerer([&gate, all = std::move(all)]() mutable {
            gate.pass();
            while (!all.empty()) {
                if (all.size() % 2 == 0) all.back().reply({200, {}, "text/plain", "x"});
                all.pop_back();
            }
        });
        ASSERT_TRUE(gate.wait_for(1));
        gate.open();
        server.reset();
        answerer.join();
        for (auto& client : clients) EXPECT_TRUE(client.closed());
    }
}

}  // namespace
}  // namespace deliverd::http
