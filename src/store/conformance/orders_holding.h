// Who holds an order of the outbox, and what becomes of one nobody does, for every store. Included by one test file of
// each, which instantiates OrdersHoldingConformance.
#pragma once

#include <map>
#include <mutex>

#include "store/conformance/orders_outbox.h"

namespace deliverd::store::conformance {

class OrdersHoldingConformance : public OrdersOutboxFixture {};

TEST_P(OrdersHoldingConformance, StuckOrdersAreQueuedAgain) {
    const std::int64_t stuck = accepted("key-1");
    const std::int64_t fails = accepted("key-2");
    claim("old");
    settle(retry(fails), "old");
    store_->age_sending(601);
    const std::int64_t held = accepted("key-3");
    claim("old");
    const std::int64_t queued = accepted("key-4");
    store_->execute("update outbox_orders set updated_at = " + store_->time_expression(-5000) + " where id in (" +
                    std::to_string(fails) + ", " + std::to_string(queued) + ")");
    EXPECT_EQ(must(outbox_->rescue("new", std::chrono::seconds(600))), 1);
    EXPECT_EQ(found("key-1").status, "queued");
    EXPECT_EQ(column(stuck, "locked_by"), "");
    EXPECT_EQ(found("key-2").status, "failed");
    EXPECT_EQ(found("key-3").status, "sending");
    EXPECT_EQ(column(held, "locked_by"), "old");
    EXPECT_THAT(trail("key-4"), ::testing::SizeIs(1));
    EXPECT_EQ(newest_audit(stuck),
              "orders " + std::to_string(stuck) + " outbox_stuck sending queued 0 - - key-1 trace-key-1 - new new");
    EXPECT_EQ(must(outbox_->rescue("new", std::chrono::seconds(600))), 0);

    EXPECT_THAT(ids(claim("new")), ::testing::UnorderedElementsAre(stuck, queued));
    const SettleAnswer late = settle(sent(stuck), "old");
    EXPECT_FALSE(late.applied);
    EXPECT_EQ(late.row.value().status, "sending");
    EXPECT_EQ(late.row.value().locked_by, "new");
    EXPECT_FALSE(found("key-1").result_digest) << "a settle that does not apply leaves the ledger alone";
    EXPECT_TRUE(settle(sent(stuck), "new").applied);
}

TEST_P(OrdersHoldingConformance, ARescuedOrderKeepsItsLastErrorAndItsCount) {
    const std::int64_t id = accepted("key-1");
    claim();
    settle(retry(id, 0, std::chrono::seconds(0)));
    claim();
    store_->age_sending(100);
    EXPECT_EQ(must(outbox_->rescue("new", std::chrono::seconds(99))), 1);
    EXPECT_EQ(found("key-1").retry_count, 1);
    EXPECT_EQ(found("key-1").last_error, "BROKER_5XX");
    EXPECT_EQ(trail("key-1").back(), "outbox_stuck sending>queued 1 BROKER_5XX");
}

TEST_P(OrdersHoldingConformance, AFormerOwnerSettlesNothingAndIsToldWhatStandsThere) {
    const std::int64_t id = accepted("key-1");
    claim("old");
    store_->execute("update outbox_orders set locked_by = 'new'");
    for (const SettleKind kind : {SettleKind::sent, SettleKind::duplicate, SettleKind::retry, SettleKind::dead}) {
        const SettleAnswer answer = settle({.id = id, .kind = kind, .error = "e", .code = "C"}, "old");
        EXPECT_FALSE(answer.applied);
        EXPECT_EQ(answer.row.value().phase, RowPhase::open);
        EXPECT_EQ(answer.row.value().status, "sending");
        EXPECT_EQ(answer.row.value().locked_by, "new");
    }
    const RenewAnswer renewed = must(outbox_->renew("old", std::vector{id}));
    EXPECT_THAT(renewed.renewed, ::testing::IsEmpty());
    EXPECT_THAT(renewed.lost, ::testing::ElementsAre(id));
    EXPECT_EQ(must(outbox_->release("old", std::vector{id})), 0);
    EXPECT_EQ(column(id, "locked_by"), "new");
    EXPECT_EQ(trail("key-1").size(), 2U);
    EXPECT_FALSE(settle(sent(4711)).row) << "a row that is gone has no state";
}

TEST_P(OrdersHoldingConformance, ARenewalIsTheLeaseAndTellsWhatIsHeldFromWhatIsLost) {
    fill(6);
    claim("w", 5);
    settle(sent(1));
    settle(dead(2));
    settle(retry(3));
    store_->age_sending(100);
    const RenewAnswer answer = must(outbox_->renew("w", std::vector<std::int64_t>{99, 6, 5, 4, 3, 2, 1}));
    EXPECT_THAT(answer.renewed, ::testing::UnorderedElementsAre(4, 5));
    EXPECT_THAT(answer.lost, ::testing::UnorderedElementsAre(1, 2, 3, 6, 99));
    EXPECT_EQ(must(outbox_->rescue("two", std::chrono::seconds(50))), 0) << "the renewed ones are held anew";
    EXPECT_EQ(rows_in("outbox_audit where outbox_id in (4, 5)"), "2") << "a renewal is no transition";
    EXPECT_TRUE(must(outbox_->renew("w", {})).renewed.empty());
}

TEST_P(OrdersHoldingConformance, ReleasedOrdersAreThereForOthersAtOnce) {
    const std::int64_t id = accepted("key-1");
    claim("one");
    settle(retry(id, 0, std::chrono::seconds(0)), "one");
    claim("one");
    EXPECT_EQ(must(outbox_->release("one", std::vector<std::int64_t>{id, 99})), 1);
    EXPECT_EQ(found("key-1").status, "queued");
    EXPECT_EQ(found("key-1").retry_count, 1);
    EXPECT_EQ(column(id, "locked_by"), "");
    EXPECT_EQ(newest_audit(id), "orders " + std::to_string(id) +
                                    " outbox_release sending queued 1 BROKER_5XX - key-1 trace-key-1 - one one");
    EXPECT_EQ(must(outbox_->release("one", std::vector{id})), 0);
    EXPECT_THAT(ids(claim("two")), ::testing::ElementsAre(id));
}

TEST_P(OrdersHoldingConformance, LagAndCounts) {
    EXPECT_EQ(must(outbox_->lag_seconds()), 0);
    fill(6);
    set_created_of_all(-10);
    set_created(6, -500);
    store_->set_order_due(6, 50);
    const auto expect_lag = [&](double least) {
        const double lag = must(outbox_->lag_seconds());
        EXPECT_GE(lag, least);
        EXPECT_LT(lag, least + 40);
    };
    expect_lag(9.9);
    claim("w", 4);
    settle(sent(1));
    settle(dead(2));
    settle(retry(3));
    set_created(1, -400);
    set_created(2, -400);
    set_created(3, -300);
    expect_lag(9.9);
    set_created(4, -100);
    expect_lag(99.9);
    store_->set_order_due(3, -1);
    expect_lag(299.9);
    const RowCounts counts = must(outbox_->counts());
    EXPECT_EQ(counts.pending, 4) << "queued, sending and failed";
    EXPECT_EQ(counts.sent, 1);
    EXPECT_EQ(counts.dead, 1);
    EXPECT_TRUE(outbox_->ping(std::chrono::seconds(10)));
}

TEST_P(OrdersHoldingConformance, WrongArgumentsAreRefused) {
    fill(1);
    const Settlement settlement = sent(1);
    const AuditNote note{1, "outbox_flush_conflict", "", 0};
    const auto minute = std::chrono::seconds(60);
    expect_refused(outbox_->claim({"", 1, minute, std::nullopt}), "worker_id");
    expect_refused(outbox_->claim({"w", 0, minute, std::nullopt}), "limit");
    expect_refused(outbox_->settle("", std::span(&settlement, 1)), "worker_id");
    expect_refused(outbox_->renew("", std::vector<std::int64_t>{1}), "worker_id");
    expect_refused(outbox_->release("", std::vector<std::int64_t>{1}), "worker_id");
    expect_refused(outbox_->audit("", std::span(&note, 1)), "worker_id");
    expect_refused(outbox_->rescue("", minute), "worker_id");
    EXPECT_TRUE(must(outbox_->settle("w", {})).empty());
    EXPECT_EQ(claim().rows.size(), 1U);
}

TEST_P(OrdersHoldingConformance, TwoProcessesGetEachOrderOnce) {
    constexpr int kOrders = 4000;
    fill(kOrders);
    const std::unique_ptr<Database> other = store_->open_again();
    const std::unique_ptr<RowQueue> other_outbox = other->orders_outbox(kOptions, "orders");
    std::mutex mutex;
    std::map<std::int64_t, int> seen;
    std::vector<std::string> problems;
    const auto drain = [&](RowQueue& outbox, const std::string& worker) {
        for (;;) {
            auto batch = outbox.claim({worker, 100, std::chrono::seconds(60), std::nullopt});
            if (batch && batch->rows.empty()) return;
            std::vector<Settlement> settlements;
            {
                const std::lock_guard lock(mutex);
                if (!batch) problems.push_back(batch.error().message);
                if (!batch) return;
                for (const Claimed& row : batch->rows) {
                    ++seen[row.message.id];
                    settlements.push_back(sent(row.message.id));
                }
            }
            const std::string problem = settle_all(outbox, worker, std::move(settlements));
            const std::lock_guard lock(mutex);
            if (!problem.empty()) problems.push_back(problem);
        }
    };
    std::thread one([&] { drain(*outbox_, "one"); });
    std::thread two([&] { drain(*other_outbox, "two"); });
    one.join();
    two.join();
    EXPECT_THAT(problems, ::testing::IsEmpty());
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(kOrders));
    for (const auto& [id, times] : seen) EXPECT_EQ(times, 1) << id;
    EXPECT_EQ(must(outbox_->counts()).sent, kOrders);
    EXPECT_EQ(rows_in("idempo_ledger"), std::to_string(kOrders));
    EXPECT_EQ(rows_in("outbox_audit"), std::to_string(2 * kOrders));
}

}  // namespace deliverd::store::conformance
