// Waits cut short when the program stops. The limits of their own are an hour: a wait that is not cut never ends.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "store/postgres/testing/test_server.h"
#include "store/row_queue.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;

class PostgresStop : public ::testing::Test {
protected:
    std::unique_ptr<Database> open(const std::string& conninfo) {
        PostgresOptions options;
        options.conninfo = conninfo;
        options.max_connections = 1;
        options.connect_timeout = options.statement_timeout = options.lock_timeout = options.pool_wait =
            std::chrono::hours(1);
        return must(open_postgres(options, log_));
    }
    static Result<std::vector<SettleAnswer>> settle(RowQueue& outbox) {
        const Settlement sent{1, SettleKind::sent, 0};
        return outbox.settle("w", std::span(&sent, 1));
    }

    NullLog log_;
    PostgresTestStore store_{true};
};

TEST_F(PostgresStop, AStatementUnderWayIsCutAndSoIsTheWaitForItsConnection) {
    const auto database = open(store_.server().conninfo());
    const auto outbox = database->memory_outbox("memory");
    must(must(database->lease(std::nullopt))->enqueue_memory("s", "p", std::nullopt));
    ASSERT_EQ(must(outbox->claim({"w", 1, std::chrono::seconds(60), std::nullopt})).rows.size(), 1U);

    store_.execute("begin; lock table outbox_memory in exclusive mode");  // the server does not answer the settle
    Result<std::vector<SettleAnswer>> settled = permanent("", "not run");
    Result<double> lag = permanent("", "not run");
    std::thread settling([&] { settled = settle(*outbox); });
    EXPECT_TRUE(waits_for_a_lock(store_));
    std::thread waiting([&] { lag = outbox->lag_seconds(); });
    database->limit_waits(Duration::zero());
    settling.join();
    waiting.join();
    store_.execute("rollback");
    ASSERT_FALSE(settled);
    EXPECT_EQ(settled.error().code, "db_timeout");
    EXPECT_EQ(settled.error().error_class, ErrorClass::ambiguous) << "it was sent: the server may still do it";
    ASSERT_FALSE(lag);
    EXPECT_EQ(lag.error().code, "db_timeout");
    EXPECT_EQ(lag.error().error_class, ErrorClass::retryable);
}

TEST_F(PostgresStop, WhatIsAskedAfterTheLimitIsCertainlyNotDone) {
    const auto database = open(store_.server().conninfo());
    const auto outbox = database->memory_outbox("memory");
    must(must(database->lease(std::nullopt))->enqueue_memory("s", "p", std::nullopt));
    ASSERT_EQ(must(outbox->claim({"w", 1, std::chrono::seconds(60), std::nullopt})).rows.size(), 1U);
    database->limit_waits(std::chrono::hours(1));
    EXPECT_TRUE(must(outbox->renew("w", std::vector<std::int64_t>{1})).lost.empty()) << "there is time left";
    database->limit_waits(Duration::zero());
    const auto refused = settle(*outbox);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "db_timeout");
    EXPECT_EQ(refused.error().error_class, ErrorClass::retryable);
    EXPECT_EQ(store_.value("select status from outbox_memory"), "pending");
}

TEST_F(PostgresStop, ConnectingIsCut) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(::listen(listener, 5), 0);
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    const auto database = open("postgres://ann@127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/app");
    Result<void> answer;
    std::thread pinging([&] { answer = database->ping(std::chrono::hours(1)); });
    const int accepted = ::accept(listener, nullptr, nullptr);  // now it waits for a greeting that never comes
    database->limit_waits(std::chrono::milliseconds(1));
    pinging.join();
    ::close(accepted);
    ::close(listener);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, "db_unreachable");
    EXPECT_EQ(answer.error().error_class, ErrorClass::retryable);
}

}  // namespace
}  // namespace deliverd::store::postgres
