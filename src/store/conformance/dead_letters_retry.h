// The guarantees of store/dead_letters.h about retries and what is done by hand, for every store. Included by one test
// file of each, which instantiates DeadLettersRetryConformance.
#pragma once

#include "store/conformance/dead_letters.h"

namespace deliverd::store::conformance {

class DeadLettersRetryConformance : public DeadLettersConformance {};

// --- sending back ---------------------------------------------------------------------------------------------------

TEST_P(DeadLettersRetryConformance, ARetryThatWorksResolves) {
    const std::string id = keep(1);
    const RetryClaim claim = begin(id);
    EXPECT_EQ(claim.verdict, RetryVerdict::begun);
    EXPECT_EQ(claim.id, id);
    ASSERT_TRUE(claim.letter.has_value());
    EXPECT_EQ(claim.letter->letter.retry_count, 1);
    EXPECT_EQ(claim.letter->letter.status, LetterStatus::retrying);
    EXPECT_EQ(claim.letter->record.value, "{\"n\":1}");
    EXPECT_EQ(found(id).letter.status, LetterStatus::retrying);
    EXPECT_TRUE(found(id).letter.last_retry_at.has_value());
    EXPECT_EQ(end(id, RetryResult::published, "orders[0]@17"), 1);
    const Letter after = found(id).letter;
    EXPECT_EQ(after.status, LetterStatus::resolved);
    EXPECT_EQ(after.retry_count, 1);
    EXPECT_EQ(after.last_retry_error, std::nullopt);
    EXPECT_THAT(actions(id),
                ::testing::ElementsAre("retry_begun ann PENDING>RETRYING", "published ann RETRYING>RESOLVED"));
    EXPECT_EQ(must(letters_->audit(id, 100)).at(1).detail, "orders[0]@17");
    EXPECT_EQ(end(id, RetryResult::failed), 0);
    EXPECT_EQ(begin(id).verdict, RetryVerdict::finished);
    EXPECT_EQ(found(id).letter.status, LetterStatus::resolved);
}

TEST_P(DeadLettersRetryConformance, ALetterResolvedWithoutPublishingIsNotCalledPublished) {
    const std::string id = keep(1);
    begin(id);
    EXPECT_EQ(end(id, RetryResult::unpublished, "stand-alone"), 1);
    EXPECT_EQ(found(id).letter.status, LetterStatus::resolved);
    EXPECT_EQ(found(id).letter.last_retry_error, std::nullopt);
    EXPECT_THAT(actions(id), ::testing::ElementsAre("retry_begun ann PENDING>RETRYING",
                                                    "resolved_unpublished ann RETRYING>RESOLVED"));
}

TEST_P(DeadLettersRetryConformance, TheLastFailureIsDeath) {
    const std::string id = keep(1);
    for (int n = 1; n <= 3; ++n) {
        EXPECT_EQ(begin(id).verdict, RetryVerdict::begun);
        EXPECT_EQ(end(id, RetryResult::failed, "no broker " + std::to_string(n)), 1);
        const Letter letter = found(id).letter;
        EXPECT_EQ(letter.retry_count, n);
        EXPECT_EQ(letter.last_retry_error, "no broker " + std::to_string(n));
        EXPECT_EQ(letter.status, n < 3 ? LetterStatus::retrying : LetterStatus::dead);
    }
    EXPECT_EQ(begin(id).verdict, RetryVerdict::finished);
}

TEST_P(DeadLettersRetryConformance, DoubtIsKept) {
    const std::string id = keep(1);
    set(id, "max_retries = 1");
    begin(id);
    end(id, RetryResult::in_doubt, "no answer");
    Letter letter = found(id).letter;
    EXPECT_EQ(letter.status, LetterStatus::retrying);
    EXPECT_TRUE(letter.in_doubt);
    EXPECT_EQ(letter.last_retry_error, "no answer");
    EXPECT_EQ(begin(id).verdict, RetryVerdict::exhausted);
    set(id, "max_retries = 2");
    EXPECT_EQ(begin(id).verdict, RetryVerdict::begun);
    end(id, RetryResult::published);
    letter = found(id).letter;
    EXPECT_FALSE(letter.in_doubt);
    EXPECT_EQ(letter.last_retry_error, std::nullopt);
}

TEST_P(DeadLettersRetryConformance, WhatWasNotTriedDoesNotCount) {
    const std::string id = keep(1);
    begin(id);
    EXPECT_EQ(end(id, RetryResult::not_tried), 1);
    Letter letter = found(id).letter;
    EXPECT_EQ(letter.status, LetterStatus::pending);
    EXPECT_EQ(letter.retry_count, 0);
    EXPECT_EQ(letter.last_retry_at, std::nullopt);
    begin(id);
    end(id, RetryResult::failed, "no");
    begin(id);
    end(id, RetryResult::not_tried, "no broker");
    letter = found(id).letter;
    EXPECT_EQ(letter.status, LetterStatus::retrying);
    EXPECT_EQ(letter.retry_count, 1);
    EXPECT_EQ(letter.last_retry_error, "no");
    EXPECT_EQ(begin(id).verdict, RetryVerdict::begun);
}

TEST_P(DeadLettersRetryConformance, ARetryIsOneProcesssAtATime) {
    const std::string id = keep(1);
    begin(id, "first");
    const RetryClaim second = begin(id, "second");
    EXPECT_EQ(second.verdict, RetryVerdict::under_way);
    EXPECT_FALSE(second.reason.empty());
    EXPECT_EQ(second.letter->letter.retry_count, 1);
    EXPECT_EQ(end(id, RetryResult::published, "", "second"), 0);
    EXPECT_FALSE(found(id).letter.in_doubt) << "it is under way";
    expire(id);
    EXPECT_TRUE(found(id).letter.in_doubt) << "nobody knows how it ended";
    EXPECT_TRUE(must(letters_->list({})).letters.at(0).in_doubt);
    // Whose lease has run out may still say how it ended, as long as nobody else began.
    EXPECT_EQ(begin(id, "second").verdict, RetryVerdict::begun);
    EXPECT_TRUE(found(id).letter.in_doubt);
    EXPECT_THAT(must(letters_->audit(id, 100)).back().detail.value_or(""),
                ::testing::HasSubstr("may have been published"));
    EXPECT_EQ(end(id, RetryResult::failed, "", "first"), 0);
    EXPECT_EQ(end(id, RetryResult::published, "", "second"), 1);
    EXPECT_EQ(found(id).letter.status, LetterStatus::resolved);
}

TEST_P(DeadLettersRetryConformance, AnUnfinishedRetryIsResumedAndDoesNotCountAgain) {
    const std::string id = keep(1);
    set(id, "max_retries = 1");
    begin(id, "first");
    EXPECT_FALSE(found(id).letter.unfinished);
    EXPECT_EQ(begin(id, "second").verdict, RetryVerdict::under_way);
    expire(id);
    EXPECT_TRUE(found(id).letter.unfinished);
    EXPECT_TRUE(must(letters_->list({})).letters.at(0).unfinished);
    EXPECT_EQ(begin(id, "second").verdict, RetryVerdict::begun) << "though it has no other retry left";
    EXPECT_EQ(found(id).letter.retry_count, 1);
    EXPECT_FALSE(found(id).letter.unfinished);
    // Nothing was tried this time; the first one may have been published all the same.
    EXPECT_EQ(end(id, RetryResult::not_tried, "no broker", "second"), 1);
    EXPECT_EQ(found(id).letter.retry_count, 1);
    EXPECT_EQ(found(id).letter.status, LetterStatus::retrying);
    EXPECT_TRUE(found(id).letter.in_doubt);
    EXPECT_EQ(begin(id, "third").verdict, RetryVerdict::exhausted);
    EXPECT_EQ(must(letters_->mark_dead(id, "ann"))->status, LetterStatus::retrying);
    EXPECT_EQ(found(id).letter.status, LetterStatus::dead) << "a person has the last word";
}

TEST_P(DeadLettersRetryConformance, OfTwentyAtOnceOneBegins) {
    const std::string id = keep(1);
    constexpr int kThreads = 20;
    std::vector<std::thread> threads;
    std::array<RetryVerdict, kThreads> verdicts{};
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            const auto claims = letters_->begin_retry(std::span(&id, 1), by("owner " + std::to_string(t)));
            verdicts.at(static_cast<std::size_t>(t)) = claims ? claims->at(0).verdict : RetryVerdict::unknown;
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(std::ranges::count(verdicts, RetryVerdict::begun), 1);
    EXPECT_EQ(std::ranges::count(verdicts, RetryVerdict::under_way), kThreads - 1);
    EXPECT_EQ(found(id).letter.retry_count, 1);
}

TEST_P(DeadLettersRetryConformance, ABatchAnswersEachInItsPlace) {
    NewLetter cut = letter(2);
    cut.truncated = true;
    const std::string first = keep(1);
    const std::string truncated = keep(cut);
    const std::string circle = keep(letter(3, "orders.dlq.v1", "payments.dlq.v1"));
    const std::string last = keep(4);
    const std::vector<std::string> ids = {
        last, "nothing", truncated, first, circle, "00000000-0000-4000-8000-000000000000", last};
    const auto claims = must(letters_->begin_retry(ids, by("o")));
    std::vector<RetryVerdict> verdicts;
    for (std::size_t n = 0; n < claims.size(); ++n) {
        EXPECT_EQ(claims[n].id, ids[n]);
        verdicts.push_back(claims[n].verdict);
    }
    EXPECT_THAT(verdicts, ::testing::ElementsAre(RetryVerdict::begun, RetryVerdict::unknown, RetryVerdict::refused,
                                                 RetryVerdict::begun, RetryVerdict::begun, RetryVerdict::unknown,
                                                 RetryVerdict::under_way));
    EXPECT_FALSE(claims[2].reason.empty());
    EXPECT_EQ(found(truncated).letter.retry_count, 0);
    const std::vector<RetryEnd> ends = {{last, RetryResult::failed, "x"},
                                        {first, RetryResult::published, ""},
                                        {truncated, RetryResult::published, ""},
                                        {"nothing", RetryResult::failed, ""}};
    EXPECT_EQ(must(letters_->end_retry("o", "ann", ends)), 2);
    EXPECT_EQ(found(first).letter.status, LetterStatus::resolved);
    EXPECT_EQ(found(last).letter.status, LetterStatus::retrying);
    EXPECT_EQ(found(truncated).letter.status, LetterStatus::pending);
}

// --- by hand, and upkeep --------------------------------------------------------------------------------------------

TEST_P(DeadLettersRetryConformance, APersonMayGiveUp) {
    const std::string id = keep(1);
    EXPECT_EQ(must(letters_->mark_dead(id, "ann"))->status, LetterStatus::pending);
    EXPECT_EQ(found(id).letter.status, LetterStatus::dead);
    EXPECT_EQ(must(letters_->mark_dead(id, "ann"))->status, LetterStatus::dead);
    EXPECT_THAT(actions(id), ::testing::ElementsAre("dead ann PENDING>DEAD"));
    const std::string busy = keep(2);
    begin(busy);
    EXPECT_EQ(must(letters_->mark_dead(busy, "ann"))->status, LetterStatus::retrying);
    EXPECT_EQ(found(busy).letter.status, LetterStatus::retrying);
    end(busy, RetryResult::failed, "no");
    EXPECT_EQ(must(letters_->mark_dead(busy, "ann"))->status, LetterStatus::retrying);
    EXPECT_EQ(found(busy).letter.status, LetterStatus::dead);
}

TEST_P(DeadLettersRetryConformance, APersonMayReviveADeadLetter) {
    const std::string id = keep(1);
    EXPECT_EQ(must(letters_->revive(id, "ann"))->status, LetterStatus::pending);
    EXPECT_TRUE(actions(id).empty()) << "it is not dead";
    for (int n = 0; n < 3; ++n) {
        begin(id);
        end(id, RetryResult::failed, "no");
    }
    const auto before = must(letters_->revive(id, "ann"));
    EXPECT_EQ(before->status, LetterStatus::dead);
    EXPECT_EQ(before->retry_count, 3);
    EXPECT_EQ(found(id).letter.status, LetterStatus::pending);
    EXPECT_EQ(found(id).letter.retry_count, 0);
    EXPECT_EQ(actions(id).back(), "revived ann DEAD>PENDING");
    EXPECT_EQ(begin(id).verdict, RetryVerdict::begun);
    EXPECT_EQ(must(letters_->revive("00000000-0000-4000-8000-000000000000", "ann")), std::nullopt);
    EXPECT_EQ(must(letters_->revive("7", "ann")), std::nullopt);
}

TEST_P(DeadLettersRetryConformance, WhatIsDeletedLeavesItsTrail) {
    const std::string id = keep(1);
    EXPECT_EQ(must(letters_->remove(id, "ann")), Removal::removed);
    EXPECT_EQ(must(letters_->remove(id, "ann")), Removal::unknown);
    EXPECT_FALSE(must(letters_->find(id)).has_value());
    EXPECT_THAT(actions(id), ::testing::ElementsAre("deleted ann PENDING>-"));
    EXPECT_EQ(list({}).total, 0);
    // A topic that is read again from before it brings it back.
    const NewLetter again = letter(1);
    EXPECT_EQ(must(letters_->store(std::span(&again, 1))), 1);
}

TEST_P(DeadLettersRetryConformance, PurgesWhatIsOldOfAStatus) {
    const auto ids = keep_many(8);
    for (int n = 0; n < 6; ++n) {
        set(ids[static_cast<std::size_t>(n)], "status = 'RESOLVED'");
        set_age(ids[static_cast<std::size_t>(n)], 1000 - n);
    }
    set_age(ids[6], 1000);
    // Old, but changed a moment ago.
    set(ids[5], "updated_at = " + store_->time_expression(0));
    const auto age = std::chrono::seconds(500);
    EXPECT_EQ(must(letters_->purge(LetterStatus::resolved, age, 2, "upkeep")), 2);
    EXPECT_FALSE(must(letters_->find(ids[0])).has_value());
    EXPECT_EQ(must(letters_->purge(LetterStatus::resolved, age, 2, "upkeep")), 2);
    EXPECT_EQ(must(letters_->purge(LetterStatus::resolved, age, 2, "upkeep")), 1);
    EXPECT_EQ(must(letters_->purge(LetterStatus::resolved, age, 2, "upkeep")), 0);
    EXPECT_EQ(must(letters_->purge(LetterStatus::dead, age, 2, "upkeep")), 0);
    EXPECT_EQ(list({}).total, 3);
    EXPECT_EQ(must(letters_->topics()).at(0).resolved, 1);
    begin(ids[6]);
    set(ids[6], "updated_at = " + store_->time_expression(-1000));
    EXPECT_EQ(must(letters_->purge(LetterStatus::retrying, age, 2, "upkeep")), 0);
    expire(ids[6]);
    EXPECT_EQ(must(letters_->purge(LetterStatus::retrying, age, 2, "upkeep")), 1);
}

}  // namespace deliverd::store::conformance
