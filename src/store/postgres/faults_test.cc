// What goes wrong between the store and a real server, and how the store says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "store/postgres/connection/connection.h"
#include "store/postgres/testing/test_server.h"
#include "store/row_queue.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;
using std::chrono::milliseconds;
using std::chrono::seconds;

class PostgresFaults : public ::testing::Test {
protected:
    std::unique_ptr<Database> open(const std::function<void(PostgresOptions&)>& change) {
        PostgresOptions options = store_.server().options();
        change(options);
        return must(open_postgres(std::move(options), log_));
    }
    std::int64_t enqueue_and_claim(RowQueue& outbox) {
        const std::int64_t id =
            must(must(store_.database().lease(std::nullopt))->enqueue_memory("s", "p", std::nullopt));
        EXPECT_EQ(must(outbox.claim({"w", 10, seconds(60), std::nullopt})).rows.size(), 1U);
        return id;
    }
    static Result<std::vector<SettleAnswer>> settle(RowQueue& outbox, std::int64_t id) {
        const Settlement sent{id, SettleKind::sent, 0};
        return outbox.settle("w", std::span(&sent, 1));
    }
    /// Backends of the store that answer `condition` in pg_stat_activity.
    std::string backends(const std::string& condition) {
        return store_.value(
            "select count(*) from pg_stat_activity where application_name = 'deliverd'"
            " and datname = current_database() and " +
            condition);
    }
    void cut_connections() {
        store_.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'deliverd'"
            " and datname = current_database()");
        EXPECT_TRUE(wait_until([&] { return backends("true") == "0"; }));
    }

    NullLog log_;
    PostgresTestStore store_{true};
};

TEST_F(PostgresFaults, AConnectionCutWhileIdleIsReplacedUnnoticed) {
    const auto outbox = store_.database().memory_outbox("memory");
    const std::int64_t id = enqueue_and_claim(*outbox);
    cut_connections();
    EXPECT_TRUE(must(settle(*outbox, id)).at(0).applied);
}

TEST_F(PostgresFaults, AConnectionCutDuringASettleIsAmbiguousAndTheRepeatIsSafe) {
    const auto outbox = store_.database().memory_outbox("memory");
    const std::int64_t id = enqueue_and_claim(*outbox);
    store_.execute("begin; lock table outbox_memory in exclusive mode");
    Result<std::vector<SettleAnswer>> answer = retryable("", "");
    std::thread settling([&] { answer = settle(*outbox, id); });
    PlainConnection other(store_.server().conninfo());
    const std::string waiting =
        "select pid from pg_stat_activity where application_name = 'deliverd'"
        " and datname = current_database() and wait_event_type = 'Lock'";
    EXPECT_TRUE(wait_until([&] { return !other.column(waiting).empty(); }));
    other.column("select pg_terminate_backend(pid) from (" + waiting + ") as w (pid)");
    settling.join();
    store_.execute("rollback");
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().error_class, ErrorClass::ambiguous);
    EXPECT_EQ(answer.error().code, "db_unreachable");
    EXPECT_TRUE(must(settle(*outbox, id)).at(0).applied);
    EXPECT_EQ(store_.value("select count(*) from outbox_audit"), "1");
}

TEST_F(PostgresFaults, AStatementThatTakesTooLongIsATimeout) {
    for (const bool by_lock : {false, true}) {
        store_.execute("truncate outbox_memory");
        const auto database = open([&](PostgresOptions& options) {
            // The other statements have a lock at once, but take their time.
            if (by_lock) options.lock_timeout = milliseconds(100);
            if (!by_lock) options.statement_timeout = seconds(2);
        });
        const auto outbox = database->memory_outbox("memory");
        const std::int64_t id = enqueue_and_claim(*outbox);
        store_.execute("begin; lock table outbox_memory in exclusive mode");
        const auto answer = settle(*outbox, id);
        store_.execute("rollback");
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.error().code, "db_timeout") << answer.error().message;
        EXPECT_EQ(answer.error().error_class, ErrorClass::retryable);
        EXPECT_TRUE(must(settle(*outbox, id)).at(0).applied) << "the connection is still good";
    }
}

TEST_F(PostgresFaults, AClaimDoesNotWaitForLockedRows) {
    const auto outbox = store_.database().memory_outbox("memory");
    must(must(store_.database().lease(std::nullopt))->enqueue_memory("s", "p", std::nullopt));
    store_.execute("begin; select 1 from outbox_memory for update");
    EXPECT_TRUE(must(outbox->claim({"w", 10, seconds(60), std::nullopt})).rows.empty());
    store_.execute("rollback");
}

/// Someone looks at a row in psql, or locks it in a transaction left open: the other rows do not suffer for it.
TEST_F(PostgresFaults, ARowLockedElsewhereIsLeftOutAndNobodyWaits) {
    const auto database = open([](PostgresOptions& options) { options.lock_timeout = std::chrono::hours(1); });
    const auto outbox = database->memory_outbox("memory");
    store_.execute(
        "insert into outbox_memory (target_space, payload_md, payload_sha)"
        " select 's', 'p', 'sha' || n from generate_series(1, 11) as n");
    std::vector<std::int64_t> ids;
    std::vector<Settlement> settlements;
    for (const Claimed& row : must(outbox->claim({"w", 10, seconds(60), std::nullopt})).rows) {
        ids.push_back(row.message.id);
        settlements.push_back({row.message.id, SettleKind::sent, 0});
    }
    ASSERT_EQ(ids.size(), 10U);
    store_.execute("begin; select 1 from outbox_memory where outbox_id = 4 for update");

    const RenewAnswer renewed = must(outbox->renew("w", ids));
    EXPECT_THAT(renewed.renewed, ::testing::UnorderedElementsAre(1, 2, 3, 5, 6, 7, 8, 9, 10));
    EXPECT_THAT(renewed.lost, ::testing::IsEmpty());

    const auto answers = must(outbox->settle("w", settlements));
    for (const SettleAnswer& answer : answers) EXPECT_EQ(answer.applied, answer.id != 4) << answer.id;
    const RowState left = answers.at(3).row.value();
    EXPECT_EQ(left.status, "pending");
    EXPECT_EQ(left.locked_by, "w");
    EXPECT_EQ(left.failures, 0);

    EXPECT_EQ(must(outbox->release("w", ids)), 0);
    EXPECT_EQ(must(outbox->counts()).sent, 9);
    store_.execute("rollback");
    EXPECT_THAT(must(outbox->renew("w", ids)).renewed, ::testing::ElementsAre(4));
    EXPECT_TRUE(must(settle(*outbox, 4)).at(0).applied);
    EXPECT_EQ(store_.value("select count(*) from outbox_audit"), "10");
}

/// A foreign key's check locks the row it points to, but not against a settle.
TEST_F(PostgresFaults, ARowReferredToCanBeSettled) {
    const auto outbox = store_.database().memory_outbox("memory");
    const std::int64_t id = enqueue_and_claim(*outbox);
    store_.execute("begin; select 1 from outbox_memory for key share");
    EXPECT_TRUE(must(settle(*outbox, id)).at(0).applied);
    store_.execute("rollback");
}

/// An INSERT may say so, and means "at once".
TEST_F(PostgresFaults, ARowDueSinceEverIsClaimedAndHasAFiniteAge) {
    const auto outbox = store_.database().memory_outbox("memory");
    store_.execute(
        "insert into outbox_memory (target_space, payload_md, payload_sha, next_attempt_at) values"
        " ('s', 'p', 'a', 'infinity'), ('s', 'p', 'b', '-infinity'), ('s', 'p', 'c', '4713-01-01 BC'),"
        " ('s', 'p', 'd', '-infinity')");
    const double since_1970 =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    constexpr double kDay = 86'400;
    EXPECT_NEAR(must(outbox->lag_seconds()), since_1970, kDay);
    const ClaimBatch first = must(outbox->claim({"w", 1, seconds(60), std::nullopt}));
    ASSERT_EQ(first.rows.size(), 1U);
    EXPECT_EQ(first.rows[0].message.id, 2);
    EXPECT_NEAR(first.rows[0].age_seconds, since_1970, kDay);
    const ClaimBatch rest = must(outbox->claim({"w", 10, seconds(60), first.last}));
    ASSERT_EQ(rest.rows.size(), 2U) << "what is due at infinity never is";
    EXPECT_EQ(rest.rows[0].message.id, 4);
    EXPECT_EQ(rest.rows[1].message.id, 3);
    EXPECT_NEAR(rest.rows[1].age_seconds, since_1970, kDay);
}

TEST_F(PostgresFaults, AServerThatDoesNotAnswerCostsTheDeadline) {
    const SessionSettings settings{seconds(30), seconds(30), seconds(30)};
    const Statement slow{"slow", "select pg_sleep(60)"};
    const Params none;
    const WaitLimit limit;
    for (const Effect effect : {Effect::read, Effect::write}) {
        auto connection = must(Connection::open(store_.server().conninfo(), settings,
                                                std::chrono::steady_clock::now() + kPatience, limit));
        const auto answer =
            connection->run(Step{&slow, none}, effect, std::chrono::steady_clock::now() + milliseconds(100));
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.error().code, "db_timeout");
        EXPECT_EQ(answer.error().error_class, effect == Effect::read ? ErrorClass::retryable : ErrorClass::ambiguous);
        EXPECT_FALSE(connection->usable());
    }
}

TEST_F(PostgresFaults, APortThatAcceptsAndIsSilentIsUnreachable) {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(::listen(listener, 5), 0);
    ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    const auto database = open([&](PostgresOptions& options) {
        options.conninfo = "postgres://ann:s3cret@127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/app";
        options.connect_timeout = milliseconds(100);
    });
    const auto answer = database->ping(kPatience);
    ::close(listener);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, "db_unreachable");
    EXPECT_EQ(answer.error().error_class, ErrorClass::retryable);
    EXPECT_NE(answer.error().message.find("127.0.0.1"), std::string::npos) << answer.error().message;
    EXPECT_EQ(answer.error().message.find("s3cret"), std::string::npos);
    EXPECT_EQ(database->describe().find("s3cret"), std::string::npos);
    EXPECT_NE(database->describe().find("127.0.0.1"), std::string::npos);
}

TEST_F(PostgresFaults, AnUnreadableUrlIsRefusedWithoutShowingIt) {
    PostgresOptions options;
    options.conninfo = "postgres://ann:s3cret@host:not-a-port:/app?s3cret=1";
    const auto database = open_postgres(options, log_);
    ASSERT_FALSE(database);
    EXPECT_EQ(database.error().error_class, ErrorClass::permanent);
    EXPECT_EQ(database.error().message.find("s3cret"), std::string::npos);
}

/// Such a database takes most texts and refuses some for ever, which shows only once one of them is sent.
TEST_F(PostgresFaults, ADatabaseThatCannotHoldEveryTextIsRefused) {
    for (const std::string encoding : {"SQL_ASCII", "LATIN1"}) {
        const TestDatabase narrow("encoding '" + encoding + "' template template0 lc_collate 'C' lc_ctype 'C'");
        const auto database = must(open_postgres(narrow.options(), log_));
        const auto error_of = [](const auto& answer) { return answer ? Error{} : answer.error(); };
        const auto refused = {error_of(database->ping(kPatience)), error_of(database->schema()),
                              error_of(database->migrate(false)),
                              error_of(must(database->lease(std::nullopt))->check_dedup("s", "sha")),
                              error_of(database->memory_outbox("memory")->lag_seconds())};
        for (const Error& error : refused) {
            EXPECT_EQ(error.error_class, ErrorClass::permanent) << error.message;
            EXPECT_EQ(error.code, "db_error");
            EXPECT_THAT(error.message, ::testing::HasSubstr(encoding));
            EXPECT_THAT(error.message, ::testing::HasSubstr("--encoding=UTF8"));
        }
    }
}

TEST_F(PostgresFaults, ThePoolIsBoundedAndItsWaitToo) {
    const auto database = open([](PostgresOptions& options) {
        options.max_connections = 1;
        options.pool_wait = milliseconds(50);
    });
    const auto outbox = database->memory_outbox("memory");
    const std::int64_t id = enqueue_and_claim(*outbox);
    store_.execute("begin; lock table outbox_memory in exclusive mode");
    std::thread settling([&] { EXPECT_TRUE(must(settle(*outbox, id)).at(0).applied); });
    EXPECT_TRUE(waits_for_a_lock(store_));
    const auto refused = outbox->lag_seconds();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "db_timeout");
    store_.execute("rollback");
    settling.join();
    EXPECT_TRUE(outbox->lag_seconds());
}

TEST_F(PostgresFaults, AnotherSchemaHoldsTheTablesAndIsNotLeftSilently) {
    const TestDatabase fresh;
    PostgresOptions options = fresh.options();
    options.schema = "odd \"na'me\"";
    const auto database = must(open_postgres(options, log_));
    must(database->migrate(false));
    const std::int64_t id = must(must(database->lease("cli:ann"))->enqueue_memory("s", "p", std::nullopt));
    const auto outbox = database->memory_outbox("memory");
    EXPECT_EQ(must(outbox->claim({"w", 1, seconds(60), std::nullopt})).rows.at(0).message.id, id);
    EXPECT_TRUE(must(settle(*outbox, id)).at(0).applied);
    const NewOrder order{"key-1", "{}", "sha256:a", "t", "ops"};
    must(database->orders({})->accept(std::span(&order, 1)));
    EXPECT_EQ(must(database->orders_outbox({}, "orders")->counts()).pending, 1);
    EXPECT_EQ(must(database->upkeep()->purge_ledger(10)), 0);
    for (const Finding& finding : must(database->inspect())) EXPECT_TRUE(finding.ok) << finding.message;
    EXPECT_TRUE(
        PlainConnection(fresh.conninfo()).column("select 1 from pg_tables where schemaname = 'public'").empty());

    const auto elsewhere = must(open_postgres(fresh.options(), log_));
    const SchemaReport report = must(elsewhere->schema());
    EXPECT_EQ(report.state, SchemaState::changed);
    EXPECT_NE(report.advice.find("database.schema"), std::string::npos) << report.advice;
    EXPECT_FALSE(elsewhere->migrate(false));
}

TEST_F(PostgresFaults, ThePrivilegesAUserLacksAreTheGrantsToRun) {
    const std::string role = "store_test_role_" + std::to_string(::getpid());
    store_.execute("create role " + role + " login");
    store_.execute("revoke usage on schema public from public");
    const auto database =
        open([&](PostgresOptions& options) { options.conninfo += " options='-c role=" + role + "'"; });
    const auto privileges = [&] {
        for (const Finding& finding : must(database->inspect())) {
            if (finding.check == "privileges") return finding;
        }
        return Finding{};
    };
    const auto claimed = database->memory_outbox("memory")->claim({"w", 1, seconds(60), std::nullopt});
    EXPECT_EQ(claimed.error().error_class, ErrorClass::permanent);
    EXPECT_THAT(claimed.error().message, ::testing::HasSubstr("deliverd doctor"));
    const std::string message = privileges().message;
    EXPECT_THAT(message, ::testing::HasSubstr("grant usage on schema deliverd to " + role + ";"));
    EXPECT_THAT(message, ::testing::HasSubstr("grant select, insert, update on public.outbox_memory to " + role + ";"));
    store_.execute(message.substr(message.find("grant ")));
    EXPECT_TRUE(privileges().ok) << privileges().message;
    must(must(database->lease("cli:ann"))->enqueue_memory("s", "p", std::nullopt));
    const auto outbox = database->memory_outbox("memory");
    const auto rows = must(outbox->claim({"w", 1, seconds(60), std::nullopt})).rows;
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_TRUE(must(settle(*outbox, rows.front().message.id)).at(0).applied);
    const NewOrder order{"key-1", "{}", "sha256:a", "t", "ops"};
    must(database->orders({})->accept(std::span(&order, 1)));
    const auto orders = database->orders_outbox({}, "orders");
    EXPECT_EQ(must(orders->claim({"w", 1, seconds(60), std::nullopt})).rows.size(), 1U);
    EXPECT_TRUE(must(settle(*orders, 1)).at(0).applied);
    EXPECT_TRUE(must(database->upkeep()->begin("tidy", "w", seconds(60), seconds(60))));
    must(database->upkeep()->end("tidy", "w", true));
    must(database->upkeep()->purge_ledger(1));
    store_.execute("drop owned by " + role + "; drop role " + role);
}

/// Callers in other languages have only the SQLSTATE to go by.
TEST_F(PostgresFaults, TheFunctionsRefuseBadArgumentsWithTheirSqlstate) {
    for (const char* call :
         {"claim_outbox('')", "claim_outbox(null)", "claim_outbox('w', 0)", "claim_outbox('w', null)",
          "claim_outbox('w', 1, -1)", "claim_outbox('w', 1, 'nan')", "ack_sent(1, '')", "ack_sent(1, null)",
          "fail_retry(1, '', 'e', now())", "fail_retry(1, 'w', 'e', null)", "fail_retry(1, 'w', 'e', 'infinity')",
          "fail_retry(1, 'w', 'e', '-infinity')", "mark_dead_by_worker(1, null, 'e')", "renew_lease(1, '')",
          "renew_lease_batch('{1}', null)", "enqueue_memory('s', null)", "enqueue_memory('', 'p')",
          "enqueue_memory('s', repeat('ä', 3), null, 5)"}) {
        const client::PgResult result(
            PQexec(store_.plain().raw(), ("select * from deliverd." + std::string(call)).c_str()));
        EXPECT_EQ(client::sqlstate_of(result.get()), "22023") << call << ": " << PQresultErrorMessage(result.get());
    }
    EXPECT_EQ(store_.value("select deliverd.enqueue_memory('s', repeat('ä', 3), null, 6)"), "1");
}

}  // namespace
}  // namespace deliverd::store::postgres
