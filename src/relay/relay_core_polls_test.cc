// What a relay's core asks its table for, and what it takes of the answers.
#include "relay/relay_core.h"
#include "relay/testing/polls_fixture.h"

namespace deliverd::relay {
namespace {

using store::EventOrigin;

TEST_F(RelayCorePolls, LogsThatShardsChangeHandsAndNothingElse) {
    const std::size_t before = lines_with("changed hands");
    const auto lines = [&] { return lines_with("changed hands") - before; };
    tend(both_, 2);
    EXPECT_EQ(lines(), 0U);
    tend(both_, 1);
    EXPECT_EQ(lines(), 1U) << "one leaves";
    const std::int64_t later = both_[1].token + 1;
    tend({both_[0], {1, later}}, 2);
    EXPECT_EQ(lines(), 2U) << "one was lost and regained";
    tend({both_[0]}, 2);
    tend({both_[0], {1, later}}, 2);
    EXPECT_EQ(lines(), 4U);
}

TEST_F(RelayCorePolls, ALeavingShardIsGivenBackOnceNothingOfItIsUnderWay) {
    for (const char* aggregate : {"a", "b", "c", "d", "a", "b", "c", "d"}) table_.add(aggregate);
    RelayCoreTest::poll();
    EXPECT_THAT(send(), ElementsAre(1, 2, 3, 4));
    tend(both_, 0);
    EXPECT_THAT(core_->begin_release(), IsEmpty());
    for (const std::int64_t id : {1, 2}) answer(id, delivered());
    EXPECT_THAT(send(), IsEmpty()) << "the rest is the next owner's";
    answer(3, not_attempted(sink::kBrokerUnreachable));
    answer(4, {.kind = OutcomeKind::retryable, .code = std::string(sink::kStopped)});
    now_ += RelayCore::kPauseWhenNotAttempted;
    EXPECT_THAT(send(), IsEmpty()) << "the rest is the next owner's";
    settle();
    EXPECT_EQ(core_->unfinished(), 0U);
    const std::vector<store::ShardLease> leases = core_->begin_release();
    EXPECT_EQ(leases, both_);
    core_->end_release(now_, leases, table_.release("r", leases));
    EXPECT_EQ(lines_with("release"), 0U);
    EXPECT_EQ(core_->shards().held(), 0U);
    tend(both_, 0);
    core_->end_release(now_, core_->begin_release(), retryable("db_unreachable", "no"));
    EXPECT_EQ(lines_with("release"), 1U);
}

TEST_F(RelayCorePolls, NothingOfAShardThatWasGivenBackIsFollowed) {
    poll(batch_of({row(1, "a", EventOrigin::due, 1)}));
    EXPECT_THAT(send(), ElementsAre(1));
    tend({both_[0]}, 0);
    answer(1, delivered());
    settle_as(store::EventSettled::applied);
    core_->end_release(now_, core_->begin_release(), {});
    tend({both_[1]}, 1);
    EXPECT_EQ(poll(store::EventBatch{}).follow.size(), 0U);
    tend({}, 0);
    EXPECT_FALSE(ask()) << "there is no shard";
}

TEST_F(RelayCorePolls, OnlyRowsOfShardsThatWereAskedForAreTaken) {
    tend({both_[1]}, 1);
    EXPECT_TRUE(ask());
    tend(both_, 2);
    store::EventBatch batch = batch_of({row(1, "a", EventOrigin::due, 1), row(2, "b", EventOrigin::due, 1)});
    batch.rows[1].shard = 1;
    end(std::move(batch));
    EXPECT_THAT(send(), ElementsAre(2));
    RelayOptions options;
    options.batch_size = 1;
    restart(options);
    batch = batch_of({row(1, "a", EventOrigin::due, 1), row(2, "b", EventOrigin::due, 1)});
    batch.rows[0].shard = 5;
    poll(std::move(batch));
    EXPECT_THAT(send(), ElementsAre(2)) << "the other does not count as taken";
}

TEST_F(RelayCorePolls, OnlyRowsOfShardsThatWereKeptDuringThePollAreTaken) {
    const auto taken = [&](const std::function<void()>& meanwhile) {
        restart({});
        EXPECT_TRUE(ask());
        meanwhile();
        store::EventBatch batch = batch_of({row(1, "a", EventOrigin::due, 1), row(2, "b", EventOrigin::due, 1)});
        batch.rows[1].shard = 1;
        end(std::move(batch));
        return send();
    };
    EXPECT_THAT(taken([] {}), ElementsAre(1, 2));
    EXPECT_THAT(taken([&] { start_over(); }), ElementsAre(1)) << "the other was given up for a moment";
    EXPECT_THAT(taken([&] { tend({both_[0], {1, both_[1].token + 1}}, 2); }), ElementsAre(1)) << "and lost here";
    EXPECT_THAT(taken([&] { tend({{0, both_[0].token + 1}, both_[1]}, 2); }), ElementsAre(2));
}

TEST_F(RelayCorePolls, OnlyAGainedShardMakesTheReadingStartOver) {
    RelayOptions options;
    options.batch_size = 2;
    restart(options);
    const auto old = [&](std::int64_t first) {
        store::EventBatch batch = forward(first, first + 1);
        for (store::EventRow& row : batch.rows) row.age_seconds = 60;
        return batch;
    };
    poll(old(1));
    EXPECT_EQ(poll(old(1)).up_to, "2") << "a page of a sweep";
    tend(both_, 2);
    EXPECT_EQ(poll(old(3)).after, "2");
    start_over();
    EXPECT_EQ(poll(old(1)).after, std::nullopt);
}

TEST_F(RelayCorePolls, TheYoungestRowOfAPollSaysWhetherItIsABacklog) {
    const auto continues = [&](double first, double second) {
        RelayOptions options;
        options.batch_size = 2;
        restart(options);
        store::EventBatch batch = forward(1, 2);
        batch.rows[0].age_seconds = first;
        batch.rows[1].age_seconds = second;
        poll(std::move(batch));
        poll({});  // a page of a sweep, where it is one
        return poll({}).after == "2";
    };
    EXPECT_TRUE(continues(60, 60));
    EXPECT_FALSE(continues(60, 0.01));
    EXPECT_FALSE(continues(0.01, 60));
    EXPECT_FALSE(continues(0.01, 0.01));
}

TEST_F(RelayCorePolls, WhatOnePollMayAskForFollowsFromTheOptions) {
    const auto request_of = [&](std::int32_t batch_size, std::int32_t parallelism) {
        RelayOptions options;
        options.batch_size = batch_size;
        options.parallelism = parallelism;
        restart(options);
        return poll(store::EventBatch{});
    };
    EXPECT_EQ(request_of(10, 3).follow_limit, 2);
    EXPECT_EQ(core_->most_rows(), 46U + 10 + 64 * 2 + 3) << "46 in hand";
    EXPECT_EQ(request_of(5000, 1000).follow_limit, 32);
    const store::EventRead usual = request_of(500, 1000);
    EXPECT_EQ(usual.follow_limit, 31);
    EXPECT_EQ(usual.limit, 500);
    EXPECT_EQ(usual.due_limit, 500);
    EXPECT_TRUE(usual.end_above) << "it may be a backlog";
    EXPECT_THAT(usual.shards, ElementsAre(0, 1));
    EXPECT_EQ(core_->most_rows(), 4000U + 500 + 64 * 31 + 1000);
}

TEST_F(RelayCorePolls, OneAggregateMayHaveAPartOfTheHand) {
    const auto taken_of_one = [&](const RelayOptions& options) {
        restart(options);
        store::EventBatch batch;
        for (std::int64_t id = 1; id <= 300; ++id) batch.rows.push_back(row(id, "a", EventOrigin::forward));
        poll(std::move(batch));
        return core_->book().rows();
    };
    EXPECT_EQ(taken_of_one({}), 250U);
    EXPECT_EQ(taken_of_one(small()), 4U) << "two pages at least";
}

TEST_F(RelayCorePolls, NoMoreRowsAreTakenThanTheHandHolds) {
    restart(small());
    poll(forward(1, 40));
    start_over();
    const std::optional<store::EventRead> request = ask();
    EXPECT_EQ(request->limit, 6) << "of 46";
    end(forward(41, 100));
    EXPECT_EQ(core_->book().rows(), 46U);
    EXPECT_FALSE(core_->can_poll(now_ + kLong / 100));
    restart(small());
    poll(forward(1, 45));
    start_over();
    EXPECT_TRUE(ask());
    end(batch_of({row(101, "b", EventOrigin::due, 1), row(102, "c", EventOrigin::due, 1)}));
    EXPECT_EQ(core_->book().rows(), 47U) << "one aggregate or the other always fits";
    EXPECT_FALSE(core_->can_poll(now_ + kLong / 100));
    EXPECT_EQ(core_->next_poll(now_), now_ + pipeline::kLongestNap);
}

TEST_F(RelayCorePolls, RowsThatComeAgainDoNotTakeTheRoomOfOthers) {
    RelayOptions options = small();
    options.held_bytes = 1000;
    restart(options);
    poll(forward(1, 4, std::string(100, 'x')));
    const std::optional<store::EventRead> again = ask();
    EXPECT_EQ(again->after, std::nullopt);
    EXPECT_EQ(again->limit, 6 + 4) << "six of the usual size fit";
    EXPECT_EQ(again->byte_limit, 1000);
    EXPECT_EQ(again->due_limit, 6);
    end({});
    start_over();
    EXPECT_EQ(ask()->byte_limit, 600);
    end(batch_of({row(9, "due", EventOrigin::due, 1)}));
    start_over();
    const std::optional<store::EventRead> with_retry = ask();
    EXPECT_EQ(with_retry->byte_limit, 1000) << "one that failed may come again too";
    EXPECT_EQ(with_retry->due_limit, 6 + 1);
    end({});
}

TEST_F(RelayCorePolls, APollTakesRowsUntilThereAreEnoughBytesAndAtLeastOne) {
    RelayOptions options = small();
    options.held_bytes = 1000;
    restart(options);
    poll(forward(1, 4, std::string(500, 'x')));
    EXPECT_EQ(core_->book().rows(), 2U);
    EXPECT_FALSE(ask()) << "no further one fits";
    for (const std::int64_t id : send()) answer(id, delivered());
    settle_as(store::EventSettled::applied);
    EXPECT_EQ(ask_forward().after, "2");
    restart(options);
    store::EventBatch with_retry = forward(1, 1);
    with_retry.rows.insert(with_retry.rows.begin(), row(9, "b", EventOrigin::due, 1));
    with_retry.rows.front().message.body = std::string(2000, 'x');
    poll(std::move(with_retry));
    EXPECT_EQ(core_->book().rows(), 2U);
    restart(options);
    poll(forward(1, 4, std::string(5000, 'x')));
    EXPECT_EQ(core_->book().rows(), 1U);
    EXPECT_FALSE(ask());
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, delivered());
    settle_as(store::EventSettled::applied);
    EXPECT_TRUE(ask()) << "though it is larger than all that may be held";
    end(forward(2, 4, std::string(5000, 'x')));
    EXPECT_THAT(send(), ElementsAre(2));
}

TEST_F(RelayCorePolls, WithTooManyGapsNothingNewIsReadAndThePositionStays) {
    store::EventBatch batch = forward(1, 49'999);
    batch.due_cut = true;  // so none of them can be trusted
    poll(std::move(batch));
    EXPECT_GT(ask_forward().limit, 0);
    batch = forward(50'000, 50'000);
    batch.due_cut = batch.follow_cut = batch.forward_cut = true;
    end(std::move(batch));
    for (int i = 0; i < 2; ++i) {
        const store::EventRead request = ask_forward();
        EXPECT_EQ(request.limit, 0);
        EXPECT_EQ(request.after, "50000");
        batch = {};
        batch.follow_cut = true;
        end(std::move(batch));
        EXPECT_GT(core_->next_poll(now_), now_) << "it brought nothing";
    }
}

TEST_F(RelayCorePolls, APollThatWasCutShortIsContinued) {
    RelayOptions options;
    options.batch_size = 2;
    restart(options);
    poll(forward(1, 1));
    EXPECT_GT(core_->next_poll(now_), now_);
    restart(options);
    store::EventBatch batch = forward(1, 1);
    batch.forward_cut = true;
    poll(std::move(batch));
    EXPECT_EQ(core_->next_poll(now_), now_);
    EXPECT_EQ(ask_forward().after, "1");
    options.batch_size = 1;
    restart(options);
    poll(forward(1, 1));
    EXPECT_EQ(ask_forward().after, "1");
}

TEST_F(RelayCorePolls, APollFollowsAsManyAggregatesAsFit) {
    const auto followed_with = [&](std::size_t body) {
        RelayOptions options;
        options.held_bytes = 10'000;
        options.batch_size = 32;  // a page is 2 rows
        restart(options);
        poll(forward(1, 1, std::string(body, 'x')));
        store::EventBatch batch = forward(2, 101);
        batch.due_cut = true;
        poll(std::move(batch));
        return poll(store::EventBatch{}).follow.size();
    };
    EXPECT_EQ(followed_with(1), RelayCore::kMostFollowed);
    EXPECT_EQ(followed_with(1000), 4U) << "nine rows";
    EXPECT_EQ(followed_with(4000), 1U) << "one row: one page at least";
}

TEST_F(RelayCorePolls, IfThePollLeftSomethingToFollowTheNextComesAtOnce) {
    store::EventBatch batch = forward(1, 100);
    batch.due_cut = true;
    poll(std::move(batch));
    poll(batch_of({row(1, "a1", EventOrigin::follow)}));
    EXPECT_EQ(core_->next_poll(now_), now_);
}

TEST_F(RelayCorePolls, APageThatWasCutOrFailedIsAskedForAgain) {
    store::EventBatch batch = forward(1, 1);
    batch.due_cut = true;
    poll(std::move(batch));
    EXPECT_EQ(ask()->follow.size(), 1U);
    core_->end_poll(now_, now_, retryable("db_timeout", "too slow"));
    EXPECT_GT(core_->next_poll(now_), now_);
    EXPECT_EQ(ask()->follow.size(), 1U);
    batch = {};
    batch.follow_cut = true;
    end(std::move(batch));
    EXPECT_EQ(poll(store::EventBatch{}).follow.size(), 1U);
    EXPECT_EQ(poll(store::EventBatch{}).follow.size(), 0U) << "the page was empty";
}

TEST_F(RelayCorePolls, IfMoreRowsMayBeDueThanCameOthersAreNotTrusted) {
    RelayOptions options;
    options.batch_size = 2;
    restart(options);
    poll(batch_of({row(1, "a", EventOrigin::due, 1), row(9, "unknown", EventOrigin::forward)}));
    EXPECT_EQ(core_->book().rows(), 2U) << "one is fewer than were asked for";
    restart(options);
    poll(batch_of(
        {row(1, "a", EventOrigin::due, 1), row(2, "b", EventOrigin::due, 1), row(9, "unknown", EventOrigin::forward)}));
    EXPECT_EQ(core_->book().rows(), 2U);
    EXPECT_EQ(core_->next_poll(now_), now_);
    poll(batch_of({row(1, "a", EventOrigin::due, 1), row(2, "b", EventOrigin::due, 1), row(3, "c", EventOrigin::due, 1),
                   row(4, "d", EventOrigin::due, 1)}));
    EXPECT_EQ(core_->book().rows(), 4U) << "those that came again do not count";
    restart(options);
    poll(batch_of({row(1, "a", EventOrigin::due, 1)}));
    EXPECT_GT(core_->next_poll(now_), now_);
    restart(options);
    poll(batch_of({row(1, "a", EventOrigin::due, 1), row(2, "b", EventOrigin::due, 1)}));
    EXPECT_EQ(core_->next_poll(now_), now_) << "there may be more";
    // Two are in hand, so four were asked for; but only two at a time are taken.
    poll(batch_of({row(3, "c", EventOrigin::due, 1), row(4, "d", EventOrigin::due, 1), row(5, "e", EventOrigin::due, 1),
                   row(10, "unknown too", EventOrigin::forward)}));
    EXPECT_EQ(core_->book().rows(), 4U);
}

TEST_F(RelayCorePolls, NothingIsAskedTwiceAtATimeNorAfterTheEnd) {
    EXPECT_TRUE(ask());
    EXPECT_FALSE(core_->begin_poll(now_));
    EXPECT_EQ(core_->next_poll(now_), now_ + pipeline::kLongestNap);
    end({});
    EXPECT_LT(core_->next_poll(now_), now_ + pipeline::kLongestNap);
    EXPECT_FALSE(core_->begin_poll(core_->next_poll(now_) - Duration(1)));
    EXPECT_TRUE(core_->begin_poll(core_->next_poll(now_)));
    end({});
    core_->poll_once();
    EXPECT_TRUE(ask());
    end({});
    EXPECT_FALSE(ask());
    EXPECT_EQ(core_->next_poll(now_), now_ + pipeline::kLongestNap);
    restart({});
    core_->drain();
    EXPECT_FALSE(ask());
    EXPECT_EQ(core_->next_poll(now_), now_ + pipeline::kLongestNap);
    restart({});
    now_ += kLong;
    EXPECT_FALSE(ask()) << "the lease";
    EXPECT_EQ(core_->next_poll(now_), now_ + pipeline::kLongestNap);
}

TEST_F(RelayCorePolls, ARowThatWasFoundMeansThatTheTableIsNotQuiet) {
    while (!core_->quiet()) poll(store::EventBatch{});
    poll(forward(1, 1));
    EXPECT_FALSE(core_->quiet());
}

TEST_F(RelayCorePolls, IfSettlesAreRefusedOneRowIsReadNowAndThen) {
    poll(forward(1, 5));
    send();
    answer(1, delivered());
    const auto refuse = [&] {
        now_ += std::chrono::seconds(10);
        EXPECT_FALSE(core_->begin_settle(now_).empty());
        core_->end_settle(now_, permanent("db_refused", "no"));
    };
    for (int i = 0; i < 7; ++i) refuse();
    start_over();
    EXPECT_EQ(ask()->limit, 500);
    end({});
    refuse();
    start_over();
    EXPECT_EQ(ask()->limit, 1);
    end({});
    start_over();  // it would poll at once
    EXPECT_FALSE(core_->begin_poll(now_ + pipeline::kReadIntervalWhileRefused - Duration(1)));
    EXPECT_EQ(core_->next_poll(now_ + pipeline::kReadIntervalWhileRefused - Duration(1)),
              now_ + pipeline::kReadIntervalWhileRefused);
    EXPECT_TRUE(core_->begin_poll(now_ + pipeline::kReadIntervalWhileRefused));
}

}  // namespace
}  // namespace deliverd::relay
