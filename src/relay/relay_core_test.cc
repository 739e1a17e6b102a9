#include "relay/relay_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

#include "pipeline/testing/fakes.h"
#include "relay/testing/fake_events.h"

namespace deliverd::relay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A core by hand, on a table in memory that stands still between the calls.
class RelayCoreTest : public ::testing::Test {
protected:
    explicit RelayCoreTest(bool typed = false) : typed_(typed) { make(RelayOptions{}); }

    void make(RelayOptions options) {
        options.owner = "r";
        options.topic = *TopicTemplate::parse("t.{event_type}");
        options.retry.jitter = 0;
        core_.emplace(options, 1, observer_, log_);
    }
    void tend(std::vector<store::ShardLease> held, std::int32_t share) {
        core_->tended(now_, now_, store::ShardShare{std::move(held), 1, share});
    }
    /// Takes what the table gives, as one look.
    void look() {
        now_ += std::chrono::seconds(1);
        std::optional<store::EventRead> request = core_->begin_look(now_);
        ASSERT_TRUE(request.has_value());
        core_->end_look(now_, now_, table_.read(*request));
    }
    std::vector<std::int64_t> send() {
        core_->send(now_, batch_);
        std::vector<std::int64_t> ids;
        for (const Message* message : batch_) {
            ids.push_back(message->id);
            messages_[message->id] = message;
        }
        return ids;
    }
    void answer(std::int64_t id, Outcome outcome) {
        Answer answer{messages_.at(id), std::move(outcome), now_};
        core_->outcomes(now_, {&answer, 1});
    }
    void settle() {
        now_ += std::chrono::seconds(1);
        const auto settlements = core_->begin_settle(now_);
        core_->end_settle(now_, table_.settle("r", settlements));
    }
    [[nodiscard]] std::size_t lines_with(std::string_view text) const {
        return static_cast<std::size_t>(std::ranges::count_if(
            log_.lines, [&](const std::string& line) { return line.find(text) != std::string::npos; }));
    }
    static Outcome delivered() { return {.kind = OutcomeKind::delivered}; }

    const bool typed_;
    Instant now_ = Instant(std::chrono::hours(1));
    FakeEvents table_{{.shards = 2, .typed = typed_}, [this] { return now_.time_since_epoch(); }};
    pipeline::Observer observer_;
    pipeline::RecordingLog log_;
    std::optional<RelayCore> core_;
    std::vector<const Message*> batch_;
    std::map<std::int64_t, const Message*> messages_;
};

TEST_F(RelayCoreTest, ASettleWaitsForMoreWhileTheTableIsBusy) {
    const RelayOptions options;
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    table_.add("a");
    look();
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, delivered());
    EXPECT_FALSE(core_->settle_due(now_)) << "others are likely to follow";
    EXPECT_TRUE(core_->settle_due(now_ + options.settle_linger));
}

TEST_F(RelayCoreTest, ASettleWaitsForNothingWhereTheTableIsQuiet) {
    const RelayOptions options;
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    table_.add("a");
    look();
    EXPECT_THAT(send(), ElementsAre(1));
    for (int i = 0; i < 10; ++i) {  // nothing new
        now_ += options.idle_poll;
        core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
        look();
    }
    answer(1, delivered());
    EXPECT_TRUE(core_->quiet());
    EXPECT_TRUE(core_->settle_due(now_));
}

TEST_F(RelayCoreTest, NothingIsReadOrSentWithoutAFreshLease) {
    table_.add("a");
    EXPECT_FALSE(core_->begin_look(now_).has_value());
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(6)));
    look();
    now_ += std::chrono::seconds(4);
    EXPECT_THAT(send(), IsEmpty()) << "two thirds of the lease have passed";
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(6)));
    EXPECT_THAT(send(), ElementsAre(1));
    EXPECT_EQ(batch_.front()->topic, "t.happened");
}

TEST_F(RelayCoreTest, WhileOthersHaveAnotherNumberOfShardsItAsksOnAndSaysSoOnceAMinute) {
    table_.add("a");
    const auto refused = [](const char* why) -> Result<store::ShardShare> {
        return retryable(std::string(store::kOtherShards), why);
    };
    const Instant start = now_;
    for (; now_ < start + std::chrono::seconds(90); now_ = core_->next_tend()) {
        core_->tended(now_, now_, refused("two others"));
        EXPECT_FALSE(core_->begin_look(now_).has_value());
        EXPECT_GT(core_->next_tend(), now_);
        EXPECT_LE(core_->next_tend(), now_ + std::chrono::seconds(1));
    }
    EXPECT_EQ(lines_with("two others"), 2U);
    core_->tended(now_, now_, refused("one other"));
    EXPECT_EQ(lines_with("one other"), 1U) << "something changed";
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    look();
    EXPECT_THAT(send(), ElementsAre(1));
}

TEST_F(RelayCoreTest, WhatALookBringsOfAShardThatWasGivenUpMeanwhileIsNotTaken) {
    const auto both = *table_.tend("r", std::chrono::hours(1));
    core_->tended(now_, now_, both);
    const std::optional<store::EventRead> request = core_->begin_look(now_);
    for (const char* aggregate : {"a", "b", "c", "d"}) table_.add(aggregate);
    const auto batch = table_.read(*request);
    tend(both.held, 0);  // both are too many …
    tend(both.held, 2);  // … and wanted again, before the look has ended
    core_->end_look(now_, now_, batch);
    EXPECT_THAT(send(), IsEmpty());
    look();
    EXPECT_THAT(send(), ElementsAre(1, 2, 3, 4)) << "read again from the beginning";
}

TEST_F(RelayCoreTest, AFencedSettleEndsTheShard) {
    for (const char* aggregate : {"a", "a"}) table_.add(aggregate);
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    look();
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

TEST_F(RelayCoreTest, AConflictAfterATryInDoubtIsThatTry) {
    table_.add("a");
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    look();
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
    look();
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

/// A lane of several topics: an event's is its aggregate's name without the digits.
class Topics : public RelayCoreTest {
protected:
    Topics() : RelayCoreTest(true) {
        RelayOptions options;
        options.owner = "r";
        options.parallelism = 8;
        options.batch_size = 8;
        options.lease = std::chrono::hours(10);
        options.retry = RetryPolicy{.base_seconds = 1, .cap_seconds = 4, .jitter = 0, .dead_at_failures = 4};
        options.topic = *TopicTemplate::parse("{event_type_raw}");
        core_.emplace(options, 1, observer_, log_);
        core_->tended(now_, now_, table_.tend("r", std::chrono::hours(10)));
    }
    static Outcome no_leader() {
        return {.kind = OutcomeKind::retryable, .code = "NO_LEADER", .detail = "none", .not_attempted = true};
    }
    /// A second of everything; what `takes` says is delivered, the rest not attempted, after refusal_takes_.
    void second(const std::function<bool(const Message&)>& takes) {
        for (int tenth = 0; tenth < 10; ++tenth) {
            const Instant began = now_;
            now_ += std::chrono::milliseconds(100);  // that a look takes
            if (auto request = core_->begin_look(began)) core_->end_look(began, now_, table_.read(*request));
            for (; !refusals_.empty() && refusals_.front().first <= now_; refusals_.pop_front())
                answer(refusals_.front().second, no_leader());
            for (std::vector<std::int64_t> ids = send(); !ids.empty(); ids = send()) {
                for (const std::int64_t id : ids) {
                    ++tries_[id];
                    if (takes(*messages_.at(id))) {
                        answer(id, delivered());
                    } else if (refusal_takes_ == Duration::zero()) {
                        answer(id, no_leader());
                    } else {
                        refusals_.emplace_back(now_ + refusal_takes_, id);
                    }
                }
            }
            const auto settlements = core_->begin_settle(now_);
            if (!settlements.empty()) core_->end_settle(now_, table_.settle("r", settlements));
        }
    }
    [[nodiscard]] std::int64_t published() const {
        return std::ranges::count_if(table_.rows(), [](const auto& row) { return row.second.published; });
    }
    [[nodiscard]] std::int64_t dead() const {
        return std::ranges::count_if(table_.rows(), [](const auto& row) { return row.second.dead; });
    }
    [[nodiscard]] bool all_dead_were_tried() const {
        return std::ranges::all_of(table_.rows(),
                                   [&](const auto& row) { return !row.second.dead || tries_.contains(row.first); });
    }
    static bool is_good(const Message& message) { return message.key.starts_with("good"); }
    /// Keys of one topic: the odd ones go to a partition that takes nothing.
    static bool is_even(const Message& message) { return (message.key.back() - '0') % 2 == 0; }

    Duration refusal_takes_{};
    std::deque<std::pair<Instant, std::int64_t>> refusals_;
    std::map<std::int64_t, int> tries_;
};

TEST_F(Topics, OneThatTakesNothingHoldsUpNoOtherAndItsEventsDieInTheEnd) {
    for (int i = 0; i < 200; ++i) {  // more than there may be in hand
        for (const std::string name : {"bad", "good"}) table_.add(name + std::to_string(i));
    }
    for (int i = 0; i < 30; ++i) second(is_good);
    EXPECT_EQ(published(), 200);
    int written = 0;
    for (int i = 0; i < 500 && dead() < 200; ++i) {  // one a second is tried
        if (i % 2 == 0) table_.add("good" + std::to_string(written++));
        second(is_good);
    }
    EXPECT_EQ(dead(), 200);
    EXPECT_EQ(published(), 200 + written);
    EXPECT_TRUE(all_dead_were_tried());
    EXPECT_GT(lines_with("NO_LEADER: not tried"), 0U) << "what was counted without a try says so";
}

TEST_F(Topics, OneBadPartitionHoldsUpNothingElseOfItsTopic) {
    for (const Duration takes : {Duration::zero(), Duration(std::chrono::seconds(10))}) {
        refusal_takes_ = takes;
        const std::int64_t published_before = published();
        const std::int64_t dead_before = dead();
        const std::string topic = takes == Duration::zero() ? "quick" : "slow";
        for (int i = 0; i < 40; ++i) table_.add(topic + std::to_string(i));
        int good = 20;
        for (int i = 0; i < 400; ++i, ++good) {
            table_.add(topic + std::to_string(2 * (i % 20)));
            second(is_even);
        }
        refusal_takes_ = {};
        for (int i = 0; i < 5; ++i) second(is_even);
        EXPECT_EQ(published() - published_before, good) << topic;
        EXPECT_EQ(dead() - dead_before, 20) << topic;
        EXPECT_TRUE(all_dead_were_tried()) << topic;
    }
}

TEST_F(Topics, AHandFullOfEventsForABadPartitionDoesNotKeepTheOthersFromBeingTried) {
    for (int i = 0; i < 60; ++i) table_.add("t" + std::to_string(2 * i + 1));  // more than may wait in hand
    for (int i = 0; i < 10; ++i) table_.add("t" + std::to_string(2 * i));
    for (int i = 0; i < 120 && published() < 10; ++i) second(is_even);
    EXPECT_EQ(published(), 10);
}

TEST_F(Topics, RareEventsOfAPartlyBadTopicAreDeliveredAndDoNotDieUntried) {
    refusal_takes_ = std::chrono::seconds(10);
    for (int i = 0; i < 30; ++i) table_.add("t" + std::to_string(2 * i + 1));
    int rare = 0;
    int others = 0;
    for (int i = 0; i < 600; ++i) {
        if (i % 60 == 0) table_.add("t" + std::to_string(2 * rare++));
        table_.add("good" + std::to_string(2 * (others++ % 20)));
        second(is_even);
    }
    EXPECT_EQ(published(), rare + others);
    EXPECT_TRUE(all_dead_were_tried());
}

TEST_F(Topics, TheRecoveryOfOneCostsEventsOfTheOthersNothingUnlessTheyAreTried) {
    for (const char* name : {"a1", "b1", "c1", "a2", "b2", "c2", "a3", "b3", "c3"}) table_.add(name);
    std::string back;
    const auto takes = [&](const Message& message) { return back.find(message.topic) != std::string::npos; };
    for (int i = 0; i < 20; ++i) second(takes);
    for (const auto& [id, row] : table_.rows()) EXPECT_EQ(row.failures, 0) << id;
    tries_.clear();
    for (const char* topic : {"a", "b", "c"}) {
        back += topic;
        second(takes);
        for (const auto& [id, row] : table_.rows()) EXPECT_LE(row.failures, tries_[id]) << id;
    }
    for (int i = 0; i < 10; ++i) second(takes);
    EXPECT_EQ(published(), 9);
}

TEST_F(Topics, WhileNothingIsDeliveredAnywhereNothingIsCounted) {
    for (const char* name : {"a", "b", "a", "b"}) table_.add(name);
    for (int i = 0; i < 100; ++i) second([](const Message&) { return false; });
    int tries = 0;
    for (const auto& [id, times] : tries_) tries += times;
    EXPECT_LE(tries, 202) << "one of each topic a second";
    for (const auto& [id, row] : table_.rows()) EXPECT_EQ(row.failures, 0) << id;
    for (int i = 0; i < 10; ++i) second([](const Message&) { return true; });
    EXPECT_EQ(published(), 4);
}

TEST_F(Topics, BehindAHandFullOfEventsThatWaitOthersAreFound) {
    for (int i = 0; i < 500; ++i) table_.add("bad" + std::to_string(i));
    for (int i = 0; i < 10; ++i) table_.add("good" + std::to_string(i));
    for (int i = 0; i < 60 && published() < 10; ++i) second(is_good);
    EXPECT_EQ(published(), 10);
}

TEST_F(Topics, TheOrderIsKeptAcrossAPause) {
    for (int i = 0; i < 40; ++i) table_.add(i % 2 == 0 ? "a" : "b");
    std::map<std::string, std::int64_t> last;
    bool away = true;
    for (int i = 0; i < 60 && published() < 40; ++i) {
        away = i % 7 < 2;
        second([&](const Message& message) {
            if (message.key == "a" && away) return false;
            EXPECT_GT(message.id, last[message.key]) << "second " << i;
            last[message.key] = message.id;
            return true;
        });
    }
    EXPECT_EQ(published(), 40);
}

TEST_F(RelayCoreTest, ThatNothingCanBeSentIsSaidOnceAMinute) {
    RelayOptions options;
    options.lease = std::chrono::hours(1);
    make(options);
    for (const char* aggregate : {"a", "b", "c"}) table_.add(aggregate);
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    look();
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

TEST_F(RelayCoreTest, AFailingAggregateWaitsAndGoesOnInOrder) {
    RelayOptions options;
    options.lease = std::chrono::hours(1);
    make(options);
    for (const char* aggregate : {"a", "b", "a", "b"}) table_.add(aggregate);
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    look();
    EXPECT_THAT(send(), ElementsAre(1, 2));
    answer(1, {.kind = OutcomeKind::retryable, .code = "DOWN"});
    answer(2, delivered());
    EXPECT_THAT(send(), ElementsAre(4));
    answer(4, delivered());
    settle();
    table_.add("a");
    look();  // a second later: it is due
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, delivered());
    EXPECT_THAT(send(), IsEmpty());
    settle();
    look();
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
    void looks() {
        for (int i = 0; i < 3; ++i) look();
    }
};

TEST_F(StrictOrder, AnEventWaitsForAllThatMayStillComeBeforeIt) {
    table_.add("a");
    looks();
    EXPECT_THAT(send(), ElementsAre(1));
    const std::uint64_t first = table_.begin_transaction();
    const std::int64_t low = table_.begin("b");  // by a later transaction
    const std::int64_t high = table_.draw("b");
    table_.write(high, first);
    table_.end_transaction(first, true);
    table_.add("c");
    looks();
    EXPECT_THAT(send(), IsEmpty());
    table_.begin_transaction();  // after all of them: nobody waits for it
    table_.commit(low);
    looks();
    EXPECT_THAT(send(), ElementsAre(low, 4));
    answer(low, delivered());
    EXPECT_THAT(send(), ElementsAre(high));
}

TEST_F(StrictOrder, NothingIsReadOfWhatIsNotCertain) {
    for (int i = 0; i < 3; ++i) table_.add("a");
    looks();
    table_.begin("b");
    table_.add("a");
    looks();
    now_ += std::chrono::seconds(1);
    const auto request = core_->begin_look(now_);
    ASSERT_TRUE(request);
    EXPECT_EQ(request->up_to, "3");
    EXPECT_EQ(table_.read(*request)->rows.size(), 3U);
}

TEST_F(StrictOrder, TheRestOfAnAggregateThatFailedWaitsLikeAnyOther) {
    table_.add("a");
    looks();
    EXPECT_THAT(send(), ElementsAre(1));
    answer(1, {.kind = OutcomeKind::retryable, .code = "DOWN"});
    settle();
    const std::int64_t low = table_.begin("a");
    table_.add("a");
    looks();
    EXPECT_THAT(send(), ElementsAre(1)) << "it was sent before";
    answer(1, delivered());
    settle();
    looks();
    EXPECT_THAT(send(), IsEmpty()) << "2 may still come";
    table_.commit(low);
    looks();
    EXPECT_THAT(send(), ElementsAre(2));
    answer(2, delivered());
    EXPECT_THAT(send(), ElementsAre(3));
}

TEST_F(StrictOrder, WhereNothingIsUncertainNothingIsHeldBack) {
    FakeEvents::Options uuids;
    uuids.shards = 2;
    uuids.uuids = true;
    FakeEvents table(uuids, [this] { return now_.time_since_epoch(); });
    table.add("a");
    core_->tended(now_, now_, table.tend("r", std::chrono::hours(1)));
    for (int i = 0; i < 2; ++i) {
        ASSERT_LE(core_->next_look(now_), now_);
        core_->end_look(now_, now_, table.read(*core_->begin_look(now_)));
    }
    core_->send(now_, batch_);
    EXPECT_EQ(batch_.size(), 1U);
}

TEST_F(RelayCoreTest, NoMoreIsReadThanMayBeInHand) {
    RelayOptions options;
    options.lease = std::chrono::hours(1);
    options.batch_size = 10;
    options.parallelism = 5;
    options.held_bytes = 1000;
    make(options);
    table_.body = std::string(400, 'x');
    for (int i = 0; i < 100; ++i) table_.add("a" + std::to_string(i));
    core_->tended(now_, now_, table_.tend("r", std::chrono::hours(1)));
    look();  // nothing is known of their size yet: the read itself ends
    EXPECT_EQ(core_->book().rows(), 3U);
    now_ += std::chrono::seconds(1);
    EXPECT_FALSE(core_->begin_look(now_).has_value());
}

/// Metadata of many tiny entries takes many times its text in memory.
TEST_F(RelayCoreTest, NoMoreHeadersAreReadThanMayBeInHand) {
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
        if (auto request = core_->begin_look(now_)) core_->end_look(now_, now_, table_.read(*request));
    }
    const std::size_t one = 1000 * 2 * sizeof(std::string);
    EXPECT_GE(core_->book().rows(), 1U);
    EXPECT_LE(core_->book().rows(), options.held_bytes / one + 1);
}

/// What a look left out because of its size comes with the next ones, in order, and nothing is passed over.
TEST_F(RelayCoreTest, WhatWasCutBecauseOfItsSizeComesLater) {
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
        if (auto request = core_->begin_look(now_)) core_->end_look(now_, now_, table_.read(*request));
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
TEST_F(RelayCoreTest, AfterAFailedLookFewRowsAreAskedFor) {
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    now_ += std::chrono::seconds(1);
    const std::int32_t usual = core_->begin_look(now_)->limit;
    core_->end_look(now_, now_, retryable("db_timeout", "too slow"));
    now_ += std::chrono::seconds(10);
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    const auto request = core_->begin_look(now_);
    EXPECT_LT(request->limit, usual);
    EXPECT_LT(request->due_limit, usual);
    core_->end_look(now_, now_, table_.read(*request));
    now_ += std::chrono::seconds(10);
    core_->tended(now_, now_, table_.tend("r", std::chrono::seconds(60)));
    EXPECT_EQ(core_->begin_look(now_)->limit, usual);
}

}  // namespace
}  // namespace deliverd::relay
