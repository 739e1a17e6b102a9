// Reading and settling events beside 200,000 published rows touch only what they return: shown by the plans PostgreSQL
// really ran, with and without statistics.
#include <gtest/gtest.h>

#include <limits>

#include "store/postgres/events/event_sql.h"
#include "store/postgres/testing/test_plan.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;

constexpr int kPublished = 200'000;
constexpr int kOpen = 2000;
constexpr int kAggregates = 500;
constexpr int kEventLimit = 500;
constexpr int kShards = 64;
constexpr std::int64_t kByteLimit = 32 * 1024 * 1024;
/// Index and heap pages a row that is read may cost, the probes for waiting and dead ones included; and one that is
/// written, new versions and index entries included. The table has some 4,000 pages.
constexpr int kPagesPerRead = 8;
constexpr int kPagesPerWrite = 16;

/// Nothing is read from one end to the other.
void expect_by_index(const json::object& root, const std::string& index, int rows, int pages) {
    const std::string shown = json::serialize(root);
    EXPECT_LE(pages_of(root), pages) << shown;
    bool used = false;
    walk(root, [&](const json::object& node) {
        const std::string type = text_of(node, "Node Type");
        for (const char* slow : {"Seq Scan", "Bitmap Heap Scan", "Hash", "Hash Join", "Merge Join", "Materialize"}) {
            EXPECT_NE(type, slow) << shown;
        }
        EXPECT_LE(number_of(node, "Rows Removed by Filter"), kEventLimit) << shown;
        if (text_of(node, "Index Name") != index) return;
        used = true;
        EXPECT_LE(number_of(node, "Actual Rows"), rows) << shown;
    });
    EXPECT_TRUE(used) << index << " is not used: " << shown;
}

void expect_no_sort(const json::object& root) {
    walk(root,
         [&](const json::object& node) { EXPECT_NE(text_of(node, "Node Type"), "Sort") << json::serialize(root); });
}

class EventPlan : public ::testing::Test {
protected:
    void fill() {
        store_.execute("alter table outbox set (autovacuum_enabled = off)");
        const std::string insert =
            "insert into outbox (aggregate_id, event_type, payload, published, published_at) select 'a' || n % " +
            std::to_string(kAggregates) + ", 'T', '{}', ";
        store_.execute(insert + "true, now() from generate_series(1, " + std::to_string(kPublished) + ") as n");
        store_.execute(insert + "false, null from generate_series(1, " + std::to_string(kOpen) + ") as n");
        // Some wait and some are dead: the probes find something to look at.
        store_.execute(
            "update outbox set retry_count = 1, next_attempt_at = now() - interval '1 s' where not published"
            " and aggregate_id in ('a1', 'a2') and id % 1000 < 3");
        store_.execute(
            "update outbox set dead_at = now() where not published and aggregate_id = 'a7' and id % 1000 = 7");
        must(outbox_->tend("r", std::chrono::seconds(600)));
    }

    static EventTable table() {
        EventTable table;
        table.lane = "events";
        table.shards = kShards;
        table.block_behind_dead = true;
        return table;
    }
    EventStatements statements() {
        const SessionSettings settings{std::chrono::seconds(30), std::chrono::seconds(5), std::chrono::seconds(30)};
        const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        const WaitLimit limit;
        auto connection = must(Connection::open(store_.server().conninfo(), settings, deadline, limit));
        const TablePlace place{"public", "outbox"};
        return {table(), place, must(read_shape(*connection, place, table().columns)), "public"};
    }
    json::object plan(const Statement& statement, const Params& params) {
        return plan_of(store_.server().conninfo(), statement, params);
    }

    void expect_good_plans() {
        const EventStatements sql = statements();
        {
            Params forward;
            forward.int32(kEventLimit).int64(kByteLimit).int64(0).int64(std::numeric_limits<std::int64_t>::max());
            const auto root = plan(sql.of_all.forward, forward);
            expect_by_index(root, "outbox_open", kEventLimit + 10, kEventLimit * kPagesPerRead);
            expect_by_index(root, "outbox_waiting_aggregate", 1, kEventLimit * kPagesPerRead);
            expect_by_index(root, "outbox_dead", 1, kEventLimit * kPagesPerRead);
            expect_no_sort(root);
            forward.array(half_of_the_shards());
            const auto some = plan(sql.of_some.forward, forward);
            expect_by_index(some, "outbox_open", kOpen, kOpen * kPagesPerRead);
            expect_no_sort(some);
        }
        {
            Params due;
            due.int32(kEventLimit).int64(kByteLimit);
            const auto root = plan(sql.of_all.due, due);
            expect_by_index(root, "outbox_waiting_due", 100, 100 * kPagesPerRead);
            expect_no_sort(root);
        }
        {
            Params follow;
            follow.array(std::vector<std::optional<std::string>>{"a3", "a4"});
            follow.array(std::vector<std::int64_t>{0, kPublished + 1000}).int32(3).int64(kByteLimit);
            expect_by_index(plan(sql.of_all.follow, follow), "outbox_open_aggregate", 3, 6 * kPagesPerRead);
        }
        const auto [sent, failed] = settlements(open_rows());
        expect_by_index(plan(sql.settle.sent, sent), "outbox_pkey", 1, kEventLimit * kPagesPerWrite);
        expect_by_index(plan(sql.settle.failed, failed), "outbox_pkey", 1, kEventLimit * kPagesPerWrite * 2);
        for (const std::int64_t above : {std::int64_t{0}, std::int64_t{kPublished + kOpen}}) {
            Params end;
            end.int64(above);
            expect_by_index(plan(sql.end, end), "outbox_pkey", 1, 10);
        }
        Params lag;
        lag.int64(0);
        expect_by_index(plan(sql.lag, lag), "outbox_open", 10, 100);
    }
    static std::vector<std::int32_t> half_of_the_shards() {
        std::vector<std::int32_t> shards;
        for (int shard = 0; shard < kShards; shard += 2) shards.push_back(shard);
        return shards;
    }
    /// kEventLimit open rows.
    std::vector<std::int64_t> open_rows() {
        std::vector<std::int64_t> ids;
        for (const std::string& id : store_.plain().column("select id from outbox where not published and dead_at is "
                                                           "null and retry_count = 0 order by id limit " +
                                                           std::to_string(kEventLimit))) {
            ids.push_back(std::stoll(id));
        }
        return ids;
    }
    /// kEventLimit rows in all shards: as sent, and as failed.
    static std::pair<Params, Params> settlements(const std::vector<std::int64_t>& ids) {
        std::vector<std::int32_t> shards;
        std::vector<std::int64_t> tokens;
        for (int shard = 0; shard < kShards; ++shard) {
            shards.push_back(shard);
            tokens.push_back(1);
        }
        std::vector<std::int32_t> leases;
        for (int n = 0; n < kEventLimit; ++n) leases.push_back(1 + n % kShards);
        Params sent;
        sent.text("events").text("r").array(shards).array(tokens);
        sent.array(ids).array(leases).array(std::vector<std::int32_t>(kEventLimit, 0));
        Params failed = sent;
        sent.int32(kEventLimit);
        failed.array(std::vector<std::optional<std::string>>(kEventLimit, "no"));
        failed.array(std::vector<double>(kEventLimit, 1)).array(std::vector<std::int32_t>(kEventLimit, 0));
        failed.int32(kEventLimit);
        return {std::move(sent), std::move(failed)};
    }

    PostgresTestStore store_{true};
    std::unique_ptr<EventOutbox> outbox_ = must(store_.database().event_outbox(table()));
};

/// Nothing was open when statistics were made, as it is most of the time; then a backlog comes, and the plan is the
/// one of before.
TEST_F(EventPlan, SettlesByIdWhateverTheStatisticsSay) {
    store_.execute("alter table outbox set (autovacuum_enabled = off)");
    must(outbox_->tend("r", std::chrono::seconds(600)));
    const EventStatements sql = statements();
    for (const int published : {0, 1000}) {
        store_.execute(
            "insert into outbox (aggregate_id, event_type, payload, published, published_at)"
            " select 'a', 'T', '{}', true, now() from generate_series(1, " +
            std::to_string(published) + ")");
        store_.execute("vacuum analyze outbox");
        const auto [sent, failed] = settlements(std::vector<std::int64_t>(kEventLimit, 1));
        for (const auto& root : {plan(sql.settle.sent, sent), plan(sql.settle.failed, failed)}) {
            bool by_id = false;
            walk(root, [&](const json::object& node) {
                if (text_of(node, "Relation Name") != "outbox" || text_of(node, "Node Type") != "Index Scan") return;
                by_id = text_of(node, "Index Cond") == "(id = ANY (ARRAY[i.id]))";
            });
            EXPECT_TRUE(by_id) << published << ": " << json::serialize(root);
        }
    }
}

/// A plan is made once a connection, often while there is nothing yet.
TEST_F(EventPlan, IsTheSameForAnEmptyTable) {
    const EventStatements sql = statements();
    Params forward;
    forward.int32(kEventLimit).int64(kByteLimit).int64(0).int64(std::numeric_limits<std::int64_t>::max());
    for (const bool analyzed : {false, true}) {
        if (analyzed) store_.execute("analyze outbox");
        const auto root = plan(sql.of_all.forward, forward);
        for (const char* index : {"outbox_open", "outbox_waiting_due", "outbox_waiting_aggregate", "outbox_dead"}) {
            expect_by_index(root, index, 0, 100);
        }
        expect_no_sort(root);
    }
}

TEST_F(EventPlan, TouchesOnlyWhatItReturns) {
    fill();
    {
        SCOPED_TRACE("without statistics");
        expect_good_plans();
    }
    store_.execute("analyze outbox; analyze deliverd.shards");
    {
        SCOPED_TRACE("with statistics");
        expect_good_plans();
    }
    store_.execute("alter table outbox alter column aggregate_id drop not null");
    {
        SCOPED_TRACE("of aggregates that may be null");
        expect_good_plans();
    }
}

}  // namespace
}  // namespace deliverd::store::postgres
