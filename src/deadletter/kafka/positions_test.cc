#include "deadletter/kafka/positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deliverd::deadletter {
namespace {

using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(Positions, WhatWasGivenIsCommittedUpToTheNextRecord) {
    Positions positions;
    positions.add("a", 0);
    positions.add("a", 1);
    positions.add("b", 0);
    EXPECT_THAT(positions.to_commit(), IsEmpty());
    EXPECT_TRUE(positions.give("a", 1, 7));
    EXPECT_TRUE(positions.give("a", 1, 9));  // a gap, as after a transaction
    EXPECT_TRUE(positions.give("b", 0, 0));
    EXPECT_THAT(positions.to_commit(), UnorderedElementsAre(Place{"a", 1, 10}, Place{"b", 0, 1}));
    EXPECT_THAT(positions.to_give_again(), UnorderedElementsAre(Place{"a", 1, 7}, Place{"b", 0, 0}));
    positions.commit("a", 1, 10);
    EXPECT_THAT(positions.to_commit(), UnorderedElementsAre(Place{"b", 0, 1}));
    EXPECT_TRUE(positions.give("a", 1, 12));
    EXPECT_THAT(positions.to_give_again(), UnorderedElementsAre(Place{"a", 1, 12}, Place{"b", 0, 0}));
}

TEST(Positions, ARevokedPartitionIsNotCommitted) {
    Positions positions;
    positions.add("a", 0);
    EXPECT_TRUE(positions.give("a", 0, 5));
    positions.clear();
    EXPECT_FALSE(positions.give("a", 0, 6));
    positions.commit("a", 0, 7);
    EXPECT_THAT(positions.to_commit(), IsEmpty());
    positions.add("a", 0);  // and what comes back starts anew
    EXPECT_THAT(positions.to_commit(), IsEmpty());
    EXPECT_EQ(positions.find("a", 0)->committed, std::nullopt);
    EXPECT_FALSE(positions.give("a", 1, 5));
    EXPECT_FALSE(positions.give("b", 0, 5));
}

TEST(Positions, ATopicThatWasCreatedAgainStartsAtItsBeginning) {
    Positions positions;
    positions.add("a", 0);
    EXPECT_TRUE(positions.give("a", 0, 100));
    positions.commit("a", 0, 101);
    EXPECT_TRUE(positions.give("a", 0, 0));
    EXPECT_THAT(positions.to_commit(), UnorderedElementsAre(Place{"a", 0, 1}));
}

TEST(Positions, WhatIsWithheldIsNotCommittedAndComesAgain) {
    Positions positions;
    positions.add("a", 0);
    positions.add("a", 1);
    EXPECT_TRUE(positions.give("a", 0, 3));
    positions.withhold("a", 0, 4);  // on its way when the partition was paused
    positions.withhold("a", 0, 5);
    positions.withhold("a", 1, 7);
    positions.withhold("b", 0, 1);
    EXPECT_THAT(positions.to_commit(), UnorderedElementsAre(Place{"a", 0, 4})) << "what was given, and no more";
    EXPECT_THAT(positions.to_give_again(), UnorderedElementsAre(Place{"a", 0, 3}, Place{"a", 1, 7}));
    positions.commit("a", 0, 4);
    EXPECT_THAT(positions.to_commit(), IsEmpty());
    EXPECT_THAT(positions.to_give_again(), UnorderedElementsAre(Place{"a", 0, 4}, Place{"a", 1, 7}));
    positions.forget_given("a", 0);
    positions.forget_given("a", 1);
    EXPECT_THAT(positions.to_give_again(), IsEmpty());
}

TEST(Positions, WhatIsGivenAgainIsNotCommittedBefore) {
    Positions positions;
    positions.add("a", 0);
    EXPECT_TRUE(positions.give("a", 0, 3));
    positions.forget_given("a", 0);
    EXPECT_THAT(positions.to_commit(), IsEmpty());
    EXPECT_TRUE(positions.give("a", 0, 3));
    EXPECT_THAT(positions.to_commit(), UnorderedElementsAre(Place{"a", 0, 4}));
}

}  // namespace
}  // namespace deliverd::deadletter
