// What PostgreSQL alone can do to orders and upkeep: refuse data, lock rows, let one wait for another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "store/orders.h"
#include "store/postgres/testing/test_server.h"
#include "store/row_queue.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;
using std::chrono::hours;
using std::chrono::seconds;

class OrdersFaults : public ::testing::Test {
protected:
    static NewOrder new_order(const std::string& key, const std::string& request = R"({"qty":1})") {
        return {key, request, "sha256:a", "trace", "ops"};
    }
    Result<std::vector<AcceptAnswer>> accept(const std::vector<NewOrder>& orders) {
        return store_.database().orders({})->accept(orders);
    }
    ClaimBatch claim() { return must(outbox_->claim({"w", 100, seconds(60), std::nullopt})); }
    /// Does `work` while the store's own connection is blocked by what was done on plain(); then `unblock`.
    void while_waiting(const std::function<void()>& work, const std::string& unblock) {
        std::thread worker(work);
        EXPECT_TRUE(waits_for_a_lock(store_));
        store_.execute(unblock);
        worker.join();
    }

    PostgresTestStore store_{true};
    std::unique_ptr<RowQueue> outbox_ = store_.database().orders_outbox({}, "orders");
};

TEST_F(OrdersFaults, AnOrderTheDatabaseCannotHoldRefusesTheCallForGood) {
    constexpr int kLevels = 50'000;
    const std::vector<std::string> bodies = {R"({"a":"\u0000"})", R"({"a":1e200000})", R"({"a":)", "{\"a\":\"\xff\"}",
                                             "{\"a\":" + std::string(kLevels, '[') + std::string(kLevels, ']') + "}"};
    for (const std::string& body : bodies) {
        const auto answer = accept({new_order("key-1"), new_order("key-2", body)});
        ASSERT_FALSE(answer) << body.substr(0, 40);
        EXPECT_EQ(answer.error().error_class, ErrorClass::permanent) << answer.error().message;
        EXPECT_EQ(store_.value("select count(*) from outbox_orders"), "0");
    }
    EXPECT_EQ(must(accept({new_order("key-1")})).at(0).kind, AcceptKind::fresh) << "the other one can be stored";
}

TEST_F(OrdersFaults, APostThatWaitedForAnotherOfItsKeySeesHowThatEnded) {
    for (const bool committed : {true, false}) {
        const std::string key = committed ? "key-1" : "key-2";
        store_.execute(
            "begin; insert into outbox_orders (idempotency_key, request_json, request_digest, status,"
            " next_attempt_at) values ('" +
            key + "', '{}', 'sha256:a', 'queued', now())");
        Result<std::vector<AcceptAnswer>> answers = retryable("", "");
        while_waiting([&] { answers = accept({new_order(key)}); }, committed ? "commit" : "rollback");
        EXPECT_EQ(must(answers).at(0).kind, committed ? AcceptKind::known : AcceptKind::fresh);
    }
    EXPECT_EQ(store_.value("select count(*) from outbox_orders"), "2");
}

TEST_F(OrdersFaults, AnOrderThatIsNeitherStoredNorThereIsNotAnswered) {
    store_.execute("create function drop_row() returns trigger language plpgsql as 'begin return null; end'");
    store_.execute(
        "create trigger gone before insert on outbox_orders for each row"
        " when (new.idempotency_key = 'gone') execute function drop_row()");
    const auto alone = accept({new_order("gone")});
    ASSERT_FALSE(alone);
    EXPECT_EQ(alone.error().error_class, ErrorClass::retryable);
    const auto beside = accept({new_order("gone"), new_order("key-1")});
    ASSERT_FALSE(beside);
    EXPECT_EQ(beside.error().error_class, ErrorClass::ambiguous) << "the other one is stored";
    EXPECT_EQ(must(accept({new_order("key-1")})).at(0).kind, AcceptKind::known);
}

TEST_F(OrdersFaults, AConnectionCutDuringAnAcceptIsAmbiguousAndTheRepeatIsSafe) {
    store_.execute("begin; lock table outbox_orders in exclusive mode");
    Result<std::vector<AcceptAnswer>> answer = retryable("", "");
    while_waiting([&] { answer = accept({new_order("key-1")}); },
                  "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'deliverd'"
                  " and datname = current_database() and wait_event_type = 'Lock'");
    store_.execute("rollback");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().error_class, ErrorClass::ambiguous);
    must(accept({new_order("key-1")}));
    EXPECT_EQ(store_.value("select count(*) from outbox_audit"), "1");
}

TEST_F(OrdersFaults, ARowLockedElsewhereIsLeftOutAndNobodyWaits) {
    must(accept({new_order("key-1"), new_order("key-2"), new_order("key-3")}));
    ASSERT_EQ(claim().rows.size(), 3U);
    store_.execute("begin; select 1 from outbox_orders where id = 2 for update");
    const std::vector<std::int64_t> ids = {1, 2, 3};
    EXPECT_THAT(must(outbox_->renew("w", ids)).renewed, ::testing::UnorderedElementsAre(1, 3));
    EXPECT_THAT(must(outbox_->renew("w", ids)).lost, ::testing::IsEmpty());
    EXPECT_EQ(must(outbox_->rescue("w", seconds(0))), 2);
    EXPECT_EQ(claim().rows.size(), 2U);
    std::vector<Settlement> settlements;
    for (const std::int64_t id : ids) {
        settlements.push_back({.id = id, .kind = SettleKind::retry, .error = "e", .delay = seconds(0), .code = "C"});
    }
    const auto answers = must(outbox_->settle("w", settlements));
    for (const SettleAnswer& answer : answers) EXPECT_EQ(answer.applied, answer.id != 2) << answer.id;
    EXPECT_EQ(answers.at(1).row.value().status, "sending");
    EXPECT_EQ(answers.at(1).row.value().locked_by, "w");
    EXPECT_EQ(must(outbox_->release("w", ids)), 0);
    store_.execute("rollback");

    store_.execute("begin; select 1 from outbox_orders where id = 1 for update");
    EXPECT_EQ(claim().rows.size(), 1U) << "of the two that are due again";
    store_.execute("rollback");
    EXPECT_EQ(claim().rows.size(), 1U);
}

TEST_F(OrdersFaults, TimesWithoutEndAreNoTrouble) {
    store_.execute(
        "insert into outbox_orders (idempotency_key, request_json, request_digest, status, next_attempt_at, created_at)"
        " values ('key-1', '{}', 'd', 'queued', '-infinity', '-infinity'),"
        " ('key-2', '{}', 'd', 'queued', 'infinity', 'infinity')");
    const double since_1970 =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    constexpr double kDay = 86'400;
    EXPECT_NEAR(must(outbox_->lag_seconds()), since_1970, kDay);
    const ClaimBatch batch = claim();
    ASSERT_EQ(batch.rows.size(), 1U);
    EXPECT_NEAR(batch.rows[0].age_seconds, since_1970, kDay);
    const auto listed = must(store_.database().orders({})->list({}));
    EXPECT_EQ(listed.at(1).created_at, WallTime());
    using namespace std::chrono_literals;
    EXPECT_EQ(std::chrono::floor<std::chrono::days>(listed.at(0).next_attempt_at),
              std::chrono::sys_days(9999y / std::chrono::December / 31));
}

TEST_F(OrdersFaults, APurgeWaitsForNobody) {
    store_.execute(
        "insert into idempo_ledger (idempotency_key, request_digest, expires_at)"
        " values ('key-1', 'd', now()), ('key-2', 'd', now())");
    store_.execute("begin; select 1 from idempo_ledger where idempotency_key = 'key-1' for update");
    EXPECT_EQ(must(store_.database().upkeep()->purge_ledger(10)), 1);
    store_.execute("rollback");
    EXPECT_EQ(must(store_.database().upkeep()->purge_ledger(10)), 1);
}

/// One that looks while another ends the chore must not do it again.
TEST_F(OrdersFaults, WhoWaitedForTheLeaseSeesWhatWasDoneMeanwhile) {
    const auto upkeep = store_.database().upkeep();
    ASSERT_TRUE(must(upkeep->begin("tidy", "one", hours(1), seconds(60))));
    store_.execute("update deliverd.leases set expires_at = now() - interval '1 second'");
    store_.execute("begin; select 1 from deliverd.leases for update");
    Result<bool> began = true;
    while_waiting([&] { began = upkeep->begin("tidy", "two", hours(1), seconds(60)); },
                  "insert into deliverd.chores (name, done_at) values ('tidy', now()); commit");
    EXPECT_FALSE(must(began));
    EXPECT_TRUE(must(upkeep->begin("sweep", "two", hours(1), seconds(60)))) << "the lease itself is free";
}

}  // namespace
}  // namespace deliverd::store::postgres
