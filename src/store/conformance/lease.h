// The lease protocol as every store must speak it, through the client library and through the store itself.
// Included by one test file of each store, which instantiates LeaseConformance.
#pragma once

#include <gmock/gmock.h>

#include <set>
#include <vector>

#include "base/sha256.h"
#include "store/conformance/test_store.h"

namespace deliverd::store::conformance {

struct LeaseKind {
    StoreKind store;
    bool client = false;  // the public library on its own connection; otherwise Database::lease()
    friend void PrintTo(const LeaseKind& kind, std::ostream* out) {
        *out << kind.store.name << (kind.client ? " by the client library" : " by the store");
    }
};

class LeaseConformance : public ::testing::TestWithParam<LeaseKind> {
protected:
    void SetUp() override {
        store_ = GetParam().store.make();
        lease_ = GetParam().client ? store_->client_lease() : must(store_->database().lease(std::nullopt));
    }
    Lease& lease() { return *lease_; }
    std::int64_t enqueue(std::string_view payload = "text", std::string_view space = "notes") {
        return must(lease().enqueue_memory(space, payload, std::nullopt));
    }
    std::vector<std::int64_t> claim_ids(std::string_view worker, int limit = 10, double lease_seconds = 60) {
        std::vector<std::int64_t> ids;
        for (const MemoryRow& row : must(lease().claim_outbox(worker, limit, lease_seconds))) {
            ids.push_back(row.outbox_id);
        }
        return ids;
    }
    MemoryRow row(std::int64_t id) { return must(lease().show(id)).value(); }

    std::unique_ptr<TestStore> store_;
    std::unique_ptr<Lease> lease_;
};

TEST_P(LeaseConformance, EnqueueStoresADueRowWithItsDigest) {
    const std::int64_t id = must(lease().enqueue_memory("notes", "grüße\n", 42));
    const MemoryRow stored = row(id);
    EXPECT_EQ(stored.item_id, 42);
    EXPECT_EQ(stored.target_space, "notes");
    EXPECT_EQ(stored.payload_md, "grüße\n");
    EXPECT_EQ(stored.payload_sha, sha256_hex("grüße\n"));
    EXPECT_EQ(stored.status, "pending");
    EXPECT_EQ(stored.retry_count, 0);
    EXPECT_FALSE(stored.locked_by);
    EXPECT_EQ(stored.next_attempt_at.back(), 'Z');
    EXPECT_THAT(claim_ids("w"), ::testing::ElementsAre(id));
}

TEST_P(LeaseConformance, AnEmptyPayloadIsAPayload) {
    EXPECT_EQ(row(enqueue("")).payload_md, "");
}

TEST_P(LeaseConformance, ClaimHoldsRowsForTheWorker) {
    const std::int64_t id = enqueue();
    const auto rows = must(lease().claim_outbox("one"));
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].locked_by, "one");
    EXPECT_TRUE(rows[0].locked_at);
    EXPECT_TRUE(claim_ids("two").empty());
    EXPECT_TRUE(claim_ids("one").empty()) << "not even its own worker gets a held row again";
    EXPECT_EQ(row(id).locked_by, "one");
}

TEST_P(LeaseConformance, ClaimsComeInDueOrderAndOnlyWhenDue) {
    const std::int64_t a = enqueue("a");
    const std::int64_t b = enqueue("b");
    const std::int64_t c = enqueue("c");
    const std::int64_t later = enqueue("later");
    store_->set_due(a, -10);
    store_->set_due(b, -30);
    store_->set_due(c, -20);
    store_->set_due(later, 600);
    EXPECT_THAT(claim_ids("w", 2), ::testing::ElementsAre(b, c));
    EXPECT_THAT(claim_ids("w", 2), ::testing::ElementsAre(a));
}

TEST_P(LeaseConformance, AnExpiredLeaseCanBeTakenByAnother) {
    const std::int64_t id = enqueue();
    claim_ids("one");
    store_->age_leases(61);
    EXPECT_TRUE(claim_ids("two", 10, 120).empty()) << "the claimer's lease length decides";
    EXPECT_THAT(claim_ids("two", 10, 60), ::testing::ElementsAre(id));
}

TEST_P(LeaseConformance, AckSettlesAndKeepsTheReceipt) {
    const std::int64_t with = enqueue("a");
    const std::int64_t without = enqueue("b");
    claim_ids("w");
    EXPECT_TRUE(must(lease().ack_sent(with, "w", "mem-1")));
    EXPECT_TRUE(must(lease().ack_sent(without, "w")));
    EXPECT_EQ(row(with).status, "sent");
    EXPECT_EQ(row(with).last_error, "memory_id=mem-1");
    EXPECT_EQ(row(with).retry_count, 0);
    EXPECT_FALSE(row(with).locked_at);
    EXPECT_FALSE(row(with).locked_by);
    EXPECT_FALSE(row(without).last_error);
    EXPECT_FALSE(must(lease().ack_sent(with, "w", "mem-2"))) << "settled once";
    EXPECT_EQ(row(with).last_error, "memory_id=mem-1");
}

TEST_P(LeaseConformance, FailRetryCountsAndWaits) {
    const std::int64_t id = enqueue();
    claim_ids("w");
    EXPECT_TRUE(must(lease().fail_retry(id, "w", "no answer", "2999-01-02T03:04:05Z")));
    const MemoryRow failed = row(id);
    EXPECT_EQ(failed.status, "pending");
    EXPECT_EQ(failed.retry_count, 1);
    EXPECT_EQ(failed.last_error, "no answer");
    EXPECT_EQ(failed.next_attempt_at.substr(0, 19), "2999-01-02T03:04:05");
    EXPECT_FALSE(failed.locked_by);
    EXPECT_TRUE(claim_ids("w").empty());
    EXPECT_FALSE(must(lease().fail_retry(id, "w", "again", "2999-01-02T03:04:05Z"))) << "counted once";
    EXPECT_EQ(row(id).retry_count, 1);
}

TEST_P(LeaseConformance, MarkDeadLeavesTheCount) {
    const std::int64_t id = enqueue();
    claim_ids("w");
    EXPECT_TRUE(must(lease().mark_dead_by_worker(id, "w", "refused")));
    EXPECT_EQ(row(id).status, "dead");
    EXPECT_EQ(row(id).retry_count, 0);
    EXPECT_EQ(row(id).last_error, "refused");
    EXPECT_TRUE(claim_ids("w", 10, 0).empty());
}

TEST_P(LeaseConformance, RenewStartsTheLeaseAnew) {
    const std::int64_t id = enqueue();
    const std::int64_t other = enqueue("b");
    claim_ids("w");
    store_->age_leases(100);
    EXPECT_TRUE(must(lease().renew_lease(id, "w")));
    EXPECT_FALSE(must(lease().renew_lease(id, "someone else")));
    EXPECT_THAT(claim_ids("two"), ::testing::ElementsAre(other));
    const std::vector<std::int64_t> ids = {id, other, 999999};
    EXPECT_EQ(must(lease().renew_lease_batch(ids, "w")), 1);
    EXPECT_EQ(must(lease().renew_lease_batch({}, "w")), 0);
}

TEST_P(LeaseConformance, AnExpiredLeaseNobodyTookStillSettles) {
    const std::int64_t id = enqueue();
    claim_ids("w");
    store_->age_leases(3600);
    EXPECT_TRUE(must(lease().renew_lease(id, "w")));
    store_->age_leases(3600);
    EXPECT_TRUE(must(lease().ack_sent(id, "w", "m")));
    EXPECT_EQ(row(id).status, "sent");
}

TEST_P(LeaseConformance, AFormerOwnerChangesNothing) {
    const std::int64_t id = enqueue();
    claim_ids("old");
    store_->age_leases(61);
    claim_ids("new");
    const MemoryRow before = row(id);
    EXPECT_FALSE(must(lease().ack_sent(id, "old", "m")));
    EXPECT_FALSE(must(lease().fail_retry(id, "old", "e", "2999-01-01T00:00:00Z")));
    EXPECT_FALSE(must(lease().mark_dead_by_worker(id, "old", "e")));
    EXPECT_FALSE(must(lease().renew_lease(id, "old")));
    EXPECT_EQ(must(lease().renew_lease_batch(std::vector{id}, "old")), 0);
    const MemoryRow after = row(id);
    EXPECT_EQ(after.status, before.status);
    EXPECT_EQ(after.retry_count, before.retry_count);
    EXPECT_EQ(after.locked_by, "new");
    EXPECT_EQ(after.locked_at, before.locked_at);
    EXPECT_EQ(after.last_error, before.last_error);
    EXPECT_EQ(after.updated_at, before.updated_at);
    EXPECT_TRUE(must(lease().ack_sent(id, "new")));
}

TEST_P(LeaseConformance, DedupFindsTheFirstSentRow) {
    const std::int64_t first = enqueue("same", "notes");
    const std::int64_t second = enqueue("same", "notes");
    const std::int64_t elsewhere = enqueue("same", "other");
    const std::string sha = sha256_hex("same");
    EXPECT_FALSE(must(lease().check_dedup("notes", sha))) << "pending rows do not count";
    claim_ids("w");
    must(lease().ack_sent(first, "w", "mem=1%"));
    must(lease().ack_sent(second, "w", "mem-2"));
    must(lease().mark_dead_by_worker(elsewhere, "w", "e"));
    const auto hit = must(lease().check_dedup("notes", sha));
    ASSERT_TRUE(hit);
    EXPECT_EQ(hit->outbox_id, first);
    EXPECT_EQ(hit->memory_id, "mem=1%");
    EXPECT_FALSE(must(lease().check_dedup("other", sha))) << "dead rows do not count";
    EXPECT_FALSE(must(lease().check_dedup("notes", sha256_hex("another"))));
}

TEST_P(LeaseConformance, AnUnknownRowIsNone) {
    EXPECT_FALSE(must(lease().show(12345)));
    EXPECT_FALSE(must(lease().ack_sent(12345, "w")));
}

TEST_P(LeaseConformance, AnEmptyWorkerIdIsRefusedEverywhere) {
    const std::int64_t id = enqueue();
    expect_refused(lease().claim_outbox(""), "worker_id");
    expect_refused(lease().ack_sent(id, ""), "worker_id");
    expect_refused(lease().fail_retry(id, "", "e", "2999-01-01T00:00:00Z"), "worker_id");
    expect_refused(lease().mark_dead_by_worker(id, "", "e"), "worker_id");
    expect_refused(lease().renew_lease(id, ""), "worker_id");
    expect_refused(lease().renew_lease_batch(std::vector{id}, ""), "worker_id");
    EXPECT_FALSE(row(id).locked_by);
}

TEST_P(LeaseConformance, WrongNumbersAndTimesAreRefused) {
    const std::int64_t id = enqueue();
    expect_refused(lease().claim_outbox("w", 0), "limit");
    expect_refused(lease().claim_outbox("w", -1), "limit");
    expect_refused(lease().claim_outbox("w", 1, -0.5), "lease_seconds");
    expect_refused(lease().claim_outbox("w", 1, std::numeric_limits<double>::quiet_NaN()), "lease_seconds");
    expect_refused(lease().claim_outbox("w", 1, std::numeric_limits<double>::infinity()), "lease_seconds");
    claim_ids("w");
    expect_refused(lease().fail_retry(id, "w", "e", "tomorrow"), "next_attempt_at");
    expect_refused(lease().fail_retry(id, "w", "e", "infinity"), "next_attempt_at");
    EXPECT_EQ(row(id).retry_count, 0);
}

TEST_P(LeaseConformance, PayloadsTheDatabaseCannotHoldAreRefused) {
    expect_refused(lease().enqueue_memory("", "text", std::nullopt), "target_space");
    expect_refused(lease().enqueue_memory("notes", std::string("a\0b", 3), std::nullopt), "offset 1");
    expect_refused(lease().enqueue_memory("notes", "ok\xff", std::nullopt), "offset 2");
    expect_refused(lease().enqueue_memory("notes", "\xed\xa0\x80", std::nullopt), "UTF-8");
    expect_refused(lease().enqueue_memory(std::string("n\0", 2), "text", std::nullopt), "target_space");
    expect_refused(lease().claim_outbox(std::string("w\0", 2)), "worker_id");
    EXPECT_EQ(store_->value("select count(*) from outbox_memory"), "0");
}

TEST_P(LeaseConformance, PayloadsOverTheLimitAreRefused) {
    expect_refused(lease().enqueue_memory("notes", std::string(10'000'000, 'x'), std::nullopt), "10000000 bytes");
    expect_refused(lease().enqueue_memory("notes", std::string(kDefaultMaxPayloadBytes + 1, 'x'), std::nullopt),
                   "payload_md");
    expect_refused(lease().enqueue_memory("notes", "12345", std::nullopt, 4), "5 bytes");
    const std::string largest(kDefaultMaxPayloadBytes, 'x');
    EXPECT_EQ(row(enqueue(largest)).payload_md, largest);
}

}  // namespace deliverd::store::conformance
