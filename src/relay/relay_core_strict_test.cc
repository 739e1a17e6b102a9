// Polls beside open transactions, and in strict order.
#include "relay/relay_core.h"
#include "relay/testing/polls_fixture.h"

namespace deliverd::relay {
namespace {

using store::EventOrigin;

TEST_F(RelayCorePolls, RowsThatMayComeBeforeWhatATransactionWroteAreThrownAway) {
    for (const bool written_beside : {false, true}) {
        restart({});
        const auto found = [&](std::int64_t first, std::int64_t last, std::vector<std::uint64_t> open) {
            store::EventBatch batch = forward(first, last);
            for (store::EventRow& row : batch.rows) row.age_seconds = 0.01;
            batch.writers = store::OpenWriters{std::move(open), 100};
            if (written_beside) batch.end = 10;
            return batch;
        };
        poll(found(1, 2, {7}));
        EXPECT_TRUE(ask());  // a sweep, and a slow one
        const Instant began = now_;
        now_ += std::chrono::seconds(10);
        core_->end_poll(began, now_, found(1, 2, {7}));
        poll(found(2, 1, {7}));
        EXPECT_EQ(poll(found(3, 3, {})).after, "2");
        EXPECT_EQ(core_->book().rows(), written_beside ? 3U : 2U);
        EXPECT_EQ(ask()->after, written_beside ? std::optional<store::RowId>("2") : std::nullopt);
    }
}

TEST_F(RelayCorePolls, AWriterThatWroteBeforeItFellAsleepIsWatched) {
    while (!core_->quiet()) poll(store::EventBatch{});
    for (int i = 0; i < 5; ++i) poll(store::EventBatch{});
    core_->fell_asleep(now_);
    store::EventBatch batch;
    batch.writers = store::OpenWriters{{7}, 100};
    poll(std::move(batch));
    EXPECT_EQ(core_->next_poll(now_), now_ + PollPlanner::kWhileUnnotified);
}

class StrictPolls : public RelayCorePolls {
protected:
    StrictPolls() {
        RelayOptions options;
        options.strict_order = true;
        options.batch_size = 2;
        restart(options);
    }
    static store::EventBatch with_end(store::EventBatch batch, std::int64_t end) {
        batch.writers = store::OpenWriters{{}, 100};
        batch.end = end;
        return batch;
    }
    static store::EventBatch old(store::EventBatch batch) {
        for (store::EventRow& row : batch.rows) row.age_seconds = 60;
        batch.writers = store::OpenWriters{{}, 100};
        return batch;
    }
};

TEST_F(StrictPolls, NothingIsReadBeforeItIsCertainNorBeyondThat) {
    const store::EventRead first = poll(with_end({}, 10));
    EXPECT_EQ(first.limit, 0);
    EXPECT_EQ(first.up_to, std::nullopt);
    EXPECT_GT(core_->next_poll(now_), now_);
    EXPECT_EQ(poll(old({})).limit, 0);
    EXPECT_EQ(poll(old(forward(1, 2))).up_to, "10");
    EXPECT_EQ(poll(old(forward(1, 2))).up_to, "2") << "a page of a sweep ends where the position was";
}

TEST_F(StrictPolls, WhereEverythingIsCertainNothingIsHeldBack) {
    poll(store::EventBatch{});
    EXPECT_EQ(poll(store::EventBatch{}).up_to, std::nullopt);
}

TEST_F(StrictPolls, WhatIsFollowedMustBeCertainUnlessItWasSentBefore) {
    poll(with_end({}, 10));
    poll(old({}));
    store::EventBatch batch = old(forward(1, 1));
    batch.due_cut = true;
    poll(std::move(batch));
    poll(old(batch_of({row(10, "a1", EventOrigin::follow), row(11, "a1", EventOrigin::follow)})));
    EXPECT_THAT(send(), ElementsAre(10));
    EXPECT_EQ(core_->book().rows(), 1U);
}

TEST_F(StrictPolls, WhatFailedBeforeNeedNotBeCertain) {
    store::EventBatch batch = with_end(forward(1, 1), 10);
    batch.due_cut = true;
    poll(std::move(batch));
    poll(old(batch_of({row(20, "a1", EventOrigin::follow, 1)})));
    EXPECT_THAT(send(), ElementsAre(20));
}

TEST_F(StrictPolls, TheOnePollComesWhenSomethingIsCertain) {
    core_->poll_once();
    poll(with_end({}, 10));
    EXPECT_TRUE(core_->poll_left());
    poll(old({}));
    EXPECT_TRUE(core_->poll_left());
    poll(old(forward(1, 2)));
    EXPECT_FALSE(core_->poll_left());
    EXPECT_FALSE(ask());
}

}  // namespace
}  // namespace deliverd::relay
