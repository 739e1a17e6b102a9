// When a relay's core hands a message to the sink, and what an outcome changes about that.
#include "relay/relay_core.h"
#include "relay/testing/core_fixture.h"

namespace deliverd::relay {
namespace {

using store::EventOrigin;

constexpr Duration kTenth = std::chrono::milliseconds(100);

class RelayCoreSends : public RelayCoreTest {
protected:
    RelayCoreSends() {
        options_.lease = std::chrono::hours(10);
        options_.parallelism = 4;
        restart();
    }
    void restart() {
        options_.worker_id = "r";
        options_.topic = *TopicTemplate::parse("{event_type_raw}");
        core_.emplace(options_, 1, observer_, log_);
        tend({{0, 1}}, 1);
    }
    /// One event of each aggregate; its topic is the aggregate's first letter.
    void read(std::int64_t first, const std::vector<std::string>& aggregates) {
        store::EventBatch batch;
        for (const std::string& aggregate : aggregates) {
            batch.rows.push_back(row(first++, aggregate, EventOrigin::forward));
            batch.rows.back().message.type = aggregate.substr(0, 1);
        }
        poll(std::move(batch));
    }
    [[nodiscard]] Instant next_send() const { return core_->next_send(now_); }
    [[nodiscard]] Instant nap() const { return now_ + pipeline::kLongestNap; }

    RelayOptions options_;
};

TEST_F(RelayCoreSends, AsManyAsTheSinkMayHaveAtOnce) {
    EXPECT_EQ(next_send(), nap()) << "there is nothing";
    read(1, {"a1", "a2", "a3", "a4", "a5", "a6"});
    EXPECT_EQ(next_send(), nap()) << "whoever brought them says so";
    EXPECT_THAT(send(), ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(next_send(), nap()) << "an outcome comes first";
    EXPECT_THAT(send(), IsEmpty());
    answer(2, delivered());
    EXPECT_THAT(send(), ElementsAre(5));
}

TEST_F(RelayCoreSends, AReceiverThatAsksForLessGetsLess) {
    options_.throttle = true;
    restart();
    read(1, {"a1", "a2", "a3", "a4", "a5", "a6"});
    EXPECT_THAT(send(), ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(next_send(), nap());
    answer(1, {.kind = OutcomeKind::retryable, .code = std::string(kRateLimited), .retry_after = 3 * kTenth});
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_EQ(next_send(), now_ + 3 * kTenth);
    now_ += 3 * kTenth;
    EXPECT_THAT(send(), ElementsAre(5));
    EXPECT_EQ(next_send(), nap()) << "an outcome comes first";
    answer(2, delivered());
    EXPECT_THAT(send(), IsEmpty()) << "two per second";
    EXPECT_GT(next_send(), now_ + 4 * kTenth);
    EXPECT_LT(next_send(), now_ + 6 * kTenth);
    now_ = next_send();
    EXPECT_THAT(send(), ElementsAre(6));
}

TEST_F(RelayCoreSends, TheSinkCannotAskForALongerPauseThanAllowed) {
    options_.retry_after_cap = 5 * kTenth;
    restart();
    read(1, {"a"});
    send();
    answer(1, not_attempted(sink::kBrokerUnreachable, std::chrono::hours(1)));
    EXPECT_EQ(next_send(), now_ + 5 * kTenth);
    EXPECT_TRUE(core_->paused(now_ + 5 * kTenth - Duration(1)));
    EXPECT_TRUE(core_->only_waiting(now_));
    EXPECT_FALSE(core_->paused(now_ + 5 * kTenth));
    core_->drain();
    EXPECT_EQ(next_send(), nap());
}

TEST_F(RelayCoreSends, WhenTheBrokerIsBackEverythingGoes) {
    read(1, {"a1", "a2"});
    for (const std::int64_t id : send()) answer(id, not_attempted(sink::kBrokerUnreachable));
    now_ += RelayCore::kPauseWhenNotAttempted;
    EXPECT_THAT(send(), ElementsAre(1, 2)) << "no topic is to blame";
}

TEST_F(RelayCoreSends, WhenATopicTakesEventsAgainAllOfItGoes) {
    read(1, {"a1", "a2"});
    for (const std::int64_t id : send()) answer(id, not_attempted("NO_LEADER"));
    EXPECT_THAT(send(), IsEmpty());
    while (!core_->quiet()) poll(store::EventBatch{});
    EXPECT_THAT(send(), ElementsAre(1));
    EXPECT_LE(core_->next_poll(now_), now_) << "what was behind it is followed";
    EXPECT_THAT(send(), IsEmpty());
    answer(1, delivered());
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(RelayCoreSends, AnEventThatIsRefusedAgainThoughItsTopicTakesOthersIsCounted) {
    read(1, {"a1", "a2"});
    send();
    answer(1, not_attempted("NO_LEADER"));
    answer(2, delivered());  // sent no earlier than 1 was first
    settle_as(store::EventSettled::applied);
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, not_attempted("NO_LEADER"));
    EXPECT_EQ(core_->totals().put_off, 1U);
    settle_as(store::EventSettled::applied);
    EXPECT_EQ(core_->totals().retried, 1U);
}

TEST_F(RelayCoreSends, ThePauseOfATopicOfWhichNothingIsInHandWakesNobody) {
    read(1, {"a"});
    send();
    answer(1, not_attempted("NO_LEADER"));
    tend({}, 0);
    now_ += RelayCore::kPauseWhenNotAttempted;
    EXPECT_EQ(next_send(), nap());
}

TEST_F(RelayCoreSends, TheEndOfATopicsPauseIsNoReasonToRead) {
    read(1, {"a"});
    send();
    answer(1, not_attempted("NO_LEADER"));
    while (!core_->quiet()) poll(store::EventBatch{});
    const Instant next = core_->next_poll(now_);
    EXPECT_THAT(send(), ElementsAre(1));
    EXPECT_EQ(core_->next_poll(now_), next);
}

TEST_F(RelayCoreSends, ATopicIsNotTriedWhileTheReceiverAskedForLess) {
    options_.throttle = true;
    restart();
    read(1, {"a", "b"});
    send();
    answer(1, not_attempted("NO_LEADER", kTenth));
    EXPECT_THAT(send(), IsEmpty());
    answer(2, {.kind = OutcomeKind::retryable, .code = std::string(kRateLimited), .retry_after = 3 * kTenth});
    EXPECT_EQ(next_send(), now_ + 3 * kTenth);
}

TEST_F(RelayCoreSends, WhatTheSinkDidNotStartBecauseItIsBeingStoppedCostsNothing) {
    read(1, {"a"});
    send();
    answer(1, {.kind = OutcomeKind::retryable, .code = std::string(sink::kStopped)});
    EXPECT_TRUE(core_->settled_all());
    EXPECT_EQ(core_->totals().put_off, 0U);
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(RelayCoreSends, WhatWaitsForItsTopicIsTriedWhenTheTopicsPauseEnds) {
    read(1, {"a", "b"});
    send();
    answer(1, not_attempted("NO_LEADER", 5 * kTenth));
    EXPECT_EQ(lines_with("nothing can be sent to this topic"), 1U);
    EXPECT_THAT(send(), IsEmpty());
    answer(2, delivered());
    EXPECT_FALSE(core_->can_send());
    EXPECT_EQ(next_send(), now_ + 5 * kTenth);
    now_ += 5 * kTenth - Duration(1);
    EXPECT_THAT(send(), IsEmpty());
    now_ += Duration(1);
    EXPECT_THAT(send(), ElementsAre(1));
    core_->drain();
    EXPECT_EQ(next_send(), nap());
}

TEST_F(RelayCoreSends, WhatWaitsForItsTopicStaysAsideWhileNothingCanBeSent) {
    read(1, {"a", "b1", "b2", "b3"});
    EXPECT_THAT(send(), ElementsAre(1, 2, 3, 4));
    answer(1, not_attempted("NO_LEADER", 20 * kTenth));
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_TRUE(core_->book().anything_aside());
    read(5, {"b4"});
    EXPECT_THAT(send(), ElementsAre(5));
    now_ += 20 * kTenth;
    EXPECT_THAT(send(), IsEmpty()) << "the sink is full";
    EXPECT_TRUE(core_->book().anything_aside());
    answer(2, not_attempted(sink::kBrokerUnreachable, kTenth));
    EXPECT_THAT(send(), IsEmpty()) << "the broker is away";
    EXPECT_TRUE(core_->book().anything_aside());
    now_ += kTenth;
    EXPECT_FALSE(send().empty());
}

TEST_F(RelayCoreSends, ThePartOfTheParallelismThatTriesIsAnEighth) {
    options_.parallelism = 56;
    restart();
    std::vector<std::string> aggregates;
    for (int i = 0; i < 20; ++i) aggregates.push_back("a" + std::to_string(i));
    read(1, aggregates);
    for (const std::int64_t id : send()) answer(id, not_attempted("NO_LEADER"));
    EXPECT_THAT(send(), IsEmpty());
    now_ += RelayCore::kPauseWhenNotAttempted - Duration(1);
    EXPECT_THAT(send(), IsEmpty());
    now_ += Duration(1);
    EXPECT_EQ(send().size(), 7U);
}

TEST_F(RelayCoreSends, AQuarterOfTheHandMayWaitForTopics) {
    options_.batch_size = 10;  // 48 in hand
    restart();
    std::vector<std::string> aggregates;
    for (int i = 0; i < 40; ++i) aggregates.push_back("a" + std::to_string(i));
    read(1, aggregates);
    for (const std::int64_t id : send()) answer(id, not_attempted("NO_LEADER"));
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_EQ(core_->book().rows(), 12U);
    now_ += RelayCore::kPauseWhenNotAttempted;
    EXPECT_EQ(send().size(), 1U) << "an eighth of the parallelism is less than one";
    EXPECT_EQ(poll(store::EventBatch{}).follow.size(), 2U) << "of that one, and of one that kept no row";
}

TEST_F(RelayCoreSends, RoomInAnAggregatesQueueIsFilledAtOnce) {
    options_.batch_size = 10;  // four of an aggregate are in hand, and a page has two
    restart();
    read(1, {"a", "a", "a", "a", "a"});
    for (std::int64_t id = 1; id <= 2; ++id) {
        EXPECT_THAT(send(), ElementsAre(id));
        answer(id, delivered());
    }
    while (!core_->quiet()) poll(store::EventBatch{});
    EXPECT_THAT(send(), ElementsAre(3));
    EXPECT_GT(core_->next_poll(now_), now_);
    answer(3, delivered());
    EXPECT_LE(core_->next_poll(now_), now_);
}

}  // namespace
}  // namespace deliverd::relay
