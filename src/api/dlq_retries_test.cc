#include "api/dlq_retries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/testing/recording_log.h"

namespace deliverd::api {
namespace {

using testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(20);

/// A retry that waits until it is let go.
struct Gate {
    std::promise<void> opened;
    std::shared_future<void> open{opened.get_future()};
    std::atomic<int> inside = 0;

    DlqActions actions() {
        return {[this](std::string_view, std::string_view, const deadletter::SendRule&) {
                    ++inside;
                    open.wait();
                    return deadletter::RetryReport{deadletter::RetryAnswer::resolved, "", {}};
                },
                [](std::string_view, std::string_view, const deadletter::SendRule&) {
                    return deadletter::RedriveReport{};
                }};
    }
    void wait_for(int count) const {
        const auto end = std::chrono::steady_clock::now() + kPatience;
        while (inside < count && std::chrono::steady_clock::now() < end) std::this_thread::yield();
        ASSERT_GE(inside, count);
    }
};

class DlqRetriesTest : public testing::Test {
protected:
    std::future<http::Response> retry(DlqRetries& retries) {
        auto answer = std::make_shared<std::promise<http::Response>>();
        retries.retry("id", call_, http::Reply([answer](http::Response it) { answer->set_value(std::move(it)); }));
        return answer->get_future();
    }
    static http::Response taken(std::future<http::Response> future) {
        if (future.wait_for(kPatience) != std::future_status::ready) {
            ADD_FAILURE() << "no answer";
            return {};
        }
        return future.get();
    }

    RecordingLog log_;
    const http::Request request_{"POST", "/", "", {}, "", ""};
    const Call call_{request_, "req-1", {"otto", Role::operator_}, {}};
};

TEST_F(DlqRetriesTest, MoreThanMayWaitGet503) {
    Gate gate;
    DlqRetries retries({.retry_threads = 1, .max_waiting_retries = 1}, gate.actions(), log_);
    auto working = retry(retries);
    gate.wait_for(1);
    auto waiting = retry(retries);
    const auto refused = taken(retry(retries));
    EXPECT_EQ(refused.status, 503);
    EXPECT_THAT(refused.body, HasSubstr("nothing was done"));
    gate.opened.set_value();
    EXPECT_EQ(taken(std::move(working)).status, 200);
    EXPECT_EQ(taken(std::move(waiting)).status, 200);
}

TEST_F(DlqRetriesTest, WhatWaitsAtAStopIsToldSo) {
    Gate gate;
    DlqRetries retries({.retry_threads = 1, .max_waiting_retries = 1}, gate.actions(), log_);
    auto working = retry(retries);
    gate.wait_for(1);
    auto waiting = retry(retries);
    std::thread stopper([&retries] { retries.stop(); });
    const auto end = std::chrono::steady_clock::now() + kPatience;
    bool told = false;
    while (!told && std::chrono::steady_clock::now() < end) {
        told = taken(retry(retries)).body.find("the service is stopping; nothing was done") != std::string::npos;
    }
    EXPECT_TRUE(told);
    gate.opened.set_value();
    stopper.join();
    EXPECT_EQ(taken(std::move(working)).status, 200);
    const auto dropped = taken(std::move(waiting));
    EXPECT_EQ(dropped.status, 503);
    EXPECT_THAT(dropped.body, HasSubstr("the service is stopping; nothing was done"));
    EXPECT_EQ(gate.inside, 1);
}

TEST_F(DlqRetriesTest, AStoreThatIsAwayIsAnsweredAsElsewhere) {
    const auto answered = [this](std::optional<Error> error) {
        DlqRetries retries({},
                           {[error](std::string_view, std::string_view, const deadletter::SendRule&) {
                                return deadletter::RetryReport{.answer = deadletter::RetryAnswer::unavailable,
                                                               .message = "nothing was published: host 10.1.2.3 …",
                                                               .store_error = error};
                            },
                            {}},
                           log_);
        return taken(retry(retries));
    };
    const auto away = answered(Error{ErrorClass::retryable, "db_unreachable", "host 10.1.2.3 is away"});
    EXPECT_EQ(away.status, 503);
    EXPECT_THAT(away.body, HasSubstr("nothing was published: the database is out of reach; ask again"));
    const auto lost = answered(Error{ErrorClass::ambiguous, "db_unreachable", "lost"});
    EXPECT_EQ(lost.status, 503);
    EXPECT_THAT(lost.body, HasSubstr("nothing was published"));
    EXPECT_THAT(lost.body, HasSubstr("may be RETRYING"));
    EXPECT_EQ(answered(Error{ErrorClass::permanent, "db_error", "no such table"}).status, 500);
    EXPECT_THAT(log_.text(), HasSubstr("no such table"));
    EXPECT_EQ(answered(std::nullopt).status, 503) << "the program ends";
}

TEST_F(DlqRetriesTest, AnExceptionIsA500AndInTheLog) {
    DlqRetries retries({},
                       {[](std::string_view, std::string_view, const deadletter::SendRule&) -> deadletter::RetryReport {
                            throw std::runtime_error("broken inside");
                        },
                        {}},
                       log_);
    const auto answer = taken(retry(retries));
    EXPECT_EQ(answer.status, 500);
    EXPECT_EQ(answer.body.find("broken inside"), std::string::npos);
    EXPECT_THAT(log_.text(), HasSubstr("req-1 broken inside"));
}

}  // namespace
}  // namespace deliverd::api
