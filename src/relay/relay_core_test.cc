#include "relay/relay_core.h"

#include "relay/testing/core_fixture.h"

namespace deliverd::relay {
namespace {

TEST_F(RelayCoreTest, ASettleWaitsForMoreWhileTheTableIsBusy) {
    const RelayOptions options;
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    table_.add("a");
    poll();
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, delivered());
    EXPECT_FALSE(core_->settle_due(now_)) << "others are likely to follow";
    EXPECT_TRUE(core_->settle_due(now_ + options.settle_linger));
}

TEST_F(RelayCoreTest, ASettleDoesNotWaitIfTheTableIsQuiet) {
    const RelayOptions options;
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    table_.add("a");
    poll();
    EXPECT_THAT(send(), ElementsAre(1));
    for (int i = 0; i < 10; ++i) {  // nothing new
        now_ += options.idle_poll;
        core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
        poll();
    }
    answer(1, delivered());
    EXPECT_TRUE(core_->quiet());
    EXPECT_TRUE(core_->settle_due(now_));
}

TEST_F(RelayCoreTest, NothingIsReadOrSentWithoutAFreshLease) {
    table_.add("a");
    EXPECT_FALSE(core_->begin_poll(now_).has_value());
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(6)));
    poll();
    now_ += std::chrono::seconds(4);
    EXPECT_THAT(send(), IsEmpty()) << "two thirds of the lease have passed";
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(6)));
    EXPECT_THAT(send(), ElementsAre(1));
    EXPECT_EQ(batch_.front()->topic, "t.happened");
}

TEST_F(RelayCoreTest, WithAnotherNumberOfShardsElsewhereItKeepsAskingAndLogsOncePerMinute) {
    table_.add("a");
    const auto refused = [](const char* why) -> Result<store::ShardShare> {
        return retryable(codes::kOtherShards, why);
    };
    const Instant start = now_;
    for (; now_ < start + std::chrono::seconds(90); now_ = core_->next_tend()) {
        core_->tended(now_, now_, refused("two others"));
        EXPECT_FALSE(core_->begin_poll(now_).has_value());
        EXPECT_GT(core_->next_tend(), now_);
        EXPECT_LE(core_->next_tend(), now_ + std::chrono::seconds(1));
    }
    EXPECT_EQ(lines_with("two others"), 2U);
    core_->tended(now_, now_, refused("one other"));
    EXPECT_EQ(lines_with("one other"), 1U) << "something changed";
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    poll();
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(RelayCoreTest, RowsOfAShardThatWasGivenUpDuringThePollAreNotTaken) {
    const auto both = *table_.tend("r", std::chrono::hours(1));
    core_->tended(now_, now_, both);
    const std::optional<store::EventRead> request = core_->begin_poll(now_);
    for (const char* aggregate : {"a", "b", "c", "d"}) table_.add(aggregate);
    const auto batch = table_.read(*request);
    tend(both.held, 0);  // both are too many …
    tend(both.held, 2);  // … and wanted again, before the poll has ended
    core_->end_poll(now_, now_, batch);
    EXPECT_THAT(send(), IsEmpty());
    poll();
    EXPECT_THAT(send(), ElementsAre(1, 2, 3, 4)) << "read again from the beginning";
}

TEST_F(RelayCoreTest, AFencedSettleEndsTheShard) {
    for (const char* aggregate : {"a", "a"}) table_.add(aggregate);
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    poll();
    send();
    (void)table_.leave("r");
    (void)table_.tend("other", std::chrono::hours(1));
    answer(1, delivered());
    settle();
    EXPECT_EQ(core_->totals().conflicts, 1U);
    EXPECT_THAT(send(), IsEmpty()) << "the rest of that shard is another's";
    EXPECT_EQ(core_->next_tend(), now_);
    EXPECT_EQ(table_.rows().at(1).published, false);
}

TEST_F(RelayCoreTest, AConflictAfterATryInDoubtMeansThatTheTryTookEffect) {
    table_.add("a");
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    poll();
    send();
    answer(1, delivered());
    now_ += RelayOptions{}.settle_linger;
    const auto settlements = core_->begin_settle(now_);
    ASSERT_TRUE(table_.settle("r", settlements).has_value());
    core_->end_settle(now_, ambiguous("db_error", "the answer was lost"));
    settle();
    EXPECT_EQ(core_->totals().sent, 1U);
    EXPECT_EQ(core_->totals().conflicts, 0U);
    EXPECT_EQ(core_->unfinished(), 0U);
}

TEST_F(RelayCoreTest, WithoutABrokerNothingIsCountedAndEverythingPauses) {
    for (const char* aggregate : {"a", "b"}) table_.add(aggregate);
    RelayOptions narrow;
    narrow.parallelism = 1;
    narrow.lease = std::chrono::hours(1);
    make(narrow);
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    poll();
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, {.kind = OutcomeKind::retryable,
               .code = std::string(sink::kBrokerUnreachable),
               .retry_after = std::chrono::seconds(7),
               .not_attempted = true});
    EXPECT_THAT(send(), IsEmpty());
    EXPECT_TRUE(core_->paused(now_ + std::chrono::milliseconds(6999)));
    now_ += std::chrono::seconds(7);
    EXPECT_THAT(send(), ElementsAre(2)) << "behind the others";
    answer(2, delivered());
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, delivered());
    EXPECT_EQ(core_->totals().put_off, 1U);
    settle();
    EXPECT_EQ(table_.rows().at(1).failures, 0);
}

TEST_F(RelayCoreTest, NothingCanBeSentIsLoggedOncePerMinute) {
    RelayOptions options;
    options.lease = std::chrono::hours(1);
    make(options);
    for (const char* aggregate : {"a", "b", "c"}) table_.add(aggregate);
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    poll();
    const auto fail_all = [&](const char* code) {
        for (const std::int64_t id : send()) {
            answer(id, {.kind = OutcomeKind::retryable, .code = code, .detail = "no answer", .not_attempted = true});
        }
        now_ += RelayCore::kPauseWhenNotAttempted;
    };
    const Instant start = now_;
    while (now_ < start + std::chrono::seconds(90)) fail_all("BROKER_UNREACHABLE");
    EXPECT_EQ(core_->totals().put_off, 270U);
    EXPECT_EQ(lines_with("nothing can be sent: waiting"), 2U);
    EXPECT_EQ(lines_with("BROKER_UNREACHABLE: no answer"), 2U);
    fail_all("TOKEN_UNREADABLE");
    EXPECT_EQ(lines_with("TOKEN_UNREADABLE"), 1U) << "something else";
}

TEST_F(RelayCoreTest, AFailingAggregateWaitsAndContinuesInOrder) {
    RelayOptions options;
    options.lease = std::chrono::hours(1);
    make(options);
    for (const char* aggregate : {"a", "b", "a", "b"}) table_.add(aggregate);
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    poll();
    EXPECT_THAT(send(), ElementsAre(1, 2));
    answer(1, {.kind = OutcomeKind::retryable, .code = "DOWN"});
    answer(2, delivered());
    EXPECT_THAT(send(), ElementsAre(4));
    answer(4, delivered());
    settle();
    table_.add("a");
    poll();  // a second later: it is due
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, delivered());
    EXPECT_THAT(send(), IsEmpty());
    settle();
    poll();
    EXPECT_THAT(send(), ElementsAre(3));
    answer(3, delivered());
    EXPECT_THAT(send(), ElementsAre(5));
}

class StrictOrder : public RelayCoreTest {
protected:
    StrictOrder() {
        RelayOptions options;
        options.strict_order = true;
        options.lease = std::chrono::hours(1);
        make(options);
        core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    }
    /// Seen, certain, read.
    void polls() {
        for (int i = 0; i < 3; ++i) poll();
    }
};

TEST_F(StrictOrder, AnEventWaitsForAllThatMayStillPrecedeIt) {
    table_.add("a");
    polls();
    EXPECT_THAT(send(), ElementsAre(1));
    const std::uint64_t first = table_.begin_transaction();
    const std::int64_t low = table_.begin("b");  // by a later transaction
    const std::int64_t high = table_.draw("b");
    table_.write(high, first);
    table_.end_transaction(first, true);
    table_.add("c");
    polls();
    EXPECT_THAT(send(), IsEmpty());
    table_.begin_transaction();  // after all of them: nobody waits for it
    table_.commit(low);
    polls();
    EXPECT_THAT(send(), ElementsAre(low, 4));
    answer(low, delivered());
    EXPECT_THAT(send(), ElementsAre(high));
}

TEST_F(StrictOrder, UncertainRowsAreNotRead) {
    for (int i = 0; i < 3; ++i) table_.add("a");
    polls();
    table_.begin("b");
    table_.add("a");
    polls();
    now_ += std::chrono::seconds(1);
    const auto request = core_->begin_poll(now_);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->up_to, "3");
    EXPECT_EQ(table_.read(*request)->rows.size(), 3U);
}

TEST_F(StrictOrder, TheRestOfAFailedAggregateWaitsLikeAnyOther) {
    table_.add("a");
    polls();
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, {.kind = OutcomeKind::retryable, .code = "DOWN"});
    settle();
    const std::int64_t low = table_.begin("a");
    table_.add("a");
    polls();
    EXPECT_THAT(send(), ElementsAre(1)) << "it was sent before";
    answer(1, delivered());
    settle();
    polls();
    EXPECT_THAT(send(), IsEmpty()) << "2 may still come";
    table_.commit(low);
    polls();
    EXPECT_THAT(send(), ElementsAre(2));
    answer(2, delivered());
    EXPECT_THAT(send(), ElementsAre(3));
}

TEST_F(StrictOrder, NothingIsHeldBackIfEverythingIsCertain) {
    FakeEvents::Options uuids;
    uuids.shards = 2;
    uuids.uuids = true;
    FakeEvents table(uuids, [this] { return now_.time_since_epoch(); });
    table.add("a");
    core_->tended(now_, now_, table.tend("r", std::chrono::hours(1)));
    for (int i = 0; i < 2; ++i) {
        ASSERT_LE(core_->next_poll(now_), now_);
        core_->end_poll(now_, now_, table.read(*core_->begin_poll(now_)));
    }
    core_->send(now_, batch_);
    EXPECT_EQ(batch_.size(), 1U);
}

TEST_F(RelayCoreTest, ReadsAtMostWhatMayBeInHand) {
    RelayOptions options;
    options.lease = std::chrono::hours(1);
    options.batch_size = 10;
    options.parallelism = 5;
    options.held_bytes = 1000;
    make(options);
    table_.body = std::string(400, 'x');
    for (int i = 0; i < 100; ++i) table_.add("a" + std::to_string(i));
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    poll();  // nothing is known of their size yet: the read itself ends
    EXPECT_EQ(core_->book().rows(), 3U);
    now_ += std::chrono::seconds(1);
    EXPECT_FALSE(core_->begin_poll(now_).has_value());
}

/// Metadata of many tiny entries takes many times its text in memory.
TEST_F(RelayCoreTest, HeadersCountTowardsWhatMayBeInHand) {
    RelayOptions options;
    options.lease = std::chrono::hours(1);
    options.batch_size = 10;
    options.parallelism = 5;
    options.held_bytes = 1'000'000;
    make(options);
    for (int i = 0; i < 1000; ++i) table_.headers.emplace_back("k" + std::to_string(i), "1");
    table_.headers.shrink_to_fit();
    for (int i = 0; i < 100; ++i) table_.add("a" + std::to_string(i));
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    for (int i = 0; i < 10; ++i) {
        now_ += std::chrono::seconds(1);
        if (auto request = core_->begin_poll(now_)) core_->end_poll(now_, now_, table_.read(*request));
    }
    const std::size_t one = 1000 * 2 * sizeof(std::string);
    EXPECT_GE(core_->book().rows(), 1U);
    EXPECT_LE(core_->book().rows(), options.held_bytes / one + 1);
}

/// What a poll left out because of its size comes with the next ones, in order, and nothing is passed over.
TEST_F(RelayCoreTest, RowsThatWereCutForTheirSizeComeLater) {
    RelayOptions options;
    options.lease = std::chrono::hours(1);
    options.held_bytes = 1000;
    make(options);
    table_.body = std::string(400, 'x');
    for (int i = 0; i < 20; ++i) table_.add("a" + std::to_string(i % 3));
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    std::map<std::int64_t, int> sent;
    std::map<std::int64_t, std::int64_t> last;
    std::size_t most_in_hand = 0;
    for (int round = 0; round < 200 && sent.size() < 20; ++round) {
        now_ += std::chrono::seconds(1);
        if (auto request = core_->begin_poll(now_)) core_->end_poll(now_, now_, table_.read(*request));
        most_in_hand = std::max(most_in_hand, core_->book().bytes());
        for (const std::int64_t id : send()) {
            EXPECT_LT(last[id % 3], id) << "order of an aggregate";
            last[id % 3] = id;
            const bool fails = id % 4 == 0 && sent[id] == 0;
            ++sent[id];
            if (fails) last[id % 3] = id - 1;
            answer(id, fails ? Outcome{.kind = OutcomeKind::retryable, .code = "X"} : delivered());
        }
        if (!core_->settled_all()) settle();
        now_ += std::chrono::seconds(400);
        core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    }
    EXPECT_EQ(sent.size(), 20U);
    EXPECT_LE(most_in_hand, 3 * options.held_bytes + 3 * table_.body.size());
}

/// The database may have failed because of the rows' size: the same question again would fail for ever.
TEST_F(RelayCoreTest, AfterAFailedPollTheNextAsksForFewRows) {
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    now_ += std::chrono::seconds(1);
    const std::int32_t usual = core_->begin_poll(now_)->limit;
    core_->end_poll(now_, now_, retryable("db_timeout", "too slow"));
    now_ += std::chrono::seconds(10);
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    const auto request = core_->begin_poll(now_);
    EXPECT_EQ(request->limit, 8);
    EXPECT_EQ(request->due_limit, 8);
    core_->end_poll(now_, now_, table_.read(*request));
    now_ += std::chrono::seconds(10);
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    EXPECT_EQ(core_->begin_poll(now_)->limit, usual);
}

}  // namespace
}  // namespace deliverd::relay
