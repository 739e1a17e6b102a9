// The guarantees of store/orders.h, for every store. Included by one test file of each, which instantiates
// OrdersConformance.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <latch>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "store/conformance/test_store.h"
#include "store/orders.h"
#include "store/row_queue.h"

namespace deliverd::store::conformance {

/// What the suites on orders share.
class OrdersFixture : public ::testing::TestWithParam<StoreKind> {
protected:
    static constexpr int kLedgerSeconds = 10'800;

    void SetUp() override {
        store_ = GetParam().make();
        orders_ = store_->database().orders(kOptions);
        outbox_ = store_->database().orders_outbox(kOptions, "orders");
        ASSERT_TRUE(orders_ && outbox_);
    }
    static NewOrder new_order(const std::string& key, const std::string& digest = "sha256:a") {
        return {key, R"({"symbol":"AB)" + key + R"("})", digest, "trace-" + key, "ops"};
    }
    AcceptAnswer accept(const NewOrder& order) { return must(orders_->accept(std::span(&order, 1))).at(0); }
    std::int64_t accepted(const std::string& key) { return accept(new_order(key)).order.id; }
    OrderDetail detail(const std::string& key) { return must(orders_->find(key)).value(); }
    Order found(const std::string& key) { return detail(key).order; }
    ClaimBatch claim(const std::string& worker = "w", int limit = 1000, std::optional<Cursor> after = std::nullopt) {
        return must(outbox_->claim({worker, limit, std::chrono::seconds(60), std::move(after)}));
    }
    SettleAnswer settle(const Settlement& settlement, const std::string& worker = "w") {
        return must(outbox_->settle(worker, std::span(&settlement, 1))).at(0);
    }
    static Settlement sent(std::int64_t id) {
        return {.id = id,
                .kind = SettleKind::sent,
                .receipt = "B-" + std::to_string(id),
                .answer = ReceiverAnswer{R"({"order_id": 1e2})", "sha256:result"}};
    }
    /// The audit of an order, oldest first, a line as "reason from>to count last_error".
    std::vector<std::string> trail(const std::string& key) {
        std::vector<std::string> lines;
        for (const AuditLine& line : detail(key).audit) {
            lines.push_back(line.reason + " " + line.status_from.value_or("") + ">" + line.status_to.value_or("") +
                            " " + (line.retry_count ? std::to_string(*line.retry_count) : "?") + " " +
                            line.last_error.value_or("-"));
        }
        return lines;
    }
    std::string rows_in(const std::string& table) { return store_->value("select count(*) from " + table); }
    /// How many ledger rows expire in the time to live, counted from about now.
    std::string fresh_ledger_rows() {
        return rows_in("idempo_ledger where expires_at > " + store_->time_expression(kLedgerSeconds - 100) +
                       " and expires_at <= " + store_->time_expression(kLedgerSeconds));
    }

    static constexpr OrdersOptions kOptions{std::chrono::seconds(kLedgerSeconds)};
    std::unique_ptr<TestStore> store_;
    std::unique_ptr<Orders> orders_;
    std::unique_ptr<RowQueue> outbox_;
};

class OrdersConformance : public OrdersFixture {};

TEST_P(OrdersConformance, AFreshOrderIsQueuedWithItsLedgerAndItsAudit) {
    const AcceptAnswer answer = accept(new_order("key-1"));
    EXPECT_EQ(answer.kind, AcceptKind::fresh);
    EXPECT_EQ(answer.order.idempotency_key, "key-1");
    EXPECT_EQ(answer.order.request_digest, "sha256:a");
    EXPECT_EQ(answer.order.trace_id, "trace-key-1");
    EXPECT_EQ(answer.order.status, "queued");
    EXPECT_EQ(answer.order.retry_count, 0);
    EXPECT_FALSE(answer.order.last_error || answer.order.broker_order_id || answer.order.result_digest);
    EXPECT_EQ(rows_in("outbox_orders where status = 'queued' and retry_count = 0 and locked_by is null and id = " +
                      std::to_string(answer.order.id) + " and next_attempt_at <= " + store_->time_expression(0) +
                      " and next_attempt_at > " + store_->time_expression(-100)),
              "1");
    EXPECT_EQ(rows_in("idempo_ledger where idempotency_key = 'key-1' and request_digest = 'sha256:a' and"
                      " result_digest is null and result_json is null"),
              "1");
    EXPECT_EQ(fresh_ledger_rows(), "1");
    EXPECT_EQ(store_->value("select outbox || ' ' || outbox_id || ' ' || reason || ' ' || coalesce(status_from, '-') ||"
                            " ' ' || status_to || ' ' || retry_count || ' ' || idempotency_key || ' ' || trace_id ||"
                            " ' ' || actor || ' ' || coalesce(worker, '-') from outbox_audit"),
              "orders " + std::to_string(answer.order.id) + " order_accepted - queued 0 key-1 trace-key-1 ops -");
    const auto now = std::chrono::system_clock::now();
    EXPECT_LT(answer.order.created_at, now + std::chrono::hours(1));
    EXPECT_GT(answer.order.created_at, now - std::chrono::hours(1));
    EXPECT_EQ(found("key-1").created_at, answer.order.created_at);
    EXPECT_EQ(found("key-1").updated_at, answer.order.updated_at);
}

TEST_P(OrdersConformance, AKnownOrderIsToldAsItStandsAndNothingChanges) {
    const std::int64_t id = accepted("key-1");
    const AcceptAnswer again = accept(new_order("key-1"));
    EXPECT_EQ(again.kind, AcceptKind::known);
    EXPECT_EQ(again.order.id, id);
    EXPECT_EQ(again.order.status, "queued");
    EXPECT_FALSE(again.order.result_digest);

    claim();
    EXPECT_TRUE(settle(sent(id)).applied);
    const WallTime settled_at = found("key-1").updated_at;
    NewOrder other_trace = new_order("key-1");
    other_trace.trace_id = "another";
    const AcceptAnswer after = accept(other_trace);
    EXPECT_EQ(after.kind, AcceptKind::known);
    EXPECT_EQ(after.order.id, id);
    EXPECT_EQ(after.order.status, "sent");
    EXPECT_EQ(after.order.request_json, new_order("key-1").request_json);
    EXPECT_EQ(after.order.trace_id, "trace-key-1") << "the first post's";
    EXPECT_EQ(after.order.broker_order_id, "B-" + std::to_string(id));
    EXPECT_EQ(after.order.result_digest, "sha256:result");
    EXPECT_EQ(after.order.result_json, R"({"order_id": 1e2})");
    EXPECT_EQ(found("key-1").updated_at, settled_at);
    EXPECT_EQ(rows_in("outbox_orders"), "1");
    EXPECT_EQ(rows_in("idempo_ledger"), "1");
    EXPECT_EQ(rows_in("outbox_audit where reason = 'order_accepted'"), "1");
}

TEST_P(OrdersConformance, AnotherDigestIsAConflictAndChangesNothing) {
    const std::int64_t id = accepted("key-1");
    NewOrder other = new_order("key-1", "sha256:b");
    other.request_json = R"({"symbol":"OTHER"})";
    const AcceptAnswer answer = accept(other);
    EXPECT_EQ(answer.kind, AcceptKind::conflict);
    EXPECT_EQ(answer.order.id, id);
    EXPECT_EQ(answer.order.request_digest, "sha256:a");
    EXPECT_EQ(found("key-1").request_digest, "sha256:a");
    EXPECT_EQ(found("key-1").request_json, new_order("key-1").request_json);
    EXPECT_EQ(store_->value("select request_digest from idempo_ledger"), "sha256:a");
    EXPECT_EQ(rows_in("outbox_orders"), "1");
    EXPECT_EQ(rows_in("outbox_audit"), "1");
}

TEST_P(OrdersConformance, TheKeyOutlivesTheLedger) {
    const std::int64_t id = accepted("key-1");
    claim();
    settle(sent(id));
    store_->execute("delete from idempo_ledger");
    const AcceptAnswer known = accept(new_order("key-1"));
    EXPECT_EQ(known.kind, AcceptKind::known);
    EXPECT_EQ(known.order.status, "sent");
    EXPECT_EQ(known.order.broker_order_id, "B-" + std::to_string(id));
    EXPECT_FALSE(known.order.result_digest || known.order.result_json);
    EXPECT_EQ(accept(new_order("key-1", "sha256:b")).kind, AcceptKind::conflict);
    EXPECT_EQ(rows_in("idempo_ledger"), "0");
}

TEST_P(OrdersConformance, ALedgerRowWithoutItsOrderIsStartedAnew) {
    store_->execute(
        "insert into idempo_ledger (idempotency_key, request_digest, result_digest, result_json, expires_at)"
        " values ('key-1', 'sha256:old', 'sha256:old', '{}', " +
        store_->time_expression(-5) + ")");
    EXPECT_EQ(accept(new_order("key-1")).kind, AcceptKind::fresh);
    EXPECT_EQ(rows_in("idempo_ledger where request_digest = 'sha256:a' and result_digest is null and"
                      " result_json is null"),
              "1");
    EXPECT_EQ(fresh_ledger_rows(), "1");
}

TEST_P(OrdersConformance, TwoOfOneKeyInOneCallAreAsTwoCalls) {
    const std::vector<NewOrder> orders = {new_order("key-b"), new_order("key-a"), new_order("key-b"),
                                          new_order("key-a", "sha256:b")};
    const auto answers = must(orders_->accept(orders));
    ASSERT_EQ(answers.size(), 4U);
    EXPECT_EQ(answers[0].kind, AcceptKind::fresh);
    EXPECT_EQ(answers[1].kind, AcceptKind::fresh);
    EXPECT_EQ(answers[2].kind, AcceptKind::known);
    EXPECT_EQ(answers[2].order.id, answers[0].order.id);
    EXPECT_EQ(answers[3].kind, AcceptKind::conflict);
    EXPECT_EQ(answers[3].order.id, answers[1].order.id);
    EXPECT_EQ(found("key-a").request_digest, "sha256:a") << "the first of the two";
    EXPECT_EQ(rows_in("outbox_orders"), "2");
    EXPECT_EQ(rows_in("outbox_audit"), "2");
}

TEST_P(OrdersConformance, AnswersComeInTheOrderOfTheOrders) {
    const std::int64_t known = accepted("key-5");
    const std::int64_t conflict = accepted("key-3");
    const std::vector<NewOrder> orders = {new_order("key-9"), new_order("key-5"), new_order("key-3", "sha256:b"),
                                          new_order("Key-9"), new_order("key-1")};
    const auto answers = must(orders_->accept(orders));
    ASSERT_EQ(answers.size(), orders.size());
    const std::vector<AcceptKind> kinds = {AcceptKind::fresh, AcceptKind::known, AcceptKind::conflict,
                                           AcceptKind::fresh, AcceptKind::fresh};
    for (std::size_t i = 0; i < orders.size(); ++i) {
        EXPECT_EQ(answers[i].kind, kinds[i]) << i;
        EXPECT_EQ(answers[i].order.idempotency_key, orders[i].idempotency_key);
        EXPECT_EQ(answers[i].order.id, found(orders[i].idempotency_key).id);
    }
    EXPECT_EQ(answers[1].order.id, known);
    EXPECT_EQ(answers[2].order.id, conflict);
    EXPECT_EQ(rows_in("outbox_orders"), "5") << "capitals make another key";
    EXPECT_TRUE(must(orders_->accept({})).empty());
}

TEST_P(OrdersConformance, FiftyPostsOfOneKeyAtOnceAreOneOrder) {
    constexpr int kThreads = 50;
    std::latch start(kThreads);
    std::vector<Result<std::vector<AcceptAnswer>>> answers(kThreads, retryable("", "not asked"));
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i] {
            const NewOrder order = new_order("key-1");
            start.arrive_and_wait();
            answers[static_cast<std::size_t>(i)] = orders_->accept(std::span(&order, 1));
        });
    }
    for (std::thread& thread : threads) thread.join();
    int fresh = 0;
    std::set<std::int64_t> ids;
    for (auto& answer : answers) {
        const AcceptAnswer one = must(std::move(answer)).at(0);
        EXPECT_NE(one.kind, AcceptKind::conflict);
        fresh += one.kind == AcceptKind::fresh ? 1 : 0;
        ids.insert(one.order.id);
    }
    EXPECT_EQ(fresh, 1);
    EXPECT_EQ(ids.size(), 1U);
    EXPECT_EQ(rows_in("outbox_orders"), "1");
    EXPECT_EQ(rows_in("idempo_ledger"), "1");
    EXPECT_EQ(rows_in("outbox_audit"), "1");
}

TEST_P(OrdersConformance, OverlappingBatchesInAnyOrderDoNotBlockEachOther) {
    constexpr int kThreads = 8;
    constexpr int kRounds = 5;
    constexpr int kKeys = 400;
    std::latch start(kThreads);
    std::vector<std::string> problems(kThreads);
    std::vector<int> fresh(kThreads);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([&, i, at = static_cast<std::size_t>(i)] {
            std::mt19937 random(static_cast<unsigned>(i));
            start.arrive_and_wait();
            for (int round = 0; round < kRounds; ++round) {
                std::vector<NewOrder> batch;
                for (int key = 0; key < kKeys; ++key) {
                    batch.push_back(new_order("key-" + std::to_string(round) + "-" + std::to_string(key)));
                }
                std::shuffle(batch.begin(), batch.end(), random);
                const auto answers = orders_->accept(batch);
                if (!answers) problems[at] += answers.error().message + "; ";
                if (!answers) continue;
                for (const AcceptAnswer& answer : *answers) fresh[at] += answer.kind == AcceptKind::fresh ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(problems, ::testing::Each(""));
    EXPECT_EQ(std::accumulate(fresh.begin(), fresh.end(), 0), kRounds * kKeys);
    EXPECT_EQ(rows_in("outbox_orders"), std::to_string(kRounds * kKeys));
    EXPECT_EQ(rows_in("outbox_audit"), std::to_string(kRounds * kKeys));
}

TEST_P(OrdersConformance, TheRequestIsKeptByteForByte) {
    NewOrder order = new_order("key-1");
    order.request_json =
        "{ \"qty\" : 12345678901234567890,\n\t\"limit_price\":145.001, \"b\":9007199254740993, \"a\":1e2,"
        "\"meta\":{\"z\":1,\"y\":[1.0,-0,0.10],\"s\":\"gr\\u00fc\xC3\x9F\\/e\"}}";
    accept(order);
    EXPECT_EQ(found("key-1").request_json, order.request_json);
    EXPECT_EQ(accept(order).order.request_json, order.request_json);
    EXPECT_EQ(must(orders_->list({})).at(0).request_json, order.request_json);
    EXPECT_EQ(claim().rows.at(0).message.body, order.request_json);
}

TEST_P(OrdersConformance, AnOrderIsFoundWithItsAuditOldestFirst) {
    const std::int64_t id = accepted("key-1");
    accepted("key-2");
    claim("w", 1);
    settle({.id = id, .kind = SettleKind::dead, .error = "BAD_REQUEST: no such symbol", .code = "BAD_REQUEST"});
    const OrderDetail one = detail("key-1");
    EXPECT_EQ(one.order.id, id);
    EXPECT_EQ(one.order.status, "dead");
    EXPECT_EQ(one.order.last_error, "BAD_REQUEST");
    EXPECT_EQ(one.order.last_error_detail, "BAD_REQUEST: no such symbol");
    EXPECT_FALSE(one.order.result_digest);
    EXPECT_THAT(trail("key-1"), ::testing::ElementsAre("order_accepted >queued 0 -", "outbox_claim queued>sending 0 -",
                                                       "outbox_flush_dead sending>dead 0 BAD_REQUEST"));
    EXPECT_EQ(one.audit[0].actor, "ops");
    EXPECT_FALSE(one.audit[0].worker);
    EXPECT_EQ(one.audit[2].actor, "w");
    EXPECT_EQ(one.audit[2].worker, "w");
    EXPECT_EQ(one.audit[2].detail, "BAD_REQUEST: no such symbol");
    EXPECT_LE(one.audit[0].at, one.audit[2].at);
    EXPECT_FALSE(must(orders_->find("key-3")));
    EXPECT_FALSE(must(orders_->find("")));
}

TEST_P(OrdersConformance, OfALongAuditTheNewestLinesAreShown) {
    const std::string id = std::to_string(accepted("key-1"));
    store_->execute("with recursive n (i) as (select 1 union all select i + 1 from n where i < " +
                    std::to_string(kMaxAuditLines + 5) +
                    ") insert into outbox_audit (outbox, outbox_id, reason, retry_count) select 'orders', " + id +
                    ", 'note', i from n");
    store_->execute("insert into outbox_audit (outbox, outbox_id, reason) values ('memory', " + id + ", 'other')");
    const auto audit = detail("key-1").audit;
    ASSERT_EQ(audit.size(), static_cast<std::size_t>(kMaxAuditLines));
    EXPECT_EQ(audit.front().retry_count, 6);
    EXPECT_EQ(audit.back().retry_count, kMaxAuditLines + 5);
    EXPECT_EQ(audit.back().reason, "note") << "the lines of another outbox are not this order's";
}

TEST_P(OrdersConformance, TheListIsNewestFirstAndInPages) {
    std::vector<std::int64_t> ids;
    for (int i = 1; i <= 5; ++i) ids.push_back(accepted("key-" + std::to_string(i)));
    claim("w", 2);
    settle(sent(ids[1]));
    const auto listed = [&](const OrderQuery& query) {
        std::vector<std::int64_t> out;
        for (const Order& order : must(orders_->list(query))) out.push_back(order.id);
        return out;
    };
    using ::testing::ElementsAre;
    EXPECT_THAT(listed({}), ElementsAre(ids[4], ids[3], ids[2], ids[1], ids[0]));
    EXPECT_THAT(listed({.status = {}, .below_id = {}, .limit = 2}), ElementsAre(ids[4], ids[3]));
    EXPECT_THAT(listed({.status = {}, .below_id = ids[3], .limit = 2}), ElementsAre(ids[2], ids[1]));
    EXPECT_THAT(listed({.status = "queued", .below_id = {}, .limit = 100}), ElementsAre(ids[4], ids[3], ids[2]));
    EXPECT_THAT(listed({.status = "queued", .below_id = ids[4], .limit = 1}), ElementsAre(ids[3]));
    EXPECT_THAT(listed({.status = "sent", .below_id = {}, .limit = 100}), ElementsAre(ids[1]));
    EXPECT_THAT(listed({.status = "dead", .below_id = {}, .limit = 100}), ElementsAre());
    store_->execute("update outbox_orders set status = 'dead' where status = 'queued'");
    EXPECT_THAT(listed({.status = "dead", .below_id = {}, .limit = 2}), ElementsAre(ids[4], ids[3]));
    EXPECT_THAT(listed({.status = "dead", .below_id = ids[3], .limit = 2}), ElementsAre(ids[2]));
    const Order one = must(orders_->list({.status = "sent", .below_id = {}, .limit = 1})).at(0);
    EXPECT_EQ(one.idempotency_key, "key-2");
    EXPECT_EQ(one.broker_order_id, "B-" + std::to_string(ids[1]));
    expect_refused(orders_->list({.status = {}, .below_id = {}, .limit = 0}), "limit");
}

TEST_P(OrdersConformance, OrderLedgerAndAuditAreStoredTogetherOrNotAtAll) {
    for (const std::string table : {"outbox_audit", "idempo_ledger"}) {
        store_->execute("alter table " + table + " rename to away");
        const NewOrder order = new_order("key-1");
        EXPECT_FALSE(orders_->accept(std::span(&order, 1))) << table;
        store_->execute("alter table away rename to " + table);
        EXPECT_EQ(rows_in("outbox_orders"), "0") << table;
        EXPECT_EQ(rows_in("idempo_ledger"), "0") << table;
        EXPECT_EQ(rows_in("outbox_audit"), "0") << table;
    }
    EXPECT_EQ(accept(new_order("key-1")).kind, AcceptKind::fresh);
}

TEST_P(OrdersConformance, ManyOrdersInOneCall) {
    constexpr int kOrders = 1000;
    std::vector<NewOrder> orders;
    for (int i = kOrders; i > 0; --i) orders.push_back(new_order("key-" + std::to_string(i)));
    const auto answers = must(orders_->accept(orders));
    ASSERT_EQ(answers.size(), orders.size());
    for (std::size_t i = 0; i < orders.size(); ++i) {
        EXPECT_EQ(answers[i].kind, AcceptKind::fresh);
        EXPECT_EQ(answers[i].order.idempotency_key, orders[i].idempotency_key);
    }
    EXPECT_EQ(rows_in("idempo_ledger"), std::to_string(kOrders));
    EXPECT_EQ(rows_in("outbox_audit"), std::to_string(kOrders));
}

}  // namespace deliverd::store::conformance
