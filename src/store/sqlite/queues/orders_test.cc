// What is SQLite's own about orders: how its statements find their rows, and what text its tables may hold.
#include "store/orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <string>
#include <vector>

#include "client/sqlite_statement.h"
#include "store/conformance/test_store.h"
#include "store/sqlite/queues/statements.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/testing/test_folder.h"

namespace deliverd::store::sqlite {
namespace {

using conformance::must;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SqliteOrdersTest : public ::testing::Test {
protected:
    SqliteOrdersTest() : database_(must(open_sqlite({.path = path()}, log_))) {
        must(database_->migrate(false));
        if (sqlite3_open(path().c_str(), &plain_) != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(plain_));
    }
    ~SqliteOrdersTest() override { sqlite3_close(plain_); }

    std::string path() const { return (folder_.path() / "orders.db").string(); }
    void execute(const std::string& sql) { must(client::sqlite_run(plain_, sql)); }
    std::vector<std::string> column(std::string_view sql, int index = 0) {
        auto statement = must(client::SqliteStatement::prepare(plain_, sql));
        return must(statement.all([&](const client::SqliteStatement& row) { return row.get<std::string>(index); }));
    }
    std::vector<std::string> plan(std::string_view sql) {
        constexpr int kDetail = 3;
        return column("explain query plan " + std::string(sql), kDetail);
    }

    TestFolder folder_;
    NullLog log_;
    std::unique_ptr<Database> database_;
    sqlite3* plain_ = nullptr;
};

/// `how` is a line of the plan; none of the others reads a table from end to end or sorts.
void expect_plan(const std::vector<std::string>& plan, const std::string& how) {
    std::string all;
    for (const std::string& line : plan) {
        all += line + "\n";
        if (line == how) continue;
        const bool whole_table =
            line.starts_with("SCAN") && !line.starts_with("SCAN json_each") && !line.starts_with("SCAN given");
        EXPECT_FALSE(whole_table) << line;
        EXPECT_THAT(line, Not(HasSubstr("TEMP B-TREE")));
    }
    EXPECT_THAT(plan, Contains(how)) << all;
}

TEST_F(SqliteOrdersTest, StatementsOfTheLoopDoNotReadTheTable) {
    expect_plan(plan(queues::sql::claim_orders),
                "SEARCH outbox_orders USING INDEX outbox_orders_claim (next_attempt_at>? AND next_attempt_at<?)");
    expect_plan(plan(queues::sql::requeue_orders),
                "SEARCH outbox_orders USING INDEX outbox_orders_failed (next_attempt_at<?)");
    expect_plan(plan(queues::sql::rescue_orders), "SCAN outbox_orders USING INDEX outbox_orders_sending");
    expect_plan(plan(queues::sql::order_sent), "SEARCH outbox_orders USING INTEGER PRIMARY KEY (rowid=?)");
    expect_plan(plan(queues::sql::renew_orders), "SEARCH outbox_orders USING INTEGER PRIMARY KEY (rowid=?)");
    expect_plan(plan(queues::sql::release_orders), "SEARCH outbox_orders USING INTEGER PRIMARY KEY (rowid=?)");
    expect_plan(plan(queues::sql::audit_orders), "SEARCH o USING INTEGER PRIMARY KEY (rowid=?)");
}

TEST_F(SqliteOrdersTest, StatementsOfACallerDoNotReadTheTable) {
    expect_plan(plan(queues::sql::find_order),
                "SEARCH o USING INDEX sqlite_autoindex_outbox_orders_1 (idempotency_key=?)");
    expect_plan(plan(queues::sql::write_ledger), "SEARCH outbox_orders USING INTEGER PRIMARY KEY (rowid=?)");
    expect_plan(plan(queues::sql::list_dead_orders), "SEARCH o USING INDEX outbox_orders_dead (id<?)");
    expect_plan(plan(queues::sql::order_audit), "SEARCH outbox_audit USING INDEX outbox_audit_trail (outbox_id=?)");
    expect_plan(plan(queues::sql::list_orders), "SEARCH o USING INTEGER PRIMARY KEY (rowid<?)");
}

/// What another writer put into the table past the intake cannot be sent as it is, so it is not sent at all.
TEST_F(SqliteOrdersTest, BytesThatAreNoTextAreGivenUpInTheClaim) {
    execute(
        "insert into outbox_orders (idempotency_key, request_json, request_digest, status, next_attempt_at, trace_id,"
        " retry_count) select key, json, 'd', 'queued', '2020-01-01T00:00:00.000Z', trace, tries from ("
        " select 'good' as key, '{}' as json, null as trace, 0 as tries union all"
        " select 'bad-json', cast(x'7b22ff7d' as text), null, 3 union all"
        " select cast(x'e9' as text), '{}', null, 0 union all"
        " select 'bad-trace', '{}', cast(x'e9' as text), 0 union all select 'last', '{}', null, 0)");
    const auto outbox = database_->orders_outbox({}, "orders");
    const ClaimBatch batch = must(outbox->claim({"w", 10, seconds(60), std::nullopt}));
    ASSERT_EQ(batch.rows.size(), 2U);
    EXPECT_EQ(batch.rows[0].message.message_id, "good");
    EXPECT_EQ(batch.rows[1].message.message_id, "last");
    EXPECT_EQ(must(outbox->counts()).dead, 3);

    const OrderDetail dead = must(database_->orders({})->find("bad-json")).value();
    EXPECT_EQ(dead.order.status, "dead");
    EXPECT_EQ(dead.order.retry_count, 3) << "nothing was tried";
    EXPECT_EQ(dead.order.last_error, "BAD_REQUEST");
    EXPECT_THAT(dead.order.last_error_detail.value(), StartsWith("request_json is not valid UTF-8 at offset 2"));
    ASSERT_EQ(dead.audit.size(), 2U);
    EXPECT_EQ(dead.audit[1].reason, "outbox_flush_dead");
    EXPECT_EQ(dead.audit[1].status_from, "sending");
    EXPECT_EQ(dead.audit[1].status_to, "dead");
    EXPECT_THAT(column("select last_error_detail from outbox_orders where status = 'dead' and locked_by is null"
                       " order by id"),
                ::testing::ElementsAre(StartsWith("request_json is"), StartsWith("idempotency_key is"),
                                       StartsWith("trace_id is")));
}

TEST_F(SqliteOrdersTest, AnOrderTheTableCannotHoldRefusesTheWholeCall) {
    const NewOrder good{"key-1", "{}", "sha256:a", "trace", "ops"};
    const auto orders = database_->orders({});
    const auto expect_refused = [&](void (*spoil)(NewOrder&), const std::string& mentions) {
        NewOrder bad{"key-2", "{}", "sha256:a", "trace", "ops"};
        spoil(bad);
        const std::vector<NewOrder> both = {good, bad};
        conformance::expect_refused(orders->accept(both), mentions);
    };
    expect_refused([](NewOrder& order) { order.idempotency_key.clear(); }, "idempotency_key");
    expect_refused([](NewOrder& order) { order.idempotency_key = "\xff"; }, "idempotency_key");
    expect_refused([](NewOrder& order) { order.request_json = std::string("{\0}", 3); }, "request_json");
    expect_refused([](NewOrder& order) { order.request_digest = "\xff"; }, "request_digest");
    expect_refused([](NewOrder& order) { order.trace_id = "\xff"; }, "trace_id");
    expect_refused([](NewOrder& order) { order.actor = "\xff"; }, "actor");
    EXPECT_THAT(column("select count(*) from outbox_orders"), ::testing::ElementsAre("0"));
    EXPECT_EQ(must(orders->accept(std::span(&good, 1))).at(0).kind, AcceptKind::fresh);
}

}  // namespace
}  // namespace deliverd::store::sqlite
