// Claiming from a table of a million rows, nearly all of them settled, touches only what it returns: shown by the
// plans PostgreSQL really ran, with and without statistics, for the SQL function and for the store's statement.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <functional>

#include "store/postgres/outbox_sql.h"
#include "store/postgres/test_server.h"

namespace deliverd::store::postgres {
namespace {

namespace json = boost::json;

constexpr int kRows = 1'000'000;
constexpr int kPendingEvery = 500;  // one row in so many is open
constexpr int kHeld = 150;          // of the open ones, the first so many are someone's
constexpr int kLimit = 100;
/// Index and heap pages a claimed row may cost, dedup look-up and new row version included. The table has more
/// than 20,000 pages.
constexpr int kPagesPerRow = 30;

std::string text_of(const json::object& node, std::string_view name) {
    const json::value* value = node.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

std::int64_t number_of(const json::object& node, std::string_view name) {
    const json::value* value = node.if_contains(name);
    return value == nullptr ? 0 : value->to_number<std::int64_t>();
}

void walk(const json::object& node, const std::function<void(const json::object&)>& visit) {
    visit(node);
    const json::value* below = node.if_contains("Plans");
    if (below == nullptr) return;
    for (const json::value& child : below->as_array()) walk(child.as_object(), visit);
}

void expect_touches_only_what_it_returns(const json::object& root) {
    const std::string shown = json::serialize(root);
    EXPECT_LE(number_of(root, "Shared Hit Blocks") + number_of(root, "Shared Read Blocks"), kLimit * kPagesPerRow)
        << shown;
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

    /// The plan of the statement inside deliverd.claim_outbox, as auto_explain saw it run. Rolled back.
    json::object plan_of_function() {
        PlainConnection connection(store_->server().conninfo());
        connection.column(
            "load 'auto_explain'; set auto_explain.log_min_duration = 0; set auto_explain.log_analyze = on;"
            " set auto_explain.log_buffers = on; set auto_explain.log_nested_statements = on;"
            " set auto_explain.log_format = json; set client_min_messages = log; begin");
        connection.column("select * from deliverd.claim_outbox('w', " + std::to_string(kLimit) + ", 60)");
        connection.column("rollback");
        for (const std::string& message : connection.take_messages()) {
            const std::size_t start = message.find('{');
            if (message.find("with picked as") == std::string::npos || start == std::string::npos) continue;
            return json::parse(message.substr(start)).as_object().at("Plan").as_object();
        }
        ADD_FAILURE() << "auto_explain did not show the function's statement";
        return {};
    }

    /// The plan of the store's own statement on a connection set up as the store's are. Rolled back.
    json::object plan_of_store() {
        const OutboxStatements sql("public");
        const SessionSettings settings{std::chrono::seconds(30), std::chrono::seconds(5), std::chrono::seconds(30)};
        const Deadline deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        auto connection = conformance::must(Connection::open(store_->server().conninfo(), settings, deadline, limit_));
        const Statement explain{"explain", "explain (analyze, buffers, format json) " + sql.claim.sql};
        Params params;
        params.text("w").int32(kLimit).float64(60);
        conformance::must(connection->script("begin", Effect::read, deadline));
        auto result = conformance::must(connection->run(Step{&explain, &params, Format::text}, Effect::read, deadline));
        conformance::must(connection->script("rollback", Effect::read, deadline));
        return json::parse(PQgetvalue(result.get(), 0, 0)).as_array().at(0).as_object().at("Plan").as_object();
    }

    const WaitLimit limit_;
    std::unique_ptr<PostgresTestStore> store_;
};

TEST_F(ClaimPlan, TouchesOnlyWhatItReturns) {
    {
        SCOPED_TRACE("without statistics");
        expect_touches_only_what_it_returns(plan_of_function());
        expect_touches_only_what_it_returns(plan_of_store());
    }
    store_->execute("analyze outbox_memory");
    {
        SCOPED_TRACE("with statistics");
        expect_touches_only_what_it_returns(plan_of_function());
        expect_touches_only_what_it_returns(plan_of_store());
    }
}

}  // namespace
}  // namespace deliverd::store::postgres
