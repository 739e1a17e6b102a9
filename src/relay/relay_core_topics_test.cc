// Topics that fail apart from each other.
#include "relay/testing/core_fixture.h"

namespace deliverd::relay {
namespace {

/// A lane of several topics: an event's is its aggregate's name without the digits.
class Topics : public RelayCoreTest {
protected:
    Topics() : RelayCoreTest(true) {
        RelayOptions options;
        options.worker_id = "r";
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
            now_ += std::chrono::milliseconds(100);  // that a poll takes
            if (auto request = core_->begin_poll(began)) core_->end_poll(began, now_, table_.read(*request));
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

TEST_F(Topics, ATopicThatAcceptsNothingHoldsUpNoOtherAndItsEventsDieInTheEnd) {
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

TEST_F(Topics, TheRecoveryOfOneTopicCostsUntriedEventsOfOthersNothing) {
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

}  // namespace
}  // namespace deliverd::relay
