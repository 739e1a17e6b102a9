// The guarantees of store/row_queue.h, for every store. Included by one test file of each, which instantiates
// OutboxConformance.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/sha256.h"
#include "store/conformance/test_store.h"
#include "store/row_queue.h"

namespace deliverd::store::conformance {

using std::chrono::hours;
using std::chrono::seconds;
using ::testing::ElementsAre;

class OutboxConformance : public ::testing::TestWithParam<StoreKind> {
protected:
    void SetUp() override {
        store_ = GetParam().make();
        outbox_ = store_->database().memory_outbox("memory");
        lease_ = must(store_->database().lease(std::nullopt));
    }
    RowQueue& outbox() { return *outbox_; }
    std::int64_t enqueue(const std::string& payload, const std::string& space = "notes") {
        return must(lease_->enqueue_memory(space, payload, std::nullopt));
    }
    /// Many rows at once; ids ascend.
    void fill(int count) {
        store_->execute(
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < " + std::to_string(count) +
            ") insert into outbox_memory (target_space, payload_md, payload_sha) select 'notes', 'p' || i, 'sha' || i"
            " from n");
    }
    ClaimBatch claim(const std::string& worker = "w", int limit = 1000, std::optional<Cursor> after = std::nullopt) {
        return must(outbox().claim({worker, limit, seconds(60), std::move(after)}));
    }
    static std::vector<std::int64_t> ids(const ClaimBatch& batch) {
        std::vector<std::int64_t> out;
        for (const Claimed& row : batch.rows) out.push_back(row.message.id);
        return out;
    }
    SettleAnswer settle(const Settlement& settlement, const std::string& worker = "w") {
        return must(outbox().settle(worker, std::span(&settlement, 1))).at(0);
    }
    MemoryRow row(std::int64_t id) { return must(lease_->show(id)).value(); }
    std::string audit_value(const std::string& columns) {
        return store_->value("select " + columns + " from outbox_audit");
    }

    std::unique_ptr<TestStore> store_;
    std::unique_ptr<RowQueue> outbox_;
    std::unique_ptr<Lease> lease_;
};

TEST_P(OutboxConformance, AClaimedRowIsAMessage) {
    const std::int64_t with = must(lease_->enqueue_memory("notes", "say \"hi\"\n\x01 grüße", 7));
    const std::int64_t without = enqueue("plain", "other");
    const ClaimBatch batch = claim();
    ASSERT_EQ(batch.rows.size(), 2U);
    const Message& message = batch.rows[0].message;
    const std::string sha = sha256_hex("say \"hi\"\n\x01 grüße");
    EXPECT_EQ(message.id, with);
    EXPECT_EQ(message.message_id, "memory-" + std::to_string(with));
    EXPECT_EQ(message.key, "notes");
    EXPECT_EQ(message.content_type, "application/json");
    EXPECT_EQ(message.dedup_key, std::string("notes\0", 6) + sha);
    EXPECT_EQ(message.failures, 0);
    EXPECT_EQ(message.body, "{\"outbox_id\":" + std::to_string(with) +
                                ",\"item_id\":7,\"target_space\":\"notes\",\"payload_md\":\"say \\\"hi\\\"\\n\\u0001 "
                                "grüße\",\"payload_sha\":\"" +
                                sha + "\"}");
    EXPECT_NE(batch.rows[1].message.body.find("\"item_id\":null,\"target_space\":\"other\""), std::string::npos);
    EXPECT_EQ(row(without).locked_by, "w");
}

TEST_P(OutboxConformance, ClaimsInDueOrderWithTheirAge) {
    const std::int64_t a = enqueue("a");
    const std::int64_t b = enqueue("b");
    store_->set_due(a, -100);
    store_->set_due(b, -200);
    const ClaimBatch batch = claim();
    EXPECT_THAT(ids(batch), ElementsAre(b, a));
    EXPECT_GE(batch.rows[0].age_seconds, 199.9);
    EXPECT_LT(batch.rows[0].age_seconds, 300);
    EXPECT_GE(batch.rows[1].age_seconds, 99.9);
    EXPECT_LT(batch.rows[1].age_seconds, 199.9);
}

TEST_P(OutboxConformance, ACursorLooksOnlyBehindItself) {
    fill(10);
    const ClaimBatch first = claim("w", 4);
    ASSERT_TRUE(first.last);
    store_->execute("update outbox_memory set locked_at = null, locked_by = null");
    EXPECT_THAT(ids(claim("w", 3, first.last)), ElementsAre(5, 6, 7));
    EXPECT_THAT(ids(claim("w", 100, first.last)), ElementsAre(8, 9, 10));
    const ClaimBatch rest = claim("w", 100);
    EXPECT_THAT(ids(rest), ElementsAre(1, 2, 3, 4)) << "a look without the cursor finds what lies before it";
    EXPECT_FALSE(claim().last);
}

TEST_P(OutboxConformance, ADuplicateIsToldWithItsReceipt) {
    const std::int64_t first = enqueue("same");
    claim();
    EXPECT_FALSE(settle({first, SettleKind::sent, 0, "mem-1"}).row);
    enqueue("same");
    enqueue("same", "elsewhere");
    const ClaimBatch batch = claim();
    ASSERT_EQ(batch.rows.size(), 2U);
    EXPECT_TRUE(batch.rows[0].duplicate);
    EXPECT_EQ(batch.rows[0].duplicate_receipt, "mem-1");
    EXPECT_FALSE(batch.rows[1].duplicate);
    EXPECT_FALSE(batch.rows[1].duplicate_receipt);
}

TEST_P(OutboxConformance, SettlingAsSent) {
    const std::int64_t id = enqueue("a");
    claim();
    EXPECT_TRUE(settle({id, SettleKind::sent, 0, "mem-9"}).applied);
    const MemoryRow sent = row(id);
    EXPECT_EQ(sent.status, "sent");
    EXPECT_EQ(sent.last_error, "memory_id=mem-9");
    EXPECT_EQ(sent.retry_count, 0);
    EXPECT_FALSE(sent.locked_by);
    EXPECT_FALSE(sent.locked_at);
    EXPECT_EQ(audit_value("outbox || ' ' || outbox_id || ' ' || reason || ' ' || status_from || ' ' || status_to || ' '"
                          " || retry_count || ' ' || worker || ' ' || actor"),
              "memory " + std::to_string(id) + " outbox_flush_success pending sent 0 w w");
}

TEST_P(OutboxConformance, SettlingAsDuplicate) {
    const std::int64_t id = enqueue("a");
    claim();
    EXPECT_TRUE(settle({id, SettleKind::duplicate, 0}).applied);
    EXPECT_EQ(row(id).status, "sent");
    EXPECT_FALSE(row(id).last_error);
    EXPECT_EQ(audit_value("reason || ' ' || status_to"), "outbox_flush_dedup_hit sent");
}

TEST_P(OutboxConformance, SettlingAsRetryCountsAndWaits) {
    const std::int64_t id = enqueue("a");
    claim();
    EXPECT_TRUE(settle({id, SettleKind::retry, 0, std::nullopt, "no answer", hours(1)}).applied);
    EXPECT_EQ(row(id).status, "pending");
    EXPECT_EQ(row(id).retry_count, 1);
    EXPECT_EQ(row(id).last_error, "no answer");
    EXPECT_EQ(store_->value("select count(*) from outbox_memory where next_attempt_at > " +
                            store_->time_expression(3500) + " and next_attempt_at <= " + store_->time_expression(3600)),
              "1");
    EXPECT_EQ(audit_value("reason || ' ' || status_to || ' ' || retry_count || ' ' || last_error"),
              "outbox_flush_retry pending 1 no answer");
    EXPECT_TRUE(claim().rows.empty());
    store_->set_due(id, -1);
    EXPECT_EQ(claim().rows.at(0).message.failures, 1);
}

TEST_P(OutboxConformance, SettlingAsDeadCountsTheLastFailure) {
    const std::int64_t id = enqueue("a");
    claim();
    EXPECT_TRUE(settle({id, SettleKind::dead, 0, std::nullopt, "refused"}).applied);
    EXPECT_EQ(row(id).status, "dead");
    EXPECT_EQ(row(id).retry_count, 1);
    EXPECT_EQ(audit_value("reason || ' ' || status_to || ' ' || retry_count"), "outbox_flush_dead dead 1");
}

TEST_P(OutboxConformance, ARepeatedSettleCountsOnce) {
    const std::int64_t id = enqueue("a");
    claim();
    const Settlement failed{id, SettleKind::retry, 0, std::nullopt, "e", seconds(0)};
    EXPECT_TRUE(settle(failed).applied);
    const SettleAnswer again = settle(failed);
    EXPECT_FALSE(again.applied);
    ASSERT_TRUE(again.row);
    EXPECT_EQ(again.row->status, "pending");
    EXPECT_EQ(again.row->failures, 1);
    EXPECT_FALSE(again.row->locked_by);
    EXPECT_EQ(again.row->last_error, "e");
    claim();
    EXPECT_FALSE(settle(failed).applied) << "also when the worker has meanwhile claimed the row anew";
    EXPECT_EQ(row(id).retry_count, 1);
    EXPECT_EQ(store_->value("select count(*) from outbox_audit"), "1");
}

TEST_P(OutboxConformance, TwoSettlementsOfARowInOneBatchCountOnce) {
    const std::int64_t id = enqueue("a");
    claim();
    const std::vector<Settlement> both = {{id, SettleKind::sent, 0, "first"}, {id, SettleKind::retry, 0}};
    const auto answers = must(outbox().settle("w", both));
    EXPECT_TRUE(answers.at(0).applied);
    EXPECT_FALSE(answers.at(1).applied);
    EXPECT_EQ(answers.at(1).row.value().status, "sent");
    EXPECT_EQ(row(id).last_error, "memory_id=first");
    EXPECT_EQ(store_->value("select count(*) from outbox_audit"), "1");
}

TEST_P(OutboxConformance, AFormerOwnerSettlesNothingAndIsToldWhatStandsThere) {
    const std::int64_t id = enqueue("a");
    claim("old");
    store_->age_leases(61);
    EXPECT_EQ(claim("new").rows.size(), 1U);
    for (const SettleKind kind : {SettleKind::sent, SettleKind::duplicate, SettleKind::retry, SettleKind::dead}) {
        const SettleAnswer answer = settle({id, kind, 0, std::nullopt, "e"}, "old");
        EXPECT_FALSE(answer.applied);
        EXPECT_EQ(answer.row.value().status, "pending");
        EXPECT_EQ(answer.row.value().locked_by, "new");
    }
    const RenewAnswer renewed = must(outbox().renew("old", std::vector{id}));
    EXPECT_THAT(renewed.renewed, ::testing::IsEmpty());
    EXPECT_THAT(renewed.lost, ElementsAre(id));
    EXPECT_EQ(must(outbox().release("old", std::vector{id})), 0);
    EXPECT_EQ(row(id).locked_by, "new");
    EXPECT_EQ(store_->value("select count(*) from outbox_audit"), "0");
    EXPECT_FALSE(settle({4711, SettleKind::sent, 0}).row) << "a row that is gone has no state";
}

TEST_P(OutboxConformance, AnExpiredLeaseNobodyTookStillSettles) {
    const std::int64_t id = enqueue("a");
    claim();
    store_->age_leases(3600);
    EXPECT_THAT(must(outbox().renew("w", std::vector{id})).renewed, ElementsAre(id));
    store_->age_leases(3600);
    EXPECT_TRUE(settle({id, SettleKind::sent, 0}).applied);
}

TEST_P(OutboxConformance, ARenewalTellsWhatIsHeldFromWhatIsLost) {
    fill(6);
    claim("w", 5);
    settle({1, SettleKind::sent, 0});
    settle({2, SettleKind::dead, 0});
    settle({3, SettleKind::retry, 0, std::nullopt, "e", hours(1)});
    store_->age_leases(100);
    const RenewAnswer answer = must(outbox().renew("w", std::vector<std::int64_t>{99, 6, 5, 4, 3, 2, 1}));
    EXPECT_THAT(answer.renewed, ::testing::UnorderedElementsAre(4, 5));
    EXPECT_THAT(answer.lost, ::testing::UnorderedElementsAre(1, 2, 3, 6, 99));
    EXPECT_THAT(ids(claim("two")), ElementsAre(6)) << "the renewed ones are held anew";
    EXPECT_TRUE(must(outbox().renew("w", {})).renewed.empty());
}

TEST_P(OutboxConformance, ReleasedRowsAreThereForOthersAtOnce) {
    fill(3);
    claim("one");
    EXPECT_EQ(must(outbox().release("one", std::vector<std::int64_t>{1, 3, 99})), 2);
    EXPECT_THAT(ids(claim("two")), ElementsAre(1, 3));
    EXPECT_EQ(row(1).retry_count, 0);
}

TEST_P(OutboxConformance, AFailedAuditTakesTheSettleWithIt) {
    const std::int64_t id = enqueue("a");
    claim();
    store_->execute("alter table outbox_audit rename to outbox_audit_away");
    const Settlement sent{id, SettleKind::sent, 0};
    EXPECT_FALSE(outbox().settle("w", std::span(&sent, 1)));
    EXPECT_EQ(row(id).status, "pending");
    EXPECT_EQ(row(id).locked_by, "w");
    store_->execute("alter table outbox_audit_away rename to outbox_audit");
    EXPECT_TRUE(settle(sent).applied);
}

TEST_P(OutboxConformance, ErrorsAndReceiptsMayContainAnything) {
    fill(2);
    claim();
    EXPECT_TRUE(settle({1, SettleKind::dead, 0, std::nullopt, std::string("bad \0 \xff byte", 12)}).applied);
    EXPECT_EQ(row(1).last_error, "bad  \xEF\xBF\xBD byte");
    EXPECT_TRUE(settle({2, SettleKind::sent, 0, std::string("m\0\xff", 3)}).applied);
    EXPECT_EQ(row(2).last_error, "memory_id=m\xEF\xBF\xBD");
}

TEST_P(OutboxConformance, NotesGoToTheAudit) {
    const std::vector<AuditNote> notes = {{7, "outbox_flush_conflict", std::string("x\0\xff", 3), 2},
                                          {8, "outbox_flush_db_error", "y", 0}};
    must(outbox().audit("w", notes));
    EXPECT_EQ(store_->value("select count(*) from outbox_audit where worker = 'w' and actor = 'w'"), "2");
    EXPECT_EQ(store_->value("select reason || ' ' || last_error || ' ' || retry_count from outbox_audit"
                            " where outbox_id = 7"),
              "outbox_flush_conflict x\xEF\xBF\xBD 2");
}

TEST_P(OutboxConformance, LagAndCounts) {
    EXPECT_EQ(must(outbox().lag_seconds()), 0);
    fill(4);
    store_->set_due(1, -50);
    store_->set_due(2, 50);
    const double lag = must(outbox().lag_seconds());
    EXPECT_GE(lag, 49.9);
    EXPECT_LT(lag, 200);
    claim("w", 2);
    settle({1, SettleKind::sent, 0});
    settle({3, SettleKind::dead, 0});
    const RowCounts counts = must(outbox().counts());
    EXPECT_EQ(counts.pending, 2);
    EXPECT_EQ(counts.sent, 1);
    EXPECT_EQ(counts.dead, 1);
    EXPECT_TRUE(outbox().ping(seconds(10)));
}

TEST_P(OutboxConformance, WrongArgumentsAreRefused) {
    fill(1);
    const Settlement sent{1, SettleKind::sent, 0};
    const AuditNote note{1, "outbox_flush_conflict", "", 0};
    expect_refused(outbox().claim({"", 1, seconds(60), std::nullopt}), "worker_id");
    expect_refused(outbox().claim({"w", 0, seconds(60), std::nullopt}), "limit");
    expect_refused(outbox().claim({"w", 1, seconds(-1), std::nullopt}), "lease_seconds");
    expect_refused(outbox().settle("", std::span(&sent, 1)), "worker_id");
    expect_refused(outbox().renew("", std::vector<std::int64_t>{1}), "worker_id");
    expect_refused(outbox().release("", std::vector<std::int64_t>{1}), "worker_id");
    expect_refused(outbox().audit("", std::span(&note, 1)), "worker_id");
    EXPECT_TRUE(must(outbox().settle("w", {})).empty());
    EXPECT_EQ(claim().rows.size(), 1U);
}

TEST_P(OutboxConformance, LargeBatches) {
    fill(2000);
    const ClaimBatch batch = claim("w", 2000);
    ASSERT_EQ(batch.rows.size(), 2000U);
    std::vector<Settlement> settlements;
    for (const Claimed& row : batch.rows) {
        const SettleKind kind = static_cast<SettleKind>(row.message.id % 4);
        settlements.push_back({row.message.id, kind, 0, "m", "e", hours(1)});
    }
    std::reverse(settlements.begin(), settlements.end());
    const auto answers = must(outbox().settle("w", settlements));
    for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(answers[i].applied);
        EXPECT_EQ(answers[i].id, settlements[i].id) << "answers come in the order of the settlements";
    }
    const RowCounts counts = must(outbox().counts());
    EXPECT_EQ(counts.pending, 500);
    EXPECT_EQ(counts.sent, 1000);
    EXPECT_EQ(counts.dead, 500);
    EXPECT_EQ(store_->value("select count(distinct outbox_id) from outbox_audit"), "2000");
}

TEST_P(OutboxConformance, TwoProcessesGetEachRowOnce) {
    constexpr int kRows = 10'000;
    fill(kRows);
    const std::unique_ptr<Database> other = store_->open_again();
    const std::unique_ptr<RowQueue> other_outbox = other->memory_outbox("memory");
    std::mutex mutex;
    std::map<std::int64_t, int> seen;
    std::vector<std::string> problems;
    const auto drain = [&](RowQueue& outbox, const std::string& worker) {
        for (;;) {
            auto batch = outbox.claim({worker, 250, seconds(60), std::nullopt});
            if (batch && batch->rows.empty()) return;
            std::vector<Settlement> settlements;
            {
                const std::lock_guard lock(mutex);
                if (!batch) problems.push_back(batch.error().message);
                if (!batch) return;
                for (const Claimed& row : batch->rows) {
                    ++seen[row.message.id];
                    settlements.push_back({row.message.id, SettleKind::sent, 0});
                }
            }
            const std::string problem = settle_all(outbox, worker, std::move(settlements));
            const std::lock_guard lock(mutex);
            if (!problem.empty()) problems.push_back(problem);
        }
    };
    std::thread one([&] { drain(outbox(), "one"); });
    std::thread two([&] { drain(*other_outbox, "two"); });
    one.join();
    two.join();
    EXPECT_THAT(problems, ::testing::IsEmpty());
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kRows));
    for (const auto& [id, times] : seen) EXPECT_EQ(times, 1) << id;
    EXPECT_EQ(must(outbox().counts()).sent, kRows);
}

/// A lane's own threads do this: renewing what another thread is settling.
TEST_P(OutboxConformance, RenewingAndSettlingTheSameRowsAtOnce) {
    fill(500);
    const ClaimBatch batch = claim("w", 500);
    std::vector<std::int64_t> backwards = ids(batch);
    std::reverse(backwards.begin(), backwards.end());
    std::vector<std::string> problems;
    std::thread renewer([&] {
        for (int i = 0; i < 20; ++i) {
            auto renewed = outbox().renew("w", backwards);
            if (!renewed) problems.push_back(renewed.error().message);
        }
    });
    for (int from = 0; from < 500; from += 50) {
        std::vector<Settlement> settlements;
        for (int i = from; i < from + 50; ++i) {
            settlements.push_back({batch.rows[static_cast<std::size_t>(i)].message.id, SettleKind::sent, 0});
        }
        EXPECT_EQ(settle_all(outbox(), "w", std::move(settlements)), "");
    }
    renewer.join();
    EXPECT_THAT(problems, ::testing::IsEmpty());
    EXPECT_EQ(must(outbox().counts()).sent, 500);
}

}  // namespace deliverd::store::conformance
