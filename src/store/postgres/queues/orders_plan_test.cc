// What is done with orders in a table of many, nearly all of them settled, touches only the rows it is about: shown by
// the plans PostgreSQL really ran, with and without statistics.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "store/postgres/queues/statements.h"
#include "store/postgres/statements.h"
#include "store/postgres/testing/test_plan.h"

namespace deliverd::store::postgres {
namespace {

constexpr int kOrderRows = 200'000;
constexpr int kOpenEvery = 100;  // one row in so many is open: by turns queued, failed, sending and stuck
constexpr int kOfEach = kOrderRows / kOpenEvery / 4;
constexpr int kOrderLimit = 100;
/// Index and heap pages a row may cost, new row version, its index entries and audit line included. The table has more
/// than 5,000 pages.
constexpr int kPagesPerOrder = 30;

/// Looks rows up in these indexes, and only there, each in one step.
void expect_reads(const json::object& root, const std::set<std::string>& indexes, int rows) {
    const std::string shown = json::serialize(root);
    EXPECT_LE(pages_of(root), rows * kPagesPerOrder) << shown;
    walk(root, [&](const json::object& node) {
        for (const char* slow : {"Seq Scan", "Bitmap Heap Scan", "Hash Join", "Merge Join"}) {
            EXPECT_NE(text_of(node, "Node Type"), slow) << shown;
        }
        const std::string index = text_of(node, "Index Name");
        EXPECT_TRUE(index.empty() || indexes.contains(index)) << index << "\n" << shown;
        EXPECT_EQ(number_of(node, "Rows Removed by Join Filter"), 0) << shown;
    });
}

/// The rows that the CTE `name` picks come from `index`, in its order, and no others are looked at but `passed_over`.
void expect_picks(const json::object& root, const std::string& name, const std::string& index, int rows,
                  int passed_over) {
    const std::string shown = json::serialize(root);
    bool found = false;
    walk(root, [&](const json::object& node) {
        if (text_of(node, "Subplan Name") != "CTE " + name) return;
        walk(node, [&](const json::object& below) {
            EXPECT_NE(text_of(below, "Node Type"), "Sort") << shown;
            if (text_of(below, "Index Name") != index) return;
            found = true;
            EXPECT_EQ(number_of(below, "Actual Rows"), rows) << shown;
            EXPECT_EQ(number_of(below, "Rows Removed by Filter"), passed_over) << shown;
        });
    });
    EXPECT_TRUE(found) << shown;
}

class OrdersPlan : public ::testing::Test {
protected:
    void SetUp() override {
        store_ = std::make_unique<PostgresTestStore>(true);
        for (const char* table : {"outbox_orders", "idempo_ledger", "outbox_audit"}) {
            store_->execute(std::string("alter table ") + table + " set (autovacuum_enabled = off)");
            store_->execute(std::string("alter table ") + table + " set unlogged");
        }
        const std::string turn = "(n / " + std::to_string(kOpenEvery) + ") % 4";
        store_->execute(
            "insert into outbox_orders (idempotency_key, request_json, request_digest, status, next_attempt_at,"
            " locked_by, updated_at)"
            " select 'key-' || n, '{\"symbol\": \"ABC\"}', 'sha256:a', case when n % " +
            std::to_string(kOpenEvery) +
            " > 0 then 'sent' else (array['queued', 'failed', 'sending', 'sending'])[1 + " + turn +
            "] end, now() - interval '1 day' + n * interval '1 millisecond', 'w', case when " + turn +
            " = 3 then now() - interval '1 hour' else now() end from generate_series(1, " + std::to_string(kOrderRows) +
            ") as n");
        store_->execute(
            "insert into idempo_ledger (idempotency_key, request_digest, expires_at)"
            " select 'key-' || n, 'sha256:a', now() + (n - 1000) * interval '1 second' from generate_series(1, " +
            std::to_string(kOrderRows) + ") as n");
    }

    json::object plan(const Statement& statement, const Params& params) {
        return plan_of(store_->server().conninfo(), statement, params);
    }
    static Params worker_and_limit() {
        Params params;
        params.text("w").int32(kOrderLimit);
        return params;
    }
    std::vector<std::int64_t> sending() {
        std::vector<std::int64_t> ids;
        for (const std::string& id :
             store_->plain().column("select id from outbox_orders where status = 'sending' order by id")) {
            ids.push_back(std::stoll(id));
        }
        return ids;
    }

    void expect_good_plans() {
        Params from_the_beginning = worker_and_limit();
        from_the_beginning.int64(std::numeric_limits<std::int64_t>::min()).int64(0);
        const json::object claim = plan(sql_[queues::sql::claim_orders], from_the_beginning);
        expect_reads(claim, {"outbox_orders_claim", "outbox_orders_pkey"}, kOrderLimit);
        expect_picks(claim, "picked", "outbox_orders_claim", kOrderLimit, 0);

        Params after = worker_and_limit();
        after.int64(0).int64(0);
        expect_picks(plan(sql_[queues::sql::claim_orders], after), "picked", "outbox_orders_claim", kOrderLimit, 0);

        const json::object requeue = plan(sql_[queues::sql::requeue_orders], worker_and_limit());
        expect_reads(requeue, {"outbox_orders_failed", "outbox_orders_pkey"}, kOrderLimit);
        expect_picks(requeue, "due", "outbox_orders_failed", kOrderLimit, 0);

        Params stuck;
        stuck.text("w").float64(600);
        const json::object rescue = plan(sql_[queues::sql::rescue_orders], stuck);
        expect_reads(rescue, {"outbox_orders_sending", "outbox_orders_pkey"}, kOfEach);
        expect_picks(rescue, "stuck", "outbox_orders_sending", kOfEach, kOfEach);

        expect_good_plans_on_ids();
        expect_reads(plan(sql_[queues::sql::order_lag], Params()),
                     {"outbox_orders_claim", "outbox_orders_failed", "outbox_orders_sending"}, 2 * kOfEach);
    }

    void expect_good_plans_on_ids() {
        const std::vector<std::int64_t> ids = sending();
        ASSERT_EQ(ids.size(), 2U * kOfEach);
        const std::vector<std::int32_t> zeros(ids.size(), 0);
        Params on_ids;
        on_ids.text("w").array(ids);
        Params settle;
        settle.text("w").array(ids).array(zeros).array(zeros);
        settle.array(std::vector<double>(ids.size(), 0));
        for (int i = 0; i < 6; ++i) settle.array(std::vector<std::optional<std::string>>(ids.size(), "x"));
        settle.float64(60).array(zeros);
        const int rows = 2 * kOfEach;
        const std::set<std::string> by_id = {"outbox_orders_pkey", "outbox_orders_sending"};
        expect_reads(plan(sql_[queues::sql::settle_orders], settle), by_id, rows);
        expect_reads(plan(sql_[queues::sql::renew_orders], on_ids), by_id, rows);
        expect_reads(plan(sql_[queues::sql::release_orders], on_ids), by_id, rows);
    }

    void expect_good_intake_plans() {
        std::vector<std::optional<std::string>> keys;
        for (int n = 1; n <= kOrderLimit; ++n) keys.emplace_back("key-" + std::to_string(1000 + n));
        Params find;
        find.array(keys);
        expect_reads(plan(sql_[queues::sql::find_orders], find),
                     {"outbox_orders_idempotency_key_key", "idempo_ledger_pkey"}, kOrderLimit);
        Params audit;
        audit.text("key-5").int32(10);
        expect_reads(plan(sql_[queues::sql::order_audit], audit),
                     {"outbox_orders_idempotency_key_key", "outbox_audit_pkey"}, 1);
        Params list;
        list.literal(std::nullopt).literal("5000").int32(kOrderLimit);
        expect_reads(plan(sql_[queues::sql::list_orders], list), {"outbox_orders_pkey"}, kOrderLimit);
        Params dead;
        dead.literal("dead").literal(std::nullopt).int32(kOrderLimit);
        expect_reads(plan(sql_[queues::sql::list_dead_orders], dead), {"outbox_orders_dead"}, kOrderLimit);
        Params limit;
        limit.int32(kOrderLimit);
        const json::object purge = plan(sql_[sql::purge_ledger], limit);
        expect_reads(purge, {"idempo_ledger_expiry", "idempo_ledger_pkey"}, kOrderLimit);
        expect_picks(purge, "over", "idempo_ledger_expiry", kOrderLimit, 0);
    }

    const Statements sql_{"public", {queues::sql::all, sql::all}};
    std::unique_ptr<PostgresTestStore> store_;
};

TEST_F(OrdersPlan, TouchesOnlyTheRowsItIsAbout) {
    {
        SCOPED_TRACE("without statistics");
        expect_good_plans();
        expect_good_intake_plans();
    }
    store_->execute("analyze");
    {
        SCOPED_TRACE("with statistics");
        expect_good_plans();
        expect_good_intake_plans();
    }
}

}  // namespace
}  // namespace deliverd::store::postgres
