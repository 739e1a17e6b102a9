#include "wal/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace deliverd::wal {
namespace {

TEST(ProgressTest, StartsWhereTheStreamStarts) {
    EXPECT_EQ(Progress(70).confirmed(), 70U);
    EXPECT_EQ(Progress(70).unsettled(), 0U);
}

TEST(ProgressTest, ATransactionCountsOnceItIsCommittedAndSettled) {
    Progress progress(10);
    const auto ticket = progress.begin();
    progress.handed_out(2);
    progress.settled(ticket, 2);
    EXPECT_EQ(progress.confirmed(), 10U) << "more may follow in the transaction";
    progress.handed_out();
    progress.committed(20);
    EXPECT_EQ(progress.confirmed(), 10U);
    EXPECT_EQ(progress.unsettled(), 1U);
    progress.settled(ticket);
    EXPECT_EQ(progress.confirmed(), 20U);
    EXPECT_EQ(progress.transactions(), 0U);
}

TEST(ProgressTest, AnEarlierTransactionHoldsBackALaterOne) {
    Progress progress(10);
    const auto first = progress.begin();
    progress.handed_out();
    progress.committed(20);
    const auto second = progress.begin();
    progress.handed_out();
    progress.committed(30);
    progress.settled(second);
    EXPECT_EQ(progress.confirmed(), 10U);
    progress.settled(first);
    EXPECT_EQ(progress.confirmed(), 30U);
}

TEST(ProgressTest, WhatHasNothingForUsCountsAtOnceOrAfterWhatIsBeforeIt) {
    Progress progress(10);
    progress.passed(15);
    EXPECT_EQ(progress.confirmed(), 15U);
    static_cast<void>(progress.begin());
    progress.committed(20);
    EXPECT_EQ(progress.confirmed(), 20U);

    const auto ticket = progress.begin();
    progress.handed_out();
    progress.passed(99);
    progress.committed(30);
    progress.passed(40);
    static_cast<void>(progress.begin());
    progress.committed(50);
    EXPECT_EQ(progress.confirmed(), 20U);
    EXPECT_EQ(progress.transactions(), 1U) << "transactions without events need no memory";
    progress.settled(ticket);
    EXPECT_EQ(progress.confirmed(), 50U) << "not 99: that was said within a transaction";
}

TEST(ProgressTest, APositionBehindChangesNothing) {
    Progress progress(10);
    progress.passed(5);
    EXPECT_EQ(progress.confirmed(), 10U);
}

TEST(ProgressTest, OneUnsettledEventDoesNotMakeTheRestPileUp) {
    Progress progress(0);
    const auto stuck = progress.begin();
    progress.handed_out();
    progress.committed(1);
    std::size_t most = 0;
    for (Lsn end = 2; end <= 100'000; ++end) {
        const auto ticket = progress.begin();
        progress.handed_out();
        progress.committed(end);
        progress.settled(ticket);
        most = std::max(most, progress.transactions());
    }
    EXPECT_LE(most, 2 * 2 + Progress::kSlack);
    EXPECT_EQ(progress.confirmed(), 0U);
    progress.settled(stuck);
    EXPECT_EQ(progress.confirmed(), 100'000U);
}

TEST(ProgressTest, WhatIsForgottenStillCounts) {
    Progress progress(0);
    const auto settle_one = [&](Lsn end) {
        const auto ticket = progress.begin();
        progress.handed_out();
        progress.committed(end);
        progress.settled(ticket);
    };
    const auto stuck = progress.begin();
    progress.handed_out();
    progress.committed(1);
    Lsn end = 1;
    for (std::size_t before = 0; progress.transactions() >= before;) {  // until they are forgotten
        before = progress.transactions();
        settle_one(++end);
    }
    const auto later = progress.begin();
    progress.handed_out();
    progress.committed(end + 10);
    progress.settled(stuck);
    EXPECT_EQ(progress.confirmed(), end);
    progress.settled(later);
    EXPECT_EQ(progress.confirmed(), end + 10);
}

TEST(ProgressDeathTest, TheOrderOfCallsIsHeld) {
    Progress progress(0);
    EXPECT_DEATH(progress.committed(1), "open_");
    EXPECT_DEATH(progress.handed_out(), "open_");
    EXPECT_DEATH(progress.settled(1), "entry");
    const auto ticket = progress.begin();
    EXPECT_DEATH(static_cast<void>(progress.begin()), "open_");
    progress.handed_out();
    EXPECT_DEATH(progress.settled(ticket, 2), "unsettled");
}

/// Keeps every transaction for ever and looks at all of them each time.
struct NaiveProgress {
    struct Transaction {
        std::uint64_t unsettled = 0;
        bool open = true;
        Lsn end = 0;
    };

    [[nodiscard]] Lsn confirmed() const {
        Lsn reached = start;
        for (const Transaction& one : transactions) {
            if (one.open || one.unsettled > 0) break;
            reached = std::max(reached, one.end);
        }
        return reached;
    }
    [[nodiscard]] std::size_t unsettled_transactions() const {
        return static_cast<std::size_t>(
            std::ranges::count_if(transactions, [](const Transaction& one) { return one.open || one.unsettled > 0; }));
    }

    Lsn start = 0;
    std::vector<Transaction> transactions{};  // a position that was passed is one without events
};

RC_GTEST_PROP(ProgressPropertyTest, EqualsAModelThatForgetsNothing, ()) {
    Progress progress(7);
    NaiveProgress model{.start = 7};
    std::map<std::size_t, Progress::Ticket> tickets;  // by place in the model
    bool open = false;
    Lsn end = 7;
    // Settling is rarer than the rest, so that transactions pile up, and favours the young ones.
    const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000));
    for (const int step : steps) {
        const int kind = step % 10;
        const auto amount = static_cast<std::uint64_t>(step / 10);
        if (kind < 3 && !open) {
            tickets[model.transactions.size()] = progress.begin();
            model.transactions.emplace_back();
            open = true;
        } else if (kind < 5 && open) {
            progress.handed_out(amount % 4);
            model.transactions.back().unsettled += amount % 4;
        } else if (kind < 6 && open) {
            end += amount % 3;  // positions of two transactions never agree, and the model does not mind
            progress.committed(end);
            model.transactions.back().open = false;
            model.transactions.back().end = end;
            open = false;
        } else if (kind < 7) {
            progress.passed(end + amount % 3);
            if (!open) {
                end += amount % 3;
                model.transactions.push_back({.open = false, .end = end});
            }
        } else if (!tickets.empty()) {
            const auto chosen = std::next(tickets.rbegin(), static_cast<std::ptrdiff_t>(amount % tickets.size()));
            auto& transaction = model.transactions[chosen->first];
            const auto some = transaction.unsettled == 0 ? 0 : 1 + amount % transaction.unsettled;
            progress.settled(chosen->second, some);
            transaction.unsettled -= some;
            if (transaction.unsettled == 0 && !transaction.open) tickets.erase(chosen->first);
        }
        RC_ASSERT(progress.confirmed() == model.confirmed());
        RC_ASSERT(progress.in_transaction() == open);
        RC_ASSERT(progress.transactions() <= 2 * model.unsettled_transactions() + Progress::kSlack);
    }
    std::uint64_t left = 0;
    for (const auto& transaction : model.transactions) left += transaction.unsettled;
    RC_ASSERT(progress.unsettled() == left);
}

}  // namespace
}  // namespace deliverd::wal
