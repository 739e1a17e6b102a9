#include "lane/lease_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deliverd::lane {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Instant kStart{1h};
using Ids = std::vector<std::int64_t>;

TEST(LeaseBook, RenewsAtAThirdOfTheLease) {
    LeaseBook book(60s);
    book.add(2, kStart);
    book.add(1, kStart + 5s);
    EXPECT_THAT(book.due_for_renewal(kStart + 19s), IsEmpty());
    EXPECT_THAT(book.due_for_renewal(kStart + 20s), ElementsAre(2));
    EXPECT_THAT(book.due_for_renewal(kStart + 25s), ElementsAre(1, 2));
    EXPECT_EQ(book.next_renewal(kStart + 1s), kStart + 20s);
}

TEST(LeaseBook, WhatTheDatabaseDidNotRenewIsLost) {
    LeaseBook book(60s);
    book.add(1, kStart);
    book.add(2, kStart);
    book.renewed(Ids{2}, Ids{1}, kStart + 20s);
    EXPECT_EQ(book.look(1, kStart + 21s), Hold::lost);
    EXPECT_EQ(book.look(2, kStart + 21s), Hold::fresh);
    EXPECT_THAT(book.due_for_renewal(kStart + 40s), ElementsAre(2));
}

TEST(LeaseBook, WhatSomeoneHadLockedIsNeitherRenewedNorLost) {
    LeaseBook book(60s);
    book.add(1, kStart);
    book.renewed(Ids{}, Ids{}, kStart + 20s);
    EXPECT_EQ(book.look(1, kStart + 21s), Hold::fresh);
    EXPECT_THAT(book.due_for_renewal(kStart + 21s), ElementsAre(1));
}

TEST(LeaseBook, AnOldLeaseIsTooStaleToBeginASend) {
    LeaseBook book(60s);
    book.add(1, kStart);
    EXPECT_EQ(book.look(1, kStart + 39s), Hold::fresh);
    EXPECT_EQ(book.look(1, kStart + 40s), Hold::stale);
    book.renewed(Ids{1}, Ids{}, kStart + 50s);
    EXPECT_EQ(book.look(1, kStart + 51s), Hold::fresh);
}

TEST(LeaseBook, ClaimingARowAgainIsARenewalNotASecondRow) {
    LeaseBook book(60s);
    EXPECT_TRUE(book.add(1, kStart));
    book.renewed(Ids{}, Ids{1}, kStart + 20s);
    EXPECT_FALSE(book.add(1, kStart + 70s));
    EXPECT_EQ(book.look(1, kStart + 71s), Hold::fresh);
    EXPECT_EQ(book.size(), 1U);
}

TEST(LeaseBook, ARenewalThatBeganBeforeTheLastClaimDoesNotUndoIt) {
    LeaseBook book(60s);
    book.add(1, kStart + 10s);
    book.renewed(Ids{}, Ids{1}, kStart + 5s);
    EXPECT_EQ(book.look(1, kStart + 11s), Hold::fresh);
}

TEST(LeaseBook, AddsUpTheBytesOfWhatIsHeld) {
    LeaseBook book(60s);
    book.add(1, kStart, 100);
    book.add(2, kStart, 20);
    book.add(2, kStart + 1s, 20);
    EXPECT_EQ(book.bytes(), 120U);
    book.remove(Ids{1, 3});
    EXPECT_EQ(book.bytes(), 20U);
}

TEST(LeaseBook, SettledRowsAreForgotten) {
    LeaseBook book(60s);
    book.add(1, kStart);
    book.remove(Ids{1});
    EXPECT_EQ(book.size(), 0U);
    EXPECT_EQ(book.look(1, kStart), Hold::lost);
}

}  // namespace
}  // namespace deliverd::lane
