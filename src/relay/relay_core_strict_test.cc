// Looks beside open transactions, and in strict order.
#include "relay/relay_core.h"
#include "relay/testing/looks_fixture.h"

namespace deliverd::relay {
namespace {

using store::EventOrigin;

TEST_F(RelayCoreLooks, RowsThatMayComeBeforeWhatATransactionWroteAreThrownAway) {
    for (const bool written_beside : {false, true}) {
        restart({});
        const auto found = [&](std::int64_t first, std::int64_t last, std::vector<std::uint64_t> open) {
            store::EventBatch batch = forward(first, last);
            for (store::EventRow& row : batch.rows) row.age_seconds = 0.01;
            batch.writers = store::OpenWriters{std::move(open), 100};
            if (written_beside) batch.end = 10;
            return batch;
        };
        look(found(1, 2, {7}));
        EXPECT_TRUE(ask());  // a sweep, and a slow one
        const Instant began = now_;
        now_ += std::chrono::seconds(10);
        core_->end_look(began, now_, found(1, 2, {7}));
        look(found(2, 1, {7}));
        EXPECT_EQ(look(found(3, 3, {})).after, "2");
        EXPECT_EQ(core_->book().rows(), written_beside ? 3U : 2U);
        EXPECT_EQ(ask()->after, written_beside ? std::optional<store::RowId>("2") : std::nullopt);
    }
}

TEST_F(RelayCoreLooks, AWriterThatWroteBeforeItFellAsleepIsWatched) {
    while (!core_->quiet()) look(store::EventBatch{});
    for (int i = 0; i < 5; ++i) look(store::EventBatch{});
    core_->fell_asleep(now_);
    store::EventBatch batch;
    batch.writers = store::OpenWriters{{7}, 100};
    look(std::move(batch));
    EXPECT_EQ(core_->next_look(now_), now_ + LookPlanner::kWhileUnnotified);
}

class StrictLooks : public RelayCoreLooks {
protected:
    StrictLooks() {
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

TEST_F(StrictLooks, NothingIsReadBeforeItIsCertainNorBeyondThat) {
    const store::EventRead first = look(with_end({}, 10));
    EXPECT_EQ(first.limit, 0);
    EXPECT_EQ(first.up_to, std::nullopt);
    EXPECT_GT(core_->next_look(now_), now_);
    EXPECT_EQ(look(old({})).limit, 0);
    EXPECT_EQ(look(old(forward(1, 2))).up_to, "10");
    EXPECT_EQ(look(old(forward(1, 2))).up_to, "2") << "a page of a sweep ends where the position was";
}

TEST_F(StrictLooks, WhereEverythingIsCertainNothingIsHeldBack) {
    look(store::EventBatch{});
    EXPECT_EQ(look(store::EventBatch{}).up_to, std::nullopt);
}

TEST_F(StrictLooks, WhatIsFollowedMustBeCertainUnlessItWasSentBefore) {
    look(with_end({}, 10));
    look(old({}));
    store::EventBatch batch = old(forward(1, 1));
    batch.due_cut = true;
    look(std::move(batch));
    look(old(batch_of({row(10, "a1", EventOrigin::follow), row(11, "a1", EventOrigin::follow)})));
    EXPECT_THAT(send(), ElementsAre(10));
    EXPECT_EQ(core_->book().rows(), 1U);
}

TEST_F(StrictLooks, WhatFailedBeforeNeedNotBeCertain) {
    store::EventBatch batch = with_end(forward(1, 1), 10);
    batch.due_cut = true;
    look(std::move(batch));
    look(old(batch_of({row(20, "a1", EventOrigin::follow, 1)})));
    EXPECT_THAT(send(), ElementsAre(20));
}

TEST_F(StrictLooks, TheOneLookComesWhenSomethingIsCertain) {
    core_->look_once();
    look(with_end({}, 10));
    EXPECT_TRUE(core_->look_left());
    look(old({}));
    EXPECT_TRUE(core_->look_left());
    look(old(forward(1, 2)));
    EXPECT_FALSE(core_->look_left());
    EXPECT_FALSE(ask());
}

}  // namespace
}  // namespace deliverd::relay
