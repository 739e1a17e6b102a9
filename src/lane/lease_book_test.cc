#include "lane/lease_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deliverd::lane {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Instant kBookStart{1h};
using Ids = std::vector<std::int64_t>;

store::Claimed row_of(std::int64_t id, std::int32_t failures = 0, std::size_t bytes = 0) {
    store::Claimed row;
    row.message.id = id;
    row.message.failures = failures;
    row.message.body = std::string(bytes, 'x');
    return row;
}

bool add(LeaseBook& book, store::Claimed row, Instant since) {
    return book.add(row, since);
}

TEST(LeaseBook, RenewsAtAThirdOfTheLease) {
    LeaseBook book(60s);
    add(book, row_of(2), kBookStart);
    add(book, row_of(1), kBookStart + 5s);
    EXPECT_THAT(book.due_for_renewal(kBookStart + 19s), IsEmpty());
    EXPECT_THAT(book.due_for_renewal(kBookStart + 20s), ElementsAre(2));
    EXPECT_THAT(book.due_for_renewal(kBookStart + 25s), ElementsAre(1, 2));
    EXPECT_EQ(book.next_renewal(kBookStart + 1s), kBookStart + 20s);
}

TEST(LeaseBook, NamesRowsToRenewInOrderOfTheirIds) {
    LeaseBook book(60s);
    for (const std::int64_t id : {7, 1, 100, 3, 50, 2}) add(book, row_of(id), kBookStart);
    EXPECT_THAT(book.due_for_renewal(kBookStart + 20s), ElementsAre(1, 2, 3, 7, 50, 100));
}

TEST(LeaseBook, AnEmptyBookRenewsAThirdOfALeaseLater) {
    const LeaseBook book(60s);
    EXPECT_EQ(book.next_renewal(kBookStart), kBookStart + 20s);
}

TEST(LeaseBook, WhatItDoesNotHoldHasNoCopyAndNoEnd) {
    LeaseBook book(60s);
    EXPECT_FALSE(book.take_newer(1));
    EXPECT_FALSE(book.end(1, std::nullopt, kBookStart));
    EXPECT_THAT(book.take_claimed_again(10), IsEmpty());
}

TEST(LeaseBook, WhatTheDatabaseDidNotRenewIsLost) {
    LeaseBook book(60s);
    add(book, row_of(1), kBookStart);
    add(book, row_of(2), kBookStart);
    book.renewed(Ids{2}, Ids{1}, kBookStart + 20s);
    EXPECT_EQ(book.look(1, kBookStart + 21s), Hold::lost);
    EXPECT_EQ(book.look(2, kBookStart + 21s), Hold::fresh);
    EXPECT_THAT(book.due_for_renewal(kBookStart + 40s), ElementsAre(2));
}

TEST(LeaseBook, ARowThatSomeoneHasLockedIsNeitherRenewedNorLost) {
    LeaseBook book(60s);
    add(book, row_of(1), kBookStart);
    book.renewed(Ids{}, Ids{}, kBookStart + 20s);
    EXPECT_EQ(book.look(1, kBookStart + 21s), Hold::fresh);
    EXPECT_THAT(book.due_for_renewal(kBookStart + 21s), ElementsAre(1));
}

TEST(LeaseBook, NoSendBeginsOnAnOldLease) {
    LeaseBook book(60s);
    add(book, row_of(1), kBookStart);
    EXPECT_EQ(book.look(1, kBookStart + 39s), Hold::fresh);
    EXPECT_EQ(book.look(1, kBookStart + 40s), Hold::stale);
    book.renewed(Ids{1}, Ids{}, kBookStart + 50s);
    EXPECT_EQ(book.look(1, kBookStart + 51s), Hold::fresh);
}

TEST(LeaseBook, ClaimingARowAgainIsARenewalNotASecondRow) {
    LeaseBook book(60s);
    EXPECT_TRUE(add(book, row_of(1), kBookStart));
    book.renewed(Ids{}, Ids{1}, kBookStart + 20s);
    EXPECT_FALSE(add(book, row_of(1), kBookStart + 70s));
    EXPECT_EQ(book.look(1, kBookStart + 71s), Hold::fresh);
    EXPECT_EQ(book.size(), 1U);
}

TEST(LeaseBook, ARenewalThatBeganBeforeTheLastClaimDoesNotUndoIt) {
    LeaseBook book(60s);
    add(book, row_of(1), kBookStart + 10s);
    book.renewed(Ids{}, Ids{1}, kBookStart + 5s);
    EXPECT_EQ(book.look(1, kBookStart + 11s), Hold::fresh);
}

TEST(LeaseBook, AddsUpTheBytesOfWhatIsHeld) {
    LeaseBook book(60s);
    add(book, row_of(1, 0, 100), kBookStart);
    add(book, row_of(2, 0, 20), kBookStart);
    add(book, row_of(2, 0, 20), kBookStart + 1s);
    EXPECT_EQ(book.bytes(), 140U);  // both copies
    add(book, row_of(2, 0, 30), kBookStart + 2s);
    EXPECT_EQ(book.bytes(), 150U);
    book.remove(Ids{1, 3});
    EXPECT_EQ(book.bytes(), 50U);
    book.end(2, std::nullopt, kBookStart + 3s);
    EXPECT_EQ(book.bytes(), 30U);
    add(book, row_of(2, 0, 7), kBookStart + 4s);
    EXPECT_TRUE(book.take_newer(2));
    EXPECT_EQ(book.bytes(), 7U);
    book.end(2, std::nullopt, kBookStart + 5s);
    EXPECT_EQ(book.bytes(), 0U);
    add(book, row_of(4, 0, 3), kBookStart);
    add(book, row_of(4, 0, 5), kBookStart);
    book.remove(Ids{4});
    EXPECT_EQ(book.bytes(), 0U);  // both copies
}

TEST(LeaseBook, ANewerCopyIsHandedOutWhenTheOlderOneHasEnded) {
    LeaseBook book(60s);
    add(book, row_of(1, 0), kBookStart);
    EXPECT_FALSE(add(book, row_of(1, 1), kBookStart + 5s));
    EXPECT_THAT(book.take_claimed_again(10), IsEmpty());
    EXPECT_TRUE(book.end(1, 0, kBookStart + 6s));
    EXPECT_EQ(book.size(), 1U);
    const std::vector<store::Claimed> again = book.take_claimed_again(10);
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].message.failures, 1);
    EXPECT_THAT(book.take_claimed_again(10), IsEmpty());
    EXPECT_FALSE(book.end(1, std::nullopt, kBookStart + 7s));
    EXPECT_EQ(book.size(), 0U);
}

TEST(LeaseBook, ANewerCopyIsSentOnlyAfterARenewalThatBeganAfterTheOlderOneEnded) {
    LeaseBook book(60s);
    add(book, row_of(1, 0), kBookStart);
    add(book, row_of(1, 0), kBookStart + 5s);
    book.end(1, std::nullopt, kBookStart + 10s);
    EXPECT_EQ(book.look(1, kBookStart + 10s), Hold::stale);
    EXPECT_THAT(book.due_for_renewal(kBookStart + 10s), ElementsAre(1));
    EXPECT_EQ(book.next_renewal(kBookStart + 10s), kBookStart + 10s);
    book.renewed(Ids{1}, Ids{}, kBookStart + 9s);
    EXPECT_EQ(book.look(1, kBookStart + 10s), Hold::stale);
    book.renewed(Ids{1}, Ids{}, kBookStart + 11s);
    EXPECT_EQ(book.look(1, kBookStart + 11s), Hold::fresh);
    EXPECT_THAT(book.due_for_renewal(kBookStart + 12s), IsEmpty());
}

TEST(LeaseBook, ASettlementThatTookEffectEndsTheClaimsAtItsCount) {
    LeaseBook book(60s);
    add(book, row_of(1, 2), kBookStart);
    add(book, row_of(1, 2), kBookStart + 5s);  // the lease had run out
    EXPECT_FALSE(book.end(1, 2, kBookStart + 6s));
    EXPECT_EQ(book.size(), 0U);
    EXPECT_THAT(book.take_claimed_again(10), IsEmpty());
}

TEST(LeaseBook, TheNewestCopyReplacesOneThatWaits) {
    LeaseBook book(60s);
    add(book, row_of(1, 0), kBookStart);
    EXPECT_FALSE(book.take_newer(1));
    add(book, row_of(1, 1), kBookStart + 5s);
    add(book, row_of(1, 2), kBookStart + 6s);
    const std::optional<store::Claimed> newer = book.take_newer(1);
    ASSERT_TRUE(newer);
    EXPECT_EQ(newer->message.failures, 2);
    EXPECT_FALSE(book.end(1, std::nullopt, kBookStart + 7s));
}

TEST(LeaseBook, HandsOutAtMostWhatWasAskedFor) {
    LeaseBook book(60s);
    for (const std::int64_t id : {3, 1, 2}) {
        add(book, row_of(id, 0), kBookStart);
        add(book, row_of(id, 1), kBookStart);
        book.end(id, 0, kBookStart);
    }
    EXPECT_EQ(book.take_claimed_again(2).at(1).message.id, 1);
    EXPECT_EQ(book.take_claimed_again(2).size(), 1U);
}

TEST(LeaseBook, SettledRowsAreForgotten) {
    LeaseBook book(60s);
    add(book, row_of(1), kBookStart);
    book.remove(Ids{1});
    EXPECT_EQ(book.size(), 0U);
    EXPECT_EQ(book.look(1, kBookStart), Hold::lost);
}

}  // namespace
}  // namespace deliverd::lane
