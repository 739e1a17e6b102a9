// How a relay's core records what became of its sends, and what it reports.
#include "relay/relay_core.h"
#include "relay/testing/core_fixture.h"

namespace deliverd::relay {
namespace {

using store::EventOrigin;
using store::EventSettled;

class RelayCoreSettles : public RelayCoreTest {
protected:
    RelayCoreSettles() {
        options_.lease = std::chrono::hours(10);
        restart();
    }
    void restart() {
        make(options_);
        tend({{0, 1}}, 1);
    }
    /// Sends these, one of each aggregate.
    void sent(std::vector<store::EventRow> rows) {
        poll(batch_of(std::move(rows)));
        (void)send();
    }
    static store::EventRow event(std::int64_t id, const std::string& aggregate) {
        return row(id, aggregate, EventOrigin::forward);
    }
    static Outcome fails() { return {.kind = OutcomeKind::retryable, .code = "DOWN"}; }
    static Outcome refused() { return {.kind = OutcomeKind::permanent, .code = "TOO_LARGE"}; }
    std::vector<std::string> followed() {
        std::vector<std::string> names;
        for (const store::EventFollow& follow : poll(store::EventBatch{}).follow) names.push_back(follow.aggregate_id);
        return names;
    }

    RelayOptions options_;
};

TEST_F(RelayCoreSettles, OneSettleHasFourBatchesAtMost) {
    options_.batch_size = 2;
    restart();
    std::vector<store::EventRow> rows;
    for (std::int64_t id = 1; id <= 20; ++id) rows.push_back(event(id, "a" + std::to_string(id)));
    sent(std::move(rows));
    for (std::int64_t id = 1; id <= 20; ++id) answer(id, delivered());
    EXPECT_EQ(core_->begin_settle(now_).size(), 8U);
}

TEST_F(RelayCoreSettles, ARowThatSomeoneHasLockedIsTriedAgainAndGivenUpInTheEnd) {
    sent({event(1, "a"), event(2, "a")});
    answer(1, delivered());
    settle_as(EventSettled::locked);
    EXPECT_EQ(core_->totals().sent, 0U);
    EXPECT_EQ(core_->unfinished(), 2U);
    now_ += options_.settle_patience;
    settle_as(EventSettled::locked);
    EXPECT_EQ(core_->totals().abandoned, 1U);
    EXPECT_EQ(core_->totals().conflicts, 0U);
    EXPECT_TRUE(core_->settled_all());
    EXPECT_EQ(core_->book().rows(), 1U) << "it is read again, and 2 is still in hand";
}

TEST_F(RelayCoreSettles, AFailedSettleIsReportedAndRepeated) {
    sent({event(1, "a")});
    answer(1, delivered());
    now_ += options_.settle_linger;
    EXPECT_EQ(core_->next_settle(now_), now_);
    EXPECT_EQ(core_->begin_settle(now_).size(), 1U);
    core_->end_settle(now_, retryable("db_unreachable", "gone"));
    EXPECT_EQ(lines_with("operation=settle"), 1U);
    EXPECT_TRUE(core_->begin_settle(now_).empty()) << "a moment later";
    EXPECT_GT(core_->next_settle(now_), now_);
    EXPECT_LT(core_->next_settle(now_), now_ + pipeline::kLongestNap);
    settle_as(EventSettled::applied);
    EXPECT_EQ(core_->totals().sent, 1U);
    EXPECT_EQ(core_->next_settle(now_), now_ + pipeline::kLongestNap);
}

TEST_F(RelayCoreSettles, ARetryIsPolledForWhenItIsDue) {
    options_.retry.base_seconds = 0.5;
    restart();
    sent({event(1, "a")});
    answer(1, fails());
    while (!core_->quiet()) poll(store::EventBatch{});
    for (int i = 0; i < 10; ++i) poll(store::EventBatch{});
    const Instant next = core_->next_poll(now_);
    settle_as(EventSettled::applied, Duration::zero());
    EXPECT_LT(core_->next_poll(now_), next);
    EXPECT_EQ(core_->totals().retried, 1U);
    EXPECT_EQ(core_->next_poll(now_), now_ + std::chrono::milliseconds(500) + RelayCore::kDueSlack);
    EXPECT_THAT(followed(), IsEmpty()) << "the database keeps it back";
}

TEST_F(RelayCoreSettles, ADeliveryBringsNoPollForward) {
    sent({event(1, "a")});
    answer(1, delivered());
    while (!core_->quiet()) poll(store::EventBatch{});
    const Instant next = core_->next_poll(now_);
    settle_as(EventSettled::applied, Duration::zero());
    EXPECT_EQ(core_->next_poll(now_), next);
}

TEST_F(RelayCoreSettles, AfterATryInDoubtAConflictIsASuccessAndALostShardIsNot) {
    for (const EventSettled then : {EventSettled::conflict, EventSettled::fenced}) {
        restart();
        sent({event(1, "a")});
        answer(1, delivered());
        now_ += options_.settle_linger;
        EXPECT_EQ(core_->begin_settle(now_).size(), 1U);
        core_->end_settle(now_, ambiguous("db_error", "the answer was lost"));
        settle_as(then);
        EXPECT_EQ(core_->totals().sent, then == EventSettled::conflict ? 1U : 0U);
        EXPECT_EQ(core_->totals().conflicts, then == EventSettled::conflict ? 0U : 1U);
    }
}

TEST_F(RelayCoreSettles, AnAnswerForARowOfAShardThatWasLostMeanwhileChangesNothing) {
    for (const bool recorded : {false, true}) {
        restart();
        sent({event(1, "a")});
        answer(1, delivered());
        now_ += options_.settle_linger;
        EXPECT_EQ(core_->begin_settle(now_).size(), 1U);
        tend({}, 0);
        if (recorded) {
            core_->end_settle(now_, std::vector{EventSettled::applied});
        } else {
            core_->end_settle(now_, retryable("db_unreachable", "gone"));
            now_ += options_.settle_patience;
            EXPECT_EQ(core_->begin_settle(now_).size(), 1U);
            core_->end_settle(now_, retryable("db_unreachable", "gone"));
            EXPECT_EQ(core_->totals().abandoned, 1U);
        }
        EXPECT_TRUE(core_->settled_all());
        EXPECT_EQ(core_->unfinished(), 0U);
    }
}

TEST_F(RelayCoreSettles, BehindARetryThatCouldNotBeRecordedEverythingIsReadAgain) {
    sent({row(1, "a", EventOrigin::due, 1)});
    answer(1, delivered());
    settle_as(EventSettled::locked);
    now_ += options_.settle_patience;
    settle_as(EventSettled::locked);
    const std::vector<store::EventFollow> follow = poll(store::EventBatch{}).follow;
    ASSERT_EQ(follow.size(), 1U);
    EXPECT_EQ(follow.front().after, std::nullopt);
}

TEST_F(RelayCoreSettles, BehindADeadEventTheRestIsReadUnlessThatBlocks) {
    for (const bool blocks : {false, true}) {
        options_.block_behind_dead = blocks;
        restart();
        sent({event(1, "a"), event(2, "a")});
        answer(1, refused());
        settle_as(EventSettled::applied);
        EXPECT_EQ(core_->totals().dead, 1U);
        EXPECT_EQ(lines_with("gave up on a message"), blocks ? 2U : 1U);
        EXPECT_EQ(followed().size(), blocks ? 0U : 1U);
    }
}

TEST_F(RelayCoreSettles, IfNobodyKnowsWhatWasRecordedTheAggregateIsReadAgain) {
    sent({event(1, "a")});
    answer(1, fails());
    settle_as(EventSettled::conflict);
    EXPECT_EQ(core_->totals().conflicts, 1U);
    EXPECT_EQ(core_->totals().retried, 0U);
    EXPECT_EQ(core_->next_tend(), Instant(std::chrono::hours(1)) + options_.lease / 3) << "the shard is still held";
    EXPECT_THAT(followed(), ElementsAre("a"));
}

TEST_F(RelayCoreSettles, WithTheShardItsOtherOutcomesAreConflicts) {
    tend({{0, 1}, {1, 1}}, 2);
    std::vector<store::EventRow> rows = {event(1, "a"), event(2, "b"), event(3, "c"), event(4, "d")};
    rows[1].shard = 1;
    sent(std::move(rows));
    answer(1, delivered());
    now_ += options_.settle_linger;
    EXPECT_EQ(core_->begin_settle(now_).size(), 1U);
    for (const std::int64_t id : {2, 3, 4}) answer(id, delivered());
    core_->end_settle(now_, std::vector{EventSettled::fenced});
    EXPECT_EQ(core_->totals().conflicts, 3U) << "1, 3 and 4";
    EXPECT_EQ(core_->unfinished(), 1U);
    settle_as(EventSettled::applied);
    EXPECT_EQ(core_->totals().sent, 1U);
    sent({event(5, "d")});
    EXPECT_EQ(core_->at_sink(), 0U) << "that shard is lost";
}

TEST_F(RelayCoreSettles, AnOutcomeAfterTheShardWasLostIsAConflict) {
    sent({event(1, "a")});
    tend({}, 0);
    answer(1, delivered());
    EXPECT_EQ(core_->totals().conflicts, 1U);
    EXPECT_TRUE(core_->settled_all());
}

TEST_F(RelayCoreSettles, ASettleMakesRoomForTheRestOfAnAggregate) {
    sent({row(1, "a", EventOrigin::due, 1)});
    answer(1, delivered());
    while (!core_->quiet()) poll(store::EventBatch{});
    EXPECT_GT(core_->next_poll(now_), now_);
    settle_as(EventSettled::applied, Duration::zero());
    EXPECT_LE(core_->next_poll(now_), now_);
    const std::vector<store::EventFollow> follow = poll(store::EventBatch{}).follow;
    ASSERT_EQ(follow.size(), 1U);
    EXPECT_EQ(follow.front().after, "1");
}

TEST_F(RelayCoreSettles, AtTheEndWhatIsLeftIsCounted) {
    sent({event(1, "a"), event(2, "a"), event(3, "b"), event(4, "c"), event(5, "c")});
    answer(1, delivered());
    EXPECT_TRUE(core_->begin_settle(now_).empty()) << "others are likely to follow";
    core_->drain();
    EXPECT_TRUE(core_->settle_due(now_)) << "nothing else will come";
    EXPECT_EQ(core_->next_settle(now_), now_);
    EXPECT_FALSE(core_->can_send());
    EXPECT_THAT(send(), IsEmpty());
    core_->abandon();
    EXPECT_EQ(core_->totals().abandoned, 3U) << "1 was not recorded, 3 and 4 are at the sink";
    EXPECT_EQ(core_->totals().released, 2U);
}

TEST_F(RelayCoreSettles, WhatTheSinkDroppedBecauseItIsBeingStoppedIsNotRecorded) {
    sent({event(1, "a"), event(2, "b"), event(3, "c")});
    core_->cut_off();
    answer(1, {.kind = OutcomeKind::ambiguous, .code = std::string(sink::kStopped)});
    EXPECT_EQ(core_->totals().abandoned, 1U);
    EXPECT_TRUE(core_->settled_all());
    answer(2, delivered());
    answer(3, fails());
    EXPECT_FALSE(core_->settled_all());
    settle_as(EventSettled::applied);
    EXPECT_EQ(core_->totals().sent, 1U);
    EXPECT_EQ(core_->totals().retried, 1U);
    restart();
    sent({event(1, "a")});
    answer(1, {.kind = OutcomeKind::ambiguous, .code = "TIMEOUT"});
    settle_as(EventSettled::applied);
    EXPECT_EQ(core_->totals().retried, 1U) << "not our own doing";
}

/// Remembers the last report of each kind.
class RecordingObserver final : public pipeline::Observer {
public:
    void on_in_flight(std::size_t messages) override { in_flight = messages; }
    void on_queue_depth(std::string_view queue, std::size_t items) override { depth[std::string(queue)] = items; }
    void on_lag(double seconds) override { lag += seconds; }
    void on_outcome(OutcomeKind, std::string_view code, Duration took) override {
        ended = std::string(code);
        send_took = took;
    }
    void on_failure(const Message& message, const Outcome&) override { failed = message.id; }

    std::size_t in_flight = 99;
    std::map<std::string, std::size_t> depth;
    double lag = 0;
    std::string ended;
    Duration send_took{};
    std::int64_t failed = 0;
};

TEST_F(RelayCoreSettles, EachStepReportsWhereTheRowsAre) {
    RecordingObserver observer;
    options_.topic = *TopicTemplate::parse("t");
    core_.emplace(options_, 1, observer, log_);
    const auto where = [&] {
        return std::vector{observer.depth["in_hand"], observer.in_flight, observer.depth["settling"]};
    };
    tend({{0, 1}}, 1);
    EXPECT_THAT(where(), ElementsAre(0, 0, 0));
    store::EventRow old = event(1, "a");
    old.age_seconds = 7;
    poll(batch_of({old, event(2, "b"), event(3, "c")}));
    EXPECT_THAT(where(), ElementsAre(3, 0, 0));
    EXPECT_EQ(observer.lag, 7);
    EXPECT_EQ(core_->totals().claimed, 3U);
    send();
    EXPECT_THAT(where(), ElementsAre(3, 3, 0));
    now_ += std::chrono::milliseconds(5);
    answer(1, delivered());
    EXPECT_THAT(where(), ElementsAre(3, 2, 1));
    EXPECT_EQ(observer.failed, 0);
    answer(2, fails());
    EXPECT_EQ(observer.failed, 2);
    EXPECT_EQ(observer.ended, "DOWN");
    EXPECT_EQ(observer.send_took, std::chrono::milliseconds(5));
    settle_as(EventSettled::applied);
    EXPECT_THAT(where(), ElementsAre(1, 1, 0));
    tend({}, 0);
    EXPECT_THAT(where(), ElementsAre(1, 1, 0)) << "the sink still has it";
    answer(3, delivered());
    EXPECT_THAT(where(), ElementsAre(0, 0, 0));
    tend({{0, 2}}, 1);
    sent({event(4, "a"), event(5, "a")});
    core_->abandon();
    EXPECT_THAT(where(), ElementsAre(1, 1, 0));
}

}  // namespace
}  // namespace deliverd::relay
