// Finding an equal message costs the same however many spaces the payload was sent to: shown by the plans PostgreSQL
// really ran, for the SQL function and for the store's claim.
#include <gtest/gtest.h>

#include "store/postgres/queues/statements.h"
#include "store/postgres/testing/test_plan.h"

namespace deliverd::store::postgres {
namespace {

constexpr int kSpaces = 20'000;
/// Down the index, to one row.
constexpr int kPagesPerLookUp = 10;

/// The look-up's own part of the plan.
void expect_one_step(const json::object& root, std::int64_t rows) {
    const std::string shown = json::serialize(root);
    bool found = false;
    walk(root, [&](const json::object& node) {
        if (text_of(node, "Index Name") != "outbox_memory_dedup") return;
        found = true;
        EXPECT_LE(pages_of(node), kPagesPerLookUp) << shown;
        EXPECT_EQ(number_of(node, "Actual Rows"), rows) << shown;
        EXPECT_EQ(number_of(node, "Rows Removed by Filter"), 0) << shown;
        EXPECT_EQ(number_of(node, "Rows Removed by Index Recheck"), 0) << shown;
    });
    EXPECT_TRUE(found) << shown;
}

TEST(DedupPlan, OnePayloadInManySpacesIsStillOneStepAway) {
    PostgresTestStore store(true);
    const std::string last = std::to_string(kSpaces);
    store.execute(
        "insert into outbox_memory (target_space, payload_md, payload_sha, status)"
        " select 'space-' || n, 'p', 'same', 'sent' from generate_series(1, " +
        last + ") as n");
    store.execute("insert into outbox_memory (target_space, payload_md, payload_sha) values ('space-" + last +
                  "', 'p', 'same')");
    store.execute("analyze outbox_memory");
    const auto plan_of_check = [&](const std::string& space) {
        const std::string call = "select * from deliverd.check_dedup('" + space + "', 'same')";
        return plan_inside(store.server().conninfo(), call, "select o.outbox_id");
    };
    expect_one_step(plan_of_check("space-" + last), 1);
    expect_one_step(plan_of_check("space-of-nobody"), 0);
    Params params;
    params.text("w").int32(10).float64(60).int64(0).int64(0);
    const Statements sql("public", {queues::sql::all});
    expect_one_step(plan_of(store.server().conninfo(), sql[queues::sql::claim_memories], params), 1);
}

}  // namespace
}  // namespace deliverd::store::postgres
