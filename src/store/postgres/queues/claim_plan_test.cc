// Claiming from a table of half a million rows, nearly all of them settled, touches only what it returns: shown by the
// plans PostgreSQL really ran, with and without statistics, for the SQL function and for the store's statement. The
// same for what is done with the rows that were claimed.
#include <gtest/gtest.h>

#include <limits>

#include "store/postgres/queues/statements.h"
#include "store/postgres/testing/test_plan.h"

namespace deliverd::store::postgres {
namespace {

constexpr int kRows = 500'000;
constexpr int kPendingEvery = 250;  // one row in so many is open
constexpr int kHeld = 150;          // of the open ones, the first so many are someone's
constexpr int kLimit = 100;
constexpr std::int64_t kBeforeAll = std::numeric_limits<std::int64_t>::min();
/// Index and heap pages a claimed row may cost, dedup look-up and new row version included. The table has more
/// than 10,000 pages.
constexpr int kPagesPerRow = 30;

void expect_touches_only_what_it_returns(const json::object& root) {
    const std::string shown = json::serialize(root);
    EXPECT_LE(pages_of(root), kLimit * kPagesPerRow) << shown;
    bool claim_index = false;
    bool picked = false;
    walk(root, [&](const json::object& node) {
        EXPECT_NE(text_of(node, "Node Type"), "Seq Scan") << shown;
        EXPECT_NE(text_of(node, "Node Type"), "Bitmap Heap Scan") << shown;
        if (text_of(node, "Index Name") == "outbox_memory_claim") {
            claim_index = true;
            EXPECT_EQ(number_of(node, "Actual Rows"), kLimit) << shown;
            EXPECT_EQ(number_of(node, "Rows Removed by Filter"), kHeld) << "held rows, and nothing else\n" << shown;
        }
        if (text_of(node, "Subplan Name") == "CTE picked") {
            picked = true;
            walk(node, [&](const json::object& below) { EXPECT_NE(text_of(below, "Node Type"), "Sort") << shown; });
        }
    });
    EXPECT_TRUE(claim_index) << shown;
    EXPECT_TRUE(picked) << shown;
}

/// Nested loops over the primary key, the rows asked for and no others.
void expect_looks_rows_up(const json::object& root) {
    const std::string shown = json::serialize(root);
    EXPECT_LE(pages_of(root), kHeld * kPagesPerRow) << shown;
    std::int64_t locked = 0;
    walk(root, [&](const json::object& node) {
        const std::string type = text_of(node, "Node Type");
        for (const char* slow : {"Seq Scan", "Bitmap Heap Scan", "Sort", "Hash", "Hash Join", "Merge Join"}) {
            EXPECT_NE(type, slow) << shown;
        }
        if (type == "Index Scan") {
            EXPECT_EQ(text_of(node, "Index Name"), "outbox_memory_pkey") << shown;
        }
        if (type == "LockRows") locked = number_of(node, "Actual Rows");
    });
    EXPECT_EQ(locked, kHeld) << shown;
}

class ClaimPlan : public ::testing::Test {
protected:
    void SetUp() override {
        store_ = std::make_unique<PostgresTestStore>(true);
        store_->execute("alter table outbox_memory set unlogged");
        store_->execute("alter table outbox_memory set (autovacuum_enabled = off)");
        // Filled first and indexed afterwards, by the migration's own definitions: it is faster.
        const auto indexes = store_->plain().column(
            "select pg_get_indexdef(indexrelid) from pg_index where indrelid = 'outbox_memory'::regclass"
            " and not indisprimary");
        ASSERT_EQ(indexes.size(), 2U);
        store_->execute("drop index outbox_memory_claim, outbox_memory_dedup");
        store_->execute(
            "insert into outbox_memory (target_space, payload_md, payload_sha, status, next_attempt_at)"
            " select 'notes', 'p', md5(n::text), case when n % " +
            std::to_string(kPendingEvery) +
            " = 0 then 'pending' else 'sent' end, now() - interval '1 day' + n * interval '1 millisecond'"
            " from generate_series(1, " +
            std::to_string(kRows) + ") as n");
        for (const std::string& index : indexes) store_->execute(index);
        store_->execute(
            "update outbox_memory set locked_at = now(), locked_by = 'other' where outbox_id in (select outbox_id"
            " from outbox_memory where status = 'pending' order by next_attempt_at, outbox_id limit " +
            std::to_string(kHeld) + ")");
    }

    json::object plan_of_function() {
        const std::string call = "select * from deliverd.claim_outbox('w', " + std::to_string(kLimit) + ", 60)";
        return plan_inside(store_->server().conninfo(), call, "with picked as");
    }
    json::object plan_of_store() {
        Params params;
        params.text("w").int32(kLimit).float64(60).int64(kBeforeAll).int64(kBeforeAll);
        return plan_of(store_->server().conninfo(), sql_[queues::sql::claim_memories], params);
    }
    /// Settle, renew and release of the rows that are held.
    std::vector<json::object> plans_on_held() {
        std::vector<std::int64_t> ids;
        for (const std::string& id : store_->plain().column(
                 "select outbox_id from outbox_memory where locked_by = 'other' order by outbox_id")) {
            ids.push_back(std::stoll(id));
        }
        const std::vector<std::int32_t> zeros(ids.size(), 0);
        Params on_ids;
        on_ids.text("other").array(ids);
        Params settle;
        settle.text("other").array(ids).array(zeros);
        settle.array(std::vector<std::optional<std::string>>(ids.size(), "m"));
        settle.array(std::vector<double>(ids.size(), 0)).array(zeros);
        const std::string& conninfo = store_->server().conninfo();
        return {plan_of(conninfo, sql_[queues::sql::settle_memories], settle),
                plan_of(conninfo, sql_[queues::sql::renew_memories], on_ids),
                plan_of(conninfo, sql_[queues::sql::release_memories], on_ids)};
    }

    const Statements sql_{"public", {queues::sql::all}};
    std::unique_ptr<PostgresTestStore> store_;
};

TEST_F(ClaimPlan, TouchesOnlyWhatItReturns) {
    {
        SCOPED_TRACE("without statistics");
        expect_touches_only_what_it_returns(plan_of_function());
        expect_touches_only_what_it_returns(plan_of_store());
        for (const json::object& plan : plans_on_held()) expect_looks_rows_up(plan);
    }
    store_->execute("analyze outbox_memory");
    {
        SCOPED_TRACE("with statistics");
        expect_touches_only_what_it_returns(plan_of_function());
        expect_touches_only_what_it_returns(plan_of_store());
        for (const json::object& plan : plans_on_held()) expect_looks_rows_up(plan);
    }
}

}  // namespace
}  // namespace deliverd::store::postgres
