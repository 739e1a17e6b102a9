#include "pipeline/settle_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "store/events.h"

namespace deliverd::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Queue = SettleQueue<store::EventSettlement>;
constexpr std::int32_t kRefusals = 8;
constexpr Instant kQueueStart = Instant(std::chrono::hours(1));
constexpr Duration kLinger = std::chrono::milliseconds(5);
constexpr Duration kPatience = std::chrono::minutes(1);
constexpr Duration kLongEnough = std::chrono::seconds(10);  // longer than any wait between tries

class SettleQueueTest : public ::testing::Test {
protected:
    void add(const std::string& id, std::int32_t shard = 0, Instant now = kQueueStart) {
        store::EventSettlement settlement;
        settlement.row_id = id;
        settlement.lease = {shard, 1};
        queue_.add(std::move(settlement), now);
    }
    std::vector<std::string> begin(Instant now = kQueueStart) {
        std::vector<std::string> ids;
        for (const auto& settlement : queue_.begin(now)) ids.push_back(settlement.row_id);
        return ids;
    }
    std::size_t drop_shard(std::int32_t shard) {
        return queue_.drop([&](const store::EventSettlement& settlement) { return settlement.lease.shard == shard; });
    }
    Queue::EndedBatch fail(ErrorClass error_class, Instant now = kQueueStart) {
        const Error error{error_class, "db_error", "away"};
        return queue_.end(&error, now, random_);
    }
    static std::vector<std::string> ids(const std::vector<Queue::Item>& items) {
        std::vector<std::string> ids;
        for (const Queue::Item& item : items) ids.push_back(item.settlement.row_id);
        return ids;
    }

    SeededRandom random_{1};
    Queue queue_{{.batch = 3, .most = 6, .linger = kLinger, .patience = kPatience, .refusals = kRefusals}};
};

TEST_F(SettleQueueTest, BeginsWhenABatchIsFullOrLingeredOrNothingElseCanCome) {
    EXPECT_FALSE(queue_.due(kQueueStart, true));
    add("1");
    EXPECT_FALSE(queue_.due(kQueueStart, false));
    EXPECT_TRUE(queue_.due(kQueueStart, true));
    EXPECT_EQ(queue_.due_at(), kQueueStart + kLinger);
    EXPECT_TRUE(queue_.due(kQueueStart + kLinger, false));
    add("2");
    add("3");
    EXPECT_TRUE(queue_.due(kQueueStart, false));
    for (const char* id : {"4", "5", "6", "7"}) add(id);
    EXPECT_THAT(begin(), ElementsAre("1", "2", "3", "4", "5", "6"));
    EXPECT_FALSE(queue_.due(kQueueStart + kPatience, true)) << "one at a time";
    EXPECT_THAT(ids(queue_.end(nullptr, kQueueStart, random_).answered), ElementsAre("1", "2", "3", "4", "5", "6"));
    EXPECT_EQ(queue_.size(), 1U);
}

TEST_F(SettleQueueTest, AFailedCallIsRepeatedWithTheSameBatchAfterAWait) {
    add("1");
    add("2");
    begin();
    EXPECT_THAT(fail(ErrorClass::ambiguous).given_up, IsEmpty());
    add("3");
    EXPECT_FALSE(queue_.due(kQueueStart, true));
    EXPECT_GT(queue_.due_at(), kQueueStart);
    EXPECT_THAT(begin(kQueueStart + kLongEnough), ElementsAre("1", "2"));
    const auto ended = queue_.end(nullptr, kQueueStart + kLongEnough, random_);
    EXPECT_TRUE(ended.answered.front().in_doubt);
    EXPECT_THAT(begin(kQueueStart + kLongEnough), ElementsAre("3"));
    EXPECT_FALSE(queue_.end(nullptr, kQueueStart + kLongEnough, random_).answered.front().in_doubt);
}

TEST_F(SettleQueueTest, RefusedSettlementsGoOneByOneAndDoNotHoldUpTheOthers) {
    for (const char* id : {"1", "2", "3"}) add(id);
    begin();
    fail(ErrorClass::permanent);
    EXPECT_THAT(begin(), ElementsAre("1"));
    fail(ErrorClass::permanent);
    EXPECT_THAT(begin(), ElementsAre("2"));
    EXPECT_THAT(ids(queue_.end(nullptr, kQueueStart, random_).answered), ElementsAre("2"));
    EXPECT_THAT(begin(), ElementsAre("3"));
    queue_.end(nullptr, kQueueStart, random_);
    EXPECT_THAT(begin(), IsEmpty());
    EXPECT_TRUE(queue_.due(kQueueStart + kLongEnough, false));
    EXPECT_THAT(begin(kQueueStart + kLongEnough), ElementsAre("1"));
}

TEST_F(SettleQueueTest, ReportsThatEverythingIsRefused) {
    for (int i = 0; i < kRefusals; ++i) {
        EXPECT_FALSE(queue_.refused());
        add(std::to_string(i));
        begin();
        fail(ErrorClass::permanent);
    }
    EXPECT_TRUE(queue_.refused());
    begin(kQueueStart + kLongEnough);
    queue_.end(nullptr, kQueueStart + kLongEnough, random_);
    EXPECT_FALSE(queue_.refused());
}

TEST_F(SettleQueueTest, LockedRowsWaitApartAndTheOthersPass) {
    const auto end = [&](const std::set<std::string>& locked, Instant now) {
        auto ended = queue_.end(nullptr, now, random_);
        std::vector<std::string> left;
        for (Queue::Item& item : ended.answered) {
            if (!locked.contains(item.settlement.row_id) || !queue_.keep_locked(item, now, random_)) {
                left.push_back(item.settlement.row_id);
            }
        }
        return left;
    };
    for (const char* id : {"1", "2", "3"}) add(id, id[0] - '0');
    begin();
    EXPECT_THAT(end({"1", "3"}, kQueueStart), ElementsAre("2"));
    EXPECT_EQ(queue_.size(), 2U);
    EXPECT_FALSE(queue_.due(kQueueStart, true)) << "not at once";
    EXPECT_GT(queue_.due_at(), kQueueStart);
    add("4");
    EXPECT_THAT(begin(), ElementsAre("4")) << "nobody waits for them";
    queue_.end(nullptr, kQueueStart, random_);

    Instant now = kQueueStart;
    std::vector<std::string> given_up;
    while (given_up.empty() && queue_.size() > 0) {
        const Instant next = queue_.due_at();
        ASSERT_GT(next, now);
        ASSERT_LE(next - now, std::chrono::seconds(1)) << "whoever has them may let go at any time";
        now = next;
        const auto& tried = queue_.begin(now);
        ASSERT_FALSE(tried.empty());
        for (const auto& one : tried) EXPECT_TRUE(one.met_lock) << "the store need not wait again";
        given_up = end({"1", "3"}, now);
    }
    EXPECT_FALSE(given_up.empty());
    EXPECT_GE(now, kQueueStart + kPatience);
}

TEST_F(SettleQueueTest, ALockedRowGoesWithItsShardAndAtTheEnd) {
    for (const char* id : {"1", "2"}) add(id, id[0] - '0');
    begin();
    auto ended = queue_.end(nullptr, kQueueStart, random_);
    for (Queue::Item& item : ended.answered) EXPECT_TRUE(queue_.keep_locked(item, kQueueStart, random_));
    EXPECT_EQ(drop_shard(1), 1U);
    EXPECT_THAT(begin(kQueueStart + kLongEnough), ElementsAre("2"));
    fail(ErrorClass::retryable, kQueueStart + kLongEnough);
    EXPECT_THAT(begin(kQueueStart + 2 * kLongEnough), ElementsAre("2")) << "a call that fails loses nothing";
    ended = queue_.end(nullptr, kQueueStart + 2 * kLongEnough, random_);
    EXPECT_TRUE(queue_.keep_locked(ended.answered.front(), kQueueStart + 2 * kLongEnough, random_));
    EXPECT_THAT(ids(queue_.take_all()), ElementsAre("2"));
    EXPECT_EQ(queue_.size(), 0U);
}

TEST_F(SettleQueueTest, PatienceEnds) {
    add("1");
    add("2");
    Instant now = kQueueStart;
    std::vector<std::string> given_up;
    while (given_up.empty() && now < kQueueStart + 2 * kPatience) {
        now += kLongEnough;
        begin(now);
        given_up = ids(fail(ErrorClass::retryable, now).given_up);
    }
    EXPECT_THAT(given_up, ElementsAre("1", "2"));
    EXPECT_GE(now, kQueueStart + kPatience);
    EXPECT_EQ(queue_.size(), 0U);
}

TEST_F(SettleQueueTest, AShardThatIsLostTakesItsSettlementsWithIt) {
    for (const char* id : {"1", "2", "3"}) add(id, id[0] == '2' ? 5 : 0);
    begin();
    fail(ErrorClass::retryable);
    add("4");
    EXPECT_EQ(drop_shard(5), 1U);
    EXPECT_THAT(begin(kQueueStart + kLongEnough), ElementsAre("1", "3")) << "still as one call";
}

}  // namespace
}  // namespace deliverd::pipeline
