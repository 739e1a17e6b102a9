#include "relay/shard_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deliverd::relay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr Duration kLease = std::chrono::seconds(6);
constexpr Instant kKeeperStart = Instant(std::chrono::hours(1));

TEST(ShardKeeper, IsStaleBeforeTheFirstTendAndTwoThirdsOfALeaseAfterTheLast) {
    ShardKeeper keeper(kLease);
    EXPECT_TRUE(keeper.stale(kKeeperStart));
    keeper.tended(kKeeperStart, {{{0, 1}}, 1, 1});
    EXPECT_FALSE(keeper.stale(kKeeperStart + std::chrono::seconds(4)));
    EXPECT_TRUE(keeper.stale(kKeeperStart + std::chrono::milliseconds(4001)));
    keeper.tend_failed(kKeeperStart + std::chrono::seconds(5));
    EXPECT_TRUE(keeper.stale(kKeeperStart + std::chrono::seconds(5)));
}

TEST(ShardKeeper, TendsThreeTimesALeaseAndMoreOftenWhileSomethingIsDue) {
    ShardKeeper keeper(kLease);
    keeper.tended(kKeeperStart, {{{0, 1}}, 1, 1});
    EXPECT_EQ(keeper.next_tend(), kKeeperStart + kLease / 3);
    keeper.tended(kKeeperStart, {{{0, 1}}, 1, 2});
    EXPECT_EQ(keeper.next_tend(), kKeeperStart + kLease / 12) << "another has yet to give one up";
    EXPECT_EQ(keeper.relays(), 1);
    keeper.tend_failed(kKeeperStart);
    EXPECT_EQ(keeper.next_tend(), kKeeperStart + kLease / 12);
}

TEST(ShardKeeper, DoesNotTendAllTheTimeHoweverShortTheLease) {
    ShardKeeper keeper(std::chrono::milliseconds(30));
    keeper.tended(kKeeperStart, {{{0, 1}}, 1, 1});
    EXPECT_EQ(keeper.next_tend(), kKeeperStart + std::chrono::milliseconds(20));
    keeper.tend_failed(kKeeperStart + kLease);
    EXPECT_EQ(keeper.next_tend(), kKeeperStart + kLease + std::chrono::milliseconds(20));
}

TEST(ShardKeeper, AnotherTokenIsAnotherTenure) {
    ShardKeeper keeper(kLease);
    EXPECT_TRUE(keeper.tended(kKeeperStart, {{{0, 1}, {1, 1}}, 1, 2}).gained);
    const auto same = keeper.tended(kKeeperStart, {{{0, 1}, {1, 1}}, 1, 2});
    EXPECT_FALSE(same.gained);
    EXPECT_THAT(same.lost, IsEmpty());
    const auto change = keeper.tended(kKeeperStart, {{{0, 1}, {1, 3}}, 1, 2});
    EXPECT_TRUE(change.gained);
    EXPECT_THAT(change.lost, ElementsAre(1));
    EXPECT_EQ(keeper.active_token(1), 3);
}

TEST(ShardKeeper, ExcessShardsLeaveAndComeBackWhenTheyAreWantedAgain) {
    ShardKeeper keeper(kLease);
    keeper.tended(kKeeperStart, {{{0, 1}, {1, 1}, {2, 1}}, 1, 3});
    const auto change = keeper.tended(kKeeperStart, {{{0, 1}, {1, 1}, {2, 1}}, 2, 2});
    EXPECT_THAT(change.leaving, ElementsAre(2));
    EXPECT_THAT(keeper.leaving(), ElementsAre(store::ShardLease{2, 1}));
    EXPECT_EQ(keeper.active_token(2), std::nullopt);
    const auto back = keeper.tended(kKeeperStart, {{{0, 1}, {1, 1}, {2, 1}}, 1, 3});
    EXPECT_TRUE(back.gained) << "its rows were dropped: they must be read again";
    EXPECT_EQ(keeper.active_token(2), 1);
}

TEST(ShardKeeper, OnlyAsManyLeaveOrComeBackAsTheShareSays) {
    ShardKeeper keeper(kLease);
    const std::vector<store::ShardLease> three = {{0, 1}, {1, 1}, {2, 1}};
    keeper.tended(kKeeperStart, {three, 1, 3});
    EXPECT_FALSE(keeper.any_leaving());
    EXPECT_THAT(keeper.tended(kKeeperStart, {three, 2, 2}).leaving, ElementsAre(2));
    EXPECT_TRUE(keeper.any_leaving());
    EXPECT_THAT(keeper.tended(kKeeperStart, {three, 3, 1}).leaving, ElementsAre(1)) << "2 is on its way already";
    EXPECT_THAT(keeper.leaving(), ElementsAre(store::ShardLease{1, 1}, store::ShardLease{2, 1}));
    EXPECT_TRUE(keeper.tended(kKeeperStart, {three, 2, 2}).gained);
    EXPECT_THAT(keeper.active(), ElementsAre(store::ShardLease{0, 1}, store::ShardLease{1, 1}));
    EXPECT_THAT(keeper.tended(kKeeperStart, {three, 4, 0}).leaving, ElementsAre(1, 0));
    EXPECT_THAT(keeper.active(), IsEmpty());
    EXPECT_EQ(keeper.held(), 3U) << "until they are released";
}

TEST(ShardKeeper, AReleaseEndsOnlyTheTenureItWasFor) {
    ShardKeeper keeper(kLease);
    keeper.tended(kKeeperStart, {{{0, 2}, {1, 2}}, 1, 2});
    keeper.released({0, 1});
    keeper.released({5, 2});
    EXPECT_EQ(keeper.active_token(0), 2);
    EXPECT_EQ(keeper.active_token(5), std::nullopt);
    keeper.released({0, 2});
    EXPECT_THAT(keeper.active(), ElementsAre(store::ShardLease{1, 2}));
}

TEST(ShardKeeper, TheLatestTokenKnownToBeOverCounts) {
    ShardKeeper keeper(kLease);
    keeper.lost({0, 4}, kKeeperStart);
    keeper.lost({0, 6}, kKeeperStart);
    keeper.lost({0, 5}, kKeeperStart);
    EXPECT_FALSE(keeper.tended(kKeeperStart, {{{0, 6}}, 1, 1}).gained);
    EXPECT_TRUE(keeper.tended(kKeeperStart, {{{0, 7}}, 1, 1}).gained);
}

TEST(ShardKeeper, ALeaseKnownToBeOverIsNoLongerBelieved) {
    ShardKeeper keeper(kLease);
    keeper.tended(kKeeperStart, {{{0, 4}}, 1, 1});
    EXPECT_TRUE(keeper.lost({0, 4}, kKeeperStart));
    EXPECT_FALSE(keeper.lost({0, 4}, kKeeperStart));
    EXPECT_EQ(keeper.next_tend(), kKeeperStart);
    keeper.tended(kKeeperStart, {{{0, 4}}, 1, 1});  // an answer from before
    EXPECT_EQ(keeper.active_token(0), std::nullopt);
    keeper.tended(kKeeperStart, {{{0, 6}}, 1, 1});
    EXPECT_EQ(keeper.active_token(0), 6);
    EXPECT_FALSE(keeper.lost({0, 4}, kKeeperStart)) << "the present tenure is another";
}

}  // namespace
}  // namespace deliverd::relay
