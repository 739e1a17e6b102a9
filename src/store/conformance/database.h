// Migrations, audited leases and inspection, for every store. Included by one test file of each, which
// instantiates DatabaseConformance.
#pragma once

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "store/conformance/test_store.h"
#include "store/migration_plan.h"

namespace deliverd::store::conformance {

/// A database that nothing was done to yet.
struct EmptyDatabase {
    std::string name;
    std::function<std::unique_ptr<TestStore>()> make;  // not migrated
    std::string migrations_table;
    std::span<const Migration> (*migrations)();
    friend void PrintTo(const EmptyDatabase& kind, std::ostream* out) { *out << kind.name; }
};

class DatabaseConformance : public ::testing::TestWithParam<EmptyDatabase> {
protected:
    void SetUp() override { store_ = GetParam().make(); }
    Database& database() { return store_->database(); }
    std::unique_ptr<TestStore> store_;
};

TEST_P(DatabaseConformance, MigratesOnce) {
    SchemaReport report = must(database().schema());
    EXPECT_EQ(report.state, SchemaState::missing);
    EXPECT_NE(report.advice.find("deliverd migrate"), std::string::npos);
    const auto done = must(database().migrate(false));
    ASSERT_EQ(done.size(), GetParam().migrations().size());
    EXPECT_EQ(done[0].version, 1);
    EXPECT_EQ(done[0].name, "lease_protocol");
    report = must(database().schema());
    EXPECT_EQ(report.state, SchemaState::current);
    EXPECT_EQ(report.found_version, report.wanted_version);
    EXPECT_EQ(report.advice, "");
    EXPECT_TRUE(must(database().migrate(false)).empty());
}

TEST_P(DatabaseConformance, ADryRunChangesNothingAndCanBeRunByHand) {
    const auto steps = must(database().migrate(true));
    ASSERT_FALSE(steps.empty());
    EXPECT_EQ(must(database().schema()).state, SchemaState::missing);
    for (const MigrationStep& step : steps) store_->execute(step.sql);
    EXPECT_EQ(must(database().schema()).state, SchemaState::current);
    EXPECT_TRUE(must(database().migrate(true)).empty());
}

TEST_P(DatabaseConformance, WithoutASchemaEveryCallNamesTheCommand) {
    const auto claimed = database().memory_outbox("memory")->claim({"w", 1, std::chrono::seconds(1), std::nullopt});
    ASSERT_FALSE(claimed);
    EXPECT_EQ(claimed.error().error_class, ErrorClass::permanent);
    EXPECT_NE(claimed.error().message.find("deliverd migrate"), std::string::npos) << claimed.error().message;
    const auto enqueued = must(database().lease(std::nullopt))->enqueue_memory("s", "p", std::nullopt);
    ASSERT_FALSE(enqueued);
    EXPECT_NE(enqueued.error().message.find("deliverd migrate"), std::string::npos) << enqueued.error().message;
}

TEST_P(DatabaseConformance, ConcurrentMigrationsWaitForEachOther) {
    constexpr int kThreads = 4;
    std::vector<Result<std::vector<MigrationStep>>> results(kThreads, retryable("", "not run"));
    std::vector<std::unique_ptr<Database>> databases;
    for (int i = 0; i < kThreads; ++i) databases.push_back(store_->open_again());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] { results[i] = databases[i]->migrate(false); });
    }
    for (std::thread& thread : threads) thread.join();
    std::size_t steps = 0;
    for (auto& result : results) steps += must(std::move(result)).size();
    EXPECT_EQ(steps, GetParam().migrations().size());
}

TEST_P(DatabaseConformance, ANewerSchemaIsLeftAlone) {
    must(database().migrate(false));
    const std::string& table = GetParam().migrations_table;
    store_->execute("update " + table + " set version = 9999 where version = (select max(version) from " + table + ")");
    const SchemaReport report = must(database().schema());
    EXPECT_EQ(report.state, SchemaState::newer);
    EXPECT_EQ(report.found_version, 9999);
    EXPECT_NE(report.advice.find("newer"), std::string::npos);
    const auto refused = database().migrate(false);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().error_class, ErrorClass::permanent);
    EXPECT_FALSE(database().migrate(true));
}

TEST_P(DatabaseConformance, AChangedMigrationIsRefused) {
    must(database().migrate(false));
    store_->execute("update " + GetParam().migrations_table + " set checksum = 'other' where version = 1");
    const SchemaReport report = must(database().schema());
    EXPECT_EQ(report.state, SchemaState::changed);
    EXPECT_NE(report.advice.find("lease_protocol"), std::string::npos);
    EXPECT_FALSE(database().migrate(false));
}

TEST_P(DatabaseConformance, ChangesWithAnActorAreAudited) {
    must(database().migrate(false));
    const auto lease = must(database().lease("cli:ann"));
    const std::int64_t id = must(lease->enqueue_memory("s", "p", std::nullopt));
    must(lease->claim_outbox("w"));
    EXPECT_FALSE(must(lease->ack_sent(id, "thief")));
    EXPECT_TRUE(must(lease->renew_lease(id, "w")));
    EXPECT_EQ(must(lease->renew_lease_batch(std::vector<std::int64_t>{id, 77}, "w")), 1);
    EXPECT_TRUE(must(lease->fail_retry(id, "w", "e", "2001-01-01T00:00:00Z")));
    must(lease->claim_outbox("w"));
    EXPECT_TRUE(must(lease->ack_sent(id, "w", "m")));
    const std::vector<std::string> reasons = {"lease_enqueue",      "lease_claim", "lease_renew",         "lease_renew",
                                              "outbox_flush_retry", "lease_claim", "outbox_flush_success"};
    for (std::size_t i = 0; i < reasons.size(); ++i) {
        EXPECT_EQ(
            store_->value("select reason from outbox_audit order by audit_id limit 1 offset " + std::to_string(i)),
            reasons[i]);
    }
    EXPECT_EQ(store_->value("select count(*) from outbox_audit where actor = 'cli:ann'"), "7");
    EXPECT_EQ(store_->value("select status_from || ' ' || status_to || ' ' || retry_count || ' ' || worker"
                            " from outbox_audit where reason = 'outbox_flush_success'"),
              "pending sent 1 w");
}

TEST_P(DatabaseConformance, AFailedAuditTakesTheChangeWithIt) {
    must(database().migrate(false));
    const auto lease = must(database().lease("cli:ann"));
    store_->execute("alter table outbox_audit rename to outbox_audit_away");
    EXPECT_FALSE(lease->enqueue_memory("s", "p", std::nullopt));
    EXPECT_EQ(store_->value("select count(*) from outbox_memory"), "0");
}

TEST_P(DatabaseConformance, ManyAreStoredTogetherOrNotAtAll) {
    must(database().migrate(false));
    const std::vector<NewMemory> good{{"s", "one", 7}, {"t", "two", std::nullopt}};
    const auto ids = must(database().enqueue_memories(good));
    ASSERT_EQ(ids.size(), 2U);
    EXPECT_EQ(store_->value("select target_space || ' ' || payload_md || ' ' || item_id from outbox_memory"
                            " where outbox_id = " +
                            std::to_string(ids[0])),
              "s one 7");
    EXPECT_EQ(store_->value("select payload_md from outbox_memory where outbox_id = " + std::to_string(ids[1])), "two");
    const std::vector<NewMemory> bad{{"s", "three", std::nullopt}, {"", "four", std::nullopt}};
    EXPECT_FALSE(database().enqueue_memories(bad));
    EXPECT_EQ(store_->value("select count(*) from outbox_memory"), "2");
}

TEST_P(DatabaseConformance, RemovesRowsOfOneSpaceWithTheirTrail) {
    must(database().migrate(false));
    const auto lease = must(database().lease("cli:ann"));
    std::vector<std::int64_t> ids;
    for (const char* space : {"mine", "mine", "yours", "mine"}) {
        ids.push_back(must(lease->enqueue_memory(space, "p", std::nullopt)));
    }
    EXPECT_EQ(must(database().remove_memories("mine", ids[1], ids[3])), 2);
    EXPECT_EQ(store_->value("select count(*) from outbox_memory"), "2");
    EXPECT_EQ(store_->value("select count(*) from outbox_memory where outbox_id in (" + std::to_string(ids[0]) + "," +
                            std::to_string(ids[2]) + ")"),
              "2");
    EXPECT_EQ(store_->value("select count(*) from outbox_audit"), "2");
    EXPECT_EQ(must(database().remove_memories("mine", ids[1], ids[3])), 0);
}

TEST_P(DatabaseConformance, InspectionFindsAFreshDatabaseGood) {
    const auto before = must(database().inspect());
    EXPECT_THAT(before, ::testing::Contains(::testing::AllOf(::testing::Field(&Finding::check, "schema"),
                                                             ::testing::Field(&Finding::ok, false))));
    must(database().migrate(false));
    for (const Finding& finding : must(database().inspect())) EXPECT_TRUE(finding.ok) << finding.message;
    EXPECT_TRUE(database().ping(std::chrono::seconds(10)));
}

}  // namespace deliverd::store::conformance
