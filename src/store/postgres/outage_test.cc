// A server that is away, as those see it who wait for a connection. Their own limit is an hour: a wait that does not
// end by itself never ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <thread>

#include "store/postgres/testing/test_server.h"
#include "store/row_queue.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;
using ::testing::HasSubstr;

/// Nothing listens on port 1.
constexpr const char* kNobody = "host=127.0.0.1 port=1 dbname=app";

/// Where the store's connections go; each attempt asks.
class Switchboard {
public:
    explicit Switchboard(std::string conninfo) : conninfo_(std::move(conninfo)) {}

    void point_to(std::string conninfo) {
        const std::lock_guard lock(mutex_);
        conninfo_ = std::move(conninfo);
    }
    /// Attempts that begin from now on last until let_go().
    void hold() {
        const std::lock_guard lock(mutex_);
        held_ = true;
    }
    void let_go() {
        const std::lock_guard lock(mutex_);
        held_ = false;
        changed_.notify_all();
    }
    std::string ask() {
        std::unique_lock lock(mutex_);
        ++attempts_;
        changed_.wait(lock, [&] { return !held_; });
        return conninfo_;
    }
    [[nodiscard]] int attempts() const { return attempts_; }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string conninfo_;
    bool held_ = false;
    std::atomic<int> attempts_ = 0;
};

class PostgresOutage : public ::testing::Test {
protected:
    std::unique_ptr<Database> open(std::size_t max_connections) {
        PostgresOptions options = store_.server().options();
        options.max_connections = max_connections;
        options.connect_timeout = options.statement_timeout = options.lock_timeout = options.pool_wait =
            std::chrono::hours(1);
        options.refresh_conninfo = [this] { return switchboard_.ask(); };
        return must(open_postgres(options, log_));
    }
    /// Fails until the server has been asked once more.
    void ask_until(Database& database, int attempts) {
        while (switchboard_.attempts() < attempts) EXPECT_FALSE(database.ping(kPatience));
    }

    NullLog log_;
    PostgresTestStore store_{true};
    Switchboard switchboard_{kNobody};
};

TEST_F(PostgresOutage, WhoAsksWhileTheServerIsAskedAgainIsToldTheCauseAtOnce) {
    const auto database = open(8);
    ASSERT_FALSE(database->ping(kPatience));
    switchboard_.hold();
    std::thread probing([&] { ask_until(*database, 2); });
    EXPECT_TRUE(wait_until([&] { return switchboard_.attempts() == 2; }));
    auto lag = std::async(std::launch::async, [&] { return database->memory_outbox("memory")->lag_seconds(); });
    EXPECT_EQ(lag.wait_for(kPatience), std::future_status::ready);
    switchboard_.let_go();
    probing.join();
    database->limit_waits(Duration::zero());  // for a wait that did not end
    const auto answer = lag.get();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, "db_unreachable");
    EXPECT_EQ(answer.error().error_class, ErrorClass::retryable);
    EXPECT_THAT(answer.error().message, HasSubstr("refused"));
    EXPECT_EQ(switchboard_.attempts(), 2) << "one asks for all";
}

TEST_F(PostgresOutage, AFailedAttemptIsTheAnswerForAllWhoWait) {
    constexpr int kCallers = 12;
    const auto database = open(1);
    switchboard_.hold();
    std::atomic<int> called = 0;
    std::atomic<int> told = 0;
    std::vector<std::thread> callers;
    for (int i = 0; i < kCallers; ++i) {
        callers.emplace_back([&] {
            ++called;
            const auto answer = database->memory_outbox("memory")->lag_seconds();
            if (!answer && answer.error().code == "db_unreachable") ++told;
        });
    }
    EXPECT_TRUE(wait_until([&] { return called == kCallers && switchboard_.attempts() == 1; }));
    switchboard_.let_go();
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(told, kCallers);
    EXPECT_LT(switchboard_.attempts(), kCallers) << "not each asked for itself";
}

TEST_F(PostgresOutage, AServerThatIsBackIsUsedByAll) {
    const auto database = open(8);
    const auto outbox = database->memory_outbox("memory");
    ASSERT_FALSE(outbox->lag_seconds());
    switchboard_.point_to(store_.server().conninfo());
    EXPECT_TRUE(wait_until([&] { return database->ping(kPatience).has_value(); }));
    store_.execute("begin; lock table outbox_memory in access exclusive mode");  // all are in use at once
    std::vector<std::future<Result<double>>> answers;
    for (int i = 0; i < 8; ++i)
        answers.push_back(std::async(std::launch::async, [&] { return outbox->lag_seconds(); }));
    store_.execute("rollback");
    for (auto& answer : answers) EXPECT_TRUE(answer.get());
}

/// The server refuses a further connection, but those it has go on.
TEST_F(PostgresOutage, AConnectionInUseIsWorthWaitingFor) {
    switchboard_.point_to(store_.server().conninfo());
    const auto database = open(2);
    const auto outbox = database->memory_outbox("memory");
    must(must(database->lease(std::nullopt))->enqueue_memory("s", "p", std::nullopt));
    store_.execute("begin; lock table outbox_memory in access exclusive mode");
    auto using_it = std::async(std::launch::async, [&] { return outbox->lag_seconds(); });
    EXPECT_TRUE(waits_for_a_lock(store_));
    switchboard_.point_to(kNobody);
    ASSERT_FALSE(database->ping(kPatience));
    const int attempts = switchboard_.attempts();
    switchboard_.hold();
    std::thread probing([&] { ask_until(*database, attempts + 1); });
    EXPECT_TRUE(wait_until([&] { return switchboard_.attempts() == attempts + 1; }));
    auto waiting = std::async(std::launch::async, [&] { return outbox->lag_seconds(); });
    EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout) << "it does not give up";
    store_.execute("rollback");
    EXPECT_TRUE(using_it.get());
    EXPECT_TRUE(waiting.get());
    switchboard_.let_go();
    probing.join();
}

}  // namespace
}  // namespace deliverd::store::postgres
