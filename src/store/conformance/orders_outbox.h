// The guarantees of store/row_queue.h for the order outbox, for every store. Included by one test file of each, which
// instantiates OrdersOutboxConformance.
#pragma once

#include "store/conformance/orders.h"

namespace deliverd::store::conformance {

/// What the suites on the order outbox share.
class OrdersOutboxFixture : public OrdersFixture {
protected:
    /// Many queued rows at once, as by hand; ids ascend from 1.
    void fill(int count) {
        store_->execute(
            "with recursive n (i) as (select 1 union all select i + 1 from n where i < " + std::to_string(count) +
            ") insert into outbox_orders (idempotency_key, request_json, request_digest, status, next_attempt_at)"
            " select 'key-' || i, '{\"a\": 1}', 'sha256:a', 'queued', " +
            store_->time_expression(-1) + " from n");
    }
    static std::vector<std::int64_t> ids(const ClaimBatch& batch) {
        std::vector<std::int64_t> out;
        for (const Claimed& row : batch.rows) out.push_back(row.message.id);
        return out;
    }
    static Settlement retry(std::int64_t id, std::int32_t failures_before = 0, Duration delay = std::chrono::hours(1)) {
        return {.id = id,
                .kind = SettleKind::retry,
                .failures_before = failures_before,
                .error = "BROKER_5XX: 503 from the broker",
                .delay = delay,
                .code = "BROKER_5XX"};
    }
    static Settlement dead(std::int64_t id) {
        return {.id = id, .kind = SettleKind::dead, .error = "BAD_REQUEST: qty", .code = "BAD_REQUEST"};
    }
    /// A column of the order, as text; "" for null.
    std::string column(std::int64_t id, const std::string& name) {
        return store_->value("select " + name + " from outbox_orders where id = " + std::to_string(id));
    }
    void set_created(std::int64_t id, int seconds_from_now) {
        store_->execute("update outbox_orders set created_at = " + store_->time_expression(seconds_from_now) +
                        " where id = " + std::to_string(id));
    }
    void set_created_of_all(int seconds_from_now) {
        store_->execute("update outbox_orders set created_at = " + store_->time_expression(seconds_from_now));
    }
    /// The newest audit line of the order, everything but its time.
    std::string newest_audit(std::int64_t id) {
        std::string sql = "select outbox";
        for (const char* name : {"outbox_id", "reason", "status_from", "status_to", "retry_count"}) {
            sql += std::string(" || ' ' || ") + name;
        }
        for (const char* name :
             {"last_error", "detail", "idempotency_key", "trace_id", "broker_order_id", "worker", "actor"}) {
            sql += std::string(" || ' ' || coalesce(") + name + ", '-')";
        }
        return store_->value(sql + " from outbox_audit where outbox_id = " + std::to_string(id) +
                             " order by audit_id desc limit 1");
    }
};

class OrdersOutboxConformance : public OrdersOutboxFixture {};

TEST_P(OrdersOutboxConformance, AClaimedOrderIsAMessage) {
    const std::int64_t id = accepted("key-1");
    set_created(id, -100);
    const ClaimBatch batch = claim();
    ASSERT_EQ(batch.rows.size(), 1U);
    const Message& message = batch.rows[0].message;
    EXPECT_EQ(message.id, id);
    EXPECT_EQ(message.message_id, "key-1");
    EXPECT_EQ(message.key, "key-1");
    EXPECT_EQ(message.type, "");
    EXPECT_EQ(message.body, new_order("key-1").request_json);
    EXPECT_EQ(message.content_type, "application/json");
    EXPECT_THAT(message.headers, ::testing::ElementsAre(::testing::Pair("X-Trace-Id", "trace-key-1")));
    EXPECT_EQ(message.dedup_key, "");
    EXPECT_EQ(message.failures, 0);
    EXPECT_GE(batch.rows[0].age_seconds, 99.9);
    EXPECT_LT(batch.rows[0].age_seconds, 200);
    EXPECT_FALSE(batch.rows[0].duplicate);
    EXPECT_EQ(found("key-1").status, "sending");
    EXPECT_EQ(column(id, "locked_by"), "w");
    EXPECT_EQ(rows_in("outbox_orders where updated_at > created_at"), "1") << "the claim starts the lease";
    EXPECT_EQ(newest_audit(id),
              "orders " + std::to_string(id) + " outbox_claim queued sending 0 - - key-1 trace-key-1 - w w");
    EXPECT_TRUE(claim("two").rows.empty());
}

TEST_P(OrdersOutboxConformance, ARowInsertedByHandIsSentAsItStands) {
    fill(1);
    const ClaimBatch batch = claim();
    ASSERT_EQ(batch.rows.size(), 1U);
    EXPECT_EQ(batch.rows[0].message.body, "{\"a\": 1}");
    EXPECT_EQ(batch.rows[0].message.message_id, "key-1");
    EXPECT_TRUE(batch.rows[0].message.headers.empty());
    EXPECT_EQ(found("key-1").request_json, "{\"a\": 1}");
    EXPECT_EQ(found("key-1").trace_id, "");
    EXPECT_TRUE(settle(sent(1)).applied);
    EXPECT_EQ(rows_in("idempo_ledger where request_digest = 'sha256:a' and result_digest = 'sha256:result'"), "1");
}

TEST_P(OrdersOutboxConformance, ClaimsWhatIsDueOldestDueFirst) {
    fill(5);
    store_->set_order_due(1, 100);
    store_->set_order_due(2, -100);
    store_->set_order_due(3, -300);
    store_->set_order_due(4, -200);
    store_->set_order_due(5, -200);
    EXPECT_THAT(ids(claim("w", 2)), ::testing::ElementsAre(3, 4));
    EXPECT_THAT(ids(claim()), ::testing::ElementsAre(5, 2));
    EXPECT_FALSE(claim().last);
}

TEST_P(OrdersOutboxConformance, ACursorLooksOnlyBehindItself) {
    fill(10);
    const ClaimBatch first = claim("w", 4);
    ASSERT_TRUE(first.last);
    store_->execute("update outbox_orders set status = 'queued', locked_by = null");
    EXPECT_THAT(ids(claim("w", 3, first.last)), ::testing::ElementsAre(5, 6, 7));
    EXPECT_THAT(ids(claim("w", 100, first.last)), ::testing::ElementsAre(8, 9, 10));
    EXPECT_THAT(ids(claim("w", 100)), ::testing::ElementsAre(1, 2, 3, 4));
}

TEST_P(OrdersOutboxConformance, ADueFailedOrderIsQueuedAndClaimedInOneCall) {
    const std::int64_t due = accepted("key-1");
    const std::int64_t later = accepted("key-2");
    claim();
    settle(retry(due));
    settle(retry(later));
    EXPECT_TRUE(claim().rows.empty());
    store_->set_order_due(due, -1);
    const ClaimBatch batch = claim("two");
    EXPECT_THAT(ids(batch), ::testing::ElementsAre(due));
    EXPECT_EQ(batch.rows.at(0).message.failures, 1);
    EXPECT_THAT(trail("key-1"), ::testing::ElementsAre("order_accepted >queued 0 -", "outbox_claim queued>sending 0 -",
                                                       "outbox_flush_retry sending>failed 1 BROKER_5XX",
                                                       "outbox_requeue failed>queued 1 BROKER_5XX",
                                                       "outbox_claim queued>sending 1 BROKER_5XX"));
    const AuditLine requeued = detail("key-1").audit.at(3);
    EXPECT_EQ(requeued.worker, "two");
    EXPECT_EQ(requeued.actor, "two");
    EXPECT_EQ(found("key-2").status, "failed");
    EXPECT_EQ(found("key-2").retry_count, 1);
}

TEST_P(OrdersOutboxConformance, SettlingAsSent) {
    const std::int64_t id = accepted("key-1");
    store_->execute("update idempo_ledger set expires_at = " + store_->time_expression(5));
    claim();
    EXPECT_TRUE(settle(sent(id)).applied);
    const Order order = found("key-1");
    EXPECT_EQ(order.status, "sent");
    EXPECT_EQ(order.retry_count, 0);
    EXPECT_EQ(order.broker_order_id, "B-" + std::to_string(id));
    EXPECT_FALSE(order.last_error || order.last_error_detail);
    EXPECT_EQ(order.result_digest, "sha256:result");
    EXPECT_EQ(order.result_json, R"({"order_id": 1e2})");
    EXPECT_EQ(column(id, "locked_by"), "");
    EXPECT_EQ(rows_in("idempo_ledger where request_digest = 'sha256:a'"), "1");
    EXPECT_EQ(fresh_ledger_rows(), "1") << "the answer is kept for its own time to live";
    EXPECT_EQ(newest_audit(id), "orders " + std::to_string(id) +
                                    " outbox_flush_success sending sent 0 - - key-1 trace-key-1 B-" +
                                    std::to_string(id) + " w w");
}

TEST_P(OrdersOutboxConformance, AnOrderThatWasProcessedBeforeSaysSo) {
    const std::int64_t id = accepted("key-1");
    claim();
    EXPECT_TRUE(settle({.id = id,
                        .kind = SettleKind::sent,
                        .code = "CONFLICT_PROCESSED",
                        .answer = ReceiverAnswer{"already processed", std::string(kDigestFromConflict)}})
                    .applied);
    const Order order = found("key-1");
    EXPECT_EQ(order.status, "sent");
    EXPECT_EQ(order.last_error, "CONFLICT_PROCESSED");
    EXPECT_FALSE(order.broker_order_id);
    EXPECT_EQ(order.result_digest, "sha256:from-conflict");
    EXPECT_EQ(trail("key-1").back(), "outbox_flush_success sending>sent 0 CONFLICT_PROCESSED");
}

TEST_P(OrdersOutboxConformance, TheAnswerIsKeptAlsoWhenTheLedgerRowIsGone) {
    const std::int64_t id = accepted("key-1");
    claim();
    settle(retry(id, 0, std::chrono::seconds(0)));
    store_->execute("delete from idempo_ledger");
    EXPECT_EQ(claim().rows.at(0).message.failures, 1);
    Settlement settlement = sent(id);
    settlement.failures_before = 1;
    EXPECT_TRUE(settle(settlement).applied);
    EXPECT_EQ(found("key-1").result_digest, "sha256:result");
    EXPECT_FALSE(found("key-1").last_error || found("key-1").last_error_detail) << "an old failure is over";
    EXPECT_EQ(rows_in("idempo_ledger where request_digest = 'sha256:a'"), "1");
    EXPECT_EQ(fresh_ledger_rows(), "1");
}

TEST_P(OrdersOutboxConformance, SettlingAsRetryCountsAndWaits) {
    const std::int64_t id = accepted("key-1");
    claim();
    EXPECT_TRUE(settle(retry(id)).applied);
    const Order order = found("key-1");
    EXPECT_EQ(order.status, "failed");
    EXPECT_EQ(order.retry_count, 1);
    EXPECT_EQ(order.last_error, "BROKER_5XX");
    EXPECT_EQ(order.last_error_detail, "BROKER_5XX: 503 from the broker");
    EXPECT_FALSE(order.result_digest);
    EXPECT_EQ(column(id, "locked_by"), "");
    EXPECT_EQ(rows_in("outbox_orders where next_attempt_at > " + store_->time_expression(3500) +
                      " and next_attempt_at <= " + store_->time_expression(3600)),
              "1");
    EXPECT_EQ(newest_audit(id), "orders " + std::to_string(id) +
                                    " outbox_flush_retry sending failed 1 BROKER_5XX BROKER_5XX: 503 from the broker"
                                    " key-1 trace-key-1 - w w");
}

TEST_P(OrdersOutboxConformance, SettlingAsDeadLeavesCountAndLedgerAlone) {
    const std::int64_t id = accepted("key-1");
    const std::string ledger = store_->value("select expires_at from idempo_ledger");
    claim();
    EXPECT_TRUE(settle(dead(id)).applied);
    const Order order = found("key-1");
    EXPECT_EQ(order.status, "dead");
    EXPECT_EQ(order.retry_count, 0);
    EXPECT_EQ(order.last_error, "BAD_REQUEST");
    EXPECT_EQ(order.last_error_detail, "BAD_REQUEST: qty");
    EXPECT_EQ(column(id, "locked_by"), "");
    EXPECT_EQ(store_->value("select expires_at from idempo_ledger where result_digest is null"), ledger);
    EXPECT_EQ(newest_audit(id), "orders " + std::to_string(id) +
                                    " outbox_flush_dead sending dead 0 BAD_REQUEST BAD_REQUEST: qty"
                                    " key-1 trace-key-1 - w w");
    EXPECT_TRUE(claim().rows.empty());
}

TEST_P(OrdersOutboxConformance, AnOrderStaysInDoubtUntilItIsSent) {
    const std::int64_t id = accepted("key-1");
    EXPECT_FALSE(found("key-1").in_doubt);
    claim();
    Settlement lost = retry(id, 0, std::chrono::seconds(0));
    lost.in_doubt = true;
    settle(lost);
    EXPECT_TRUE(found("key-1").in_doubt);
    claim();
    settle(retry(id, 1, std::chrono::seconds(0)));
    EXPECT_TRUE(found("key-1").in_doubt) << "a refusal later on proves nothing about the first attempt";
    claim();
    Settlement given_up = dead(id);
    given_up.failures_before = 2;
    settle(given_up);
    EXPECT_TRUE(found("key-1").in_doubt);
    EXPECT_EQ(found("key-1").status, "dead");
    EXPECT_TRUE(must(orders_->list({})).at(0).in_doubt);

    const std::int64_t other = accepted("key-2");
    claim("vanished");
    store_->age_sending(100);
    EXPECT_EQ(must(outbox_->rescue("w", std::chrono::seconds(60))), 1);
    EXPECT_TRUE(found("key-2").in_doubt) << "nobody knows whether it was sent";
    claim();
    settle(sent(other));
    EXPECT_FALSE(found("key-2").in_doubt);

    const std::int64_t refused = accepted("key-3");
    claim();
    settle(dead(refused));
    EXPECT_FALSE(found("key-3").in_doubt);
}

TEST_P(OrdersOutboxConformance, ARepeatedSettleCountsOnce) {
    const std::int64_t id = accepted("key-1");
    claim();
    const Settlement failed = retry(id, 0, std::chrono::seconds(0));
    EXPECT_TRUE(settle(failed).applied);
    const SettleAnswer again = settle(failed);
    EXPECT_FALSE(again.applied);
    ASSERT_TRUE(again.row);
    EXPECT_EQ(again.row->phase, RowPhase::open);
    EXPECT_EQ(again.row->status, "failed");
    EXPECT_EQ(again.row->failures, 1);
    EXPECT_FALSE(again.row->locked_by);
    EXPECT_EQ(again.row->last_error, failed.error);
    EXPECT_EQ(claim().rows.size(), 1U);
    EXPECT_FALSE(settle(failed).applied) << "also when the worker has meanwhile claimed the row anew";
    EXPECT_EQ(found("key-1").retry_count, 1);
    EXPECT_EQ(rows_in("outbox_audit where reason = 'outbox_flush_retry'"), "1");
}

TEST_P(OrdersOutboxConformance, TwoSettlementsOfARowInOneBatchCountOnce) {
    const std::int64_t id = accepted("key-1");
    claim();
    const std::vector<Settlement> both = {sent(id), retry(id)};
    const auto answers = must(outbox_->settle("w", both));
    EXPECT_TRUE(answers.at(0).applied);
    EXPECT_FALSE(answers.at(1).applied);
    EXPECT_EQ(answers.at(1).row.value().status, "sent");
    EXPECT_EQ(answers.at(1).row.value().phase, RowPhase::sent);
    EXPECT_EQ(trail("key-1").size(), 3U);
}

TEST_P(OrdersOutboxConformance, OrderLedgerAndAuditAreSettledTogetherOrNotAtAll) {
    const std::int64_t id = accepted("key-1");
    claim();
    const Settlement settlement = sent(id);
    for (const std::string table : {"outbox_audit", "idempo_ledger"}) {
        store_->execute("alter table " + table + " rename to away");
        EXPECT_FALSE(outbox_->settle("w", std::span(&settlement, 1))) << table;
        store_->execute("alter table away rename to " + table);
        EXPECT_EQ(found("key-1").status, "sending") << table;
        EXPECT_EQ(column(id, "locked_by"), "w") << table;
        EXPECT_FALSE(found("key-1").result_digest) << table;
        EXPECT_EQ(trail("key-1").size(), 2U) << table;
    }
    EXPECT_TRUE(settle(settlement).applied);
}

TEST_P(OrdersOutboxConformance, ErrorsReceiptsAndAnswersMayContainAnything) {
    const std::int64_t bad = accepted("key-1");
    const std::int64_t good = accepted("key-2");
    claim();
    EXPECT_TRUE(settle({.id = bad, .kind = SettleKind::dead, .error = std::string("bad \0 \xff byte", 12), .code = "C"})
                    .applied);
    EXPECT_EQ(found("key-1").last_error_detail, "bad  \xEF\xBF\xBD byte");
    Settlement settlement = sent(good);
    settlement.receipt = std::string("m\0\xff", 3);
    settlement.answer = ReceiverAnswer{std::string("<\0\xff>", 4), "sha256:x"};
    EXPECT_TRUE(settle(settlement).applied);
    EXPECT_EQ(found("key-2").broker_order_id, "m\xEF\xBF\xBD");
    EXPECT_EQ(found("key-2").result_json, "<\xEF\xBF\xBD>");
}

TEST_P(OrdersOutboxConformance, NotesGoToTheAudit) {
    const std::int64_t id = accepted("key-1");
    const std::vector<AuditNote> notes = {{id, "outbox_flush_conflict", std::string("x\0\xff", 3), 2},
                                          {4711, "outbox_flush_db_error", "y", 0}};
    must(outbox_->audit("w", notes));
    EXPECT_EQ(rows_in("outbox_audit where outbox = 'orders' and worker = 'w' and actor = 'w' and"
                      " status_from is null and status_to is null"),
              "2");
    EXPECT_EQ(store_->value("select reason || ' ' || detail || ' ' || retry_count || ' ' || idempotency_key || ' ' ||"
                            " trace_id from outbox_audit where worker = 'w' and outbox_id = " +
                            std::to_string(id)),
              "outbox_flush_conflict x\xEF\xBF\xBD 2 key-1 trace-key-1");
}

}  // namespace deliverd::store::conformance
