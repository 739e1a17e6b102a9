// The guarantees of store/dead_letters.h about what is refused, deleted and forgotten, for every store. Included by one
// test file of each, which instantiates DeadLettersUpkeepConformance.
#pragma once

#include "store/conformance/dead_letters.h"

namespace deliverd::store::conformance {

class DeadLettersUpkeepConformance : public DeadLettersConformance {
protected:
    static constexpr std::string_view kNothing = "nobody.dlq.v1";
    void retry_all(const std::string& topic) {
        ASSERT_TRUE(must(letters_->open_redrive(topic, "o", "ann", kLease)).has_value());
        must(letters_->close_redrive(topic, "o"));
    }
    std::string redrives() const { return GetParam().redrives; }
    std::string count_of(const std::string& table) { return store_->value("select count(*) from " + table); }
    Error refused(const NewLetter& letter) {
        const auto stored = letters_->store(std::span(&letter, 1));
        EXPECT_FALSE(stored.has_value());
        return stored ? Error{} : stored.error();
    }
};

// --- whose fault it is ----------------------------------------------------------------------------------------------

TEST_P(DeadLettersUpkeepConformance, ALetterThatCannotBeHeldIsRefusedByName) {
    NewLetter bad = letter(1);
    bad.provenance.error_message = std::string("a\0b", 3);
    EXPECT_EQ(refused(bad).error_class, ErrorClass::permanent);
    EXPECT_EQ(refused(bad).code, codes::kLetterRefused);
    // What somebody's own rule for the table does not let in.
    store_->execute("create unique index one_of_a_kind on " + messages() + " (original_topic)");
    keep(2);
    EXPECT_EQ(refused(letter(3)).error_class, ErrorClass::permanent);
    EXPECT_EQ(refused(letter(3)).code, codes::kLetterRefused);
}

TEST_P(DeadLettersUpkeepConformance, AMissingTableIsNotTheLettersFault) {
    store_->execute("alter table " + messages() + " rename to elsewhere");
    const Error error = refused(letter(1));
    EXPECT_EQ(error.error_class, ErrorClass::permanent);
    EXPECT_NE(error.code, codes::kLetterRefused);
}

// --- going on with what did not end ---------------------------------------------------------------------------------

TEST_P(DeadLettersUpkeepConformance, AClaimSaysThatItResumesAnUnfinishedRetry) {
    const std::string id = keep(1);
    EXPECT_FALSE(begin(id, "a").taken_over);
    EXPECT_FALSE(begin(id, "b").taken_over) << "it is not begun";
    expire(id);
    const RetryClaim claim = begin(id, "b");
    EXPECT_EQ(claim.verdict, RetryVerdict::begun);
    EXPECT_TRUE(claim.taken_over);
    EXPECT_EQ(claim.letter.value().letter.retry_count, 1);
    end(id, RetryResult::failed, "no", "b");
    EXPECT_FALSE(begin(id, "c").taken_over) << "that one has ended";
}

// --- deleting -------------------------------------------------------------------------------------------------------

TEST_P(DeadLettersUpkeepConformance, WhatIsBeingRetriedIsNotDeleted) {
    const std::string id = keep(1);
    begin(id);
    EXPECT_EQ(must(letters_->remove(id, "ann")), Removal::under_way);
    EXPECT_EQ(found(id).letter.status, LetterStatus::retrying);
    EXPECT_EQ(end(id, RetryResult::failed, "no"), 1);
    EXPECT_EQ(must(letters_->remove(id, "ann")), Removal::removed);
    EXPECT_EQ(actions(id).back(), "deleted ann RETRYING>-");
    const std::string left = keep(2);
    begin(left);
    expire(left);
    EXPECT_EQ(must(letters_->remove(left, "ann")), Removal::removed) << "nobody is at it any more";
}

// --- retention ------------------------------------------------------------------------------------------------------

TEST_P(DeadLettersUpkeepConformance, WhatIsPurgedHasALineInTheAudit) {
    const auto ids = keep_many(3);
    for (const std::string& id : ids) {
        set(id, "status = 'DEAD'");
        set_age(id, 1000);
    }
    EXPECT_EQ(must(letters_->purge(LetterStatus::dead, std::chrono::seconds(500), 2, "ada")), 2);
    int purged = 0;
    for (const std::string& id : ids) {
        if (must(letters_->find(id)).has_value()) continue;
        EXPECT_THAT(actions(id), ::testing::ElementsAre("purged ada DEAD>-"));
        ++purged;
    }
    EXPECT_EQ(purged, 2);
}

TEST_P(DeadLettersUpkeepConformance, APurgeByAnotherAgeBeginsWithTheOldestAgain) {
    const auto ids = keep_many(3);
    for (int n = 0; n < 3; ++n) {
        set(ids[static_cast<std::size_t>(n)], "status = 'DEAD'");
        set_age(ids[static_cast<std::size_t>(n)], 1000 - n);
    }
    set(ids[0], "updated_at = " + store_->time_expression(-450));
    EXPECT_EQ(must(letters_->purge(LetterStatus::dead, std::chrono::seconds(500), 1, "ada")), 1);
    EXPECT_EQ(must(letters_->purge(LetterStatus::dead, std::chrono::seconds(400), 10, "ada")), 2);
}

TEST_P(DeadLettersUpkeepConformance, HistoryIsKeptForItsTimeAndNoLonger) {
    for (int n = 1; n <= 5; ++n) must(letters_->remove(keep(n), "ann"));
    keep(6);
    retry_all("orders.dlq.v1");
    const std::string audit = GetParam().audit;
    ASSERT_EQ(count_of(audit), "5");
    const auto age = std::chrono::seconds(500);
    EXPECT_EQ(must(letters_->purge_history(age, 100)), 0);
    const std::string old = store_->time_expression(-1000);
    store_->execute("update " + audit + " set at = " + old + " where id in (select id from " + audit +
                    " order by id limit 3)");
    EXPECT_EQ(must(letters_->purge_history(age, 2)), 2);
    EXPECT_EQ(must(letters_->purge_history(age, 2)), 1);
    EXPECT_EQ(count_of(audit), "2");
    EXPECT_EQ(count_of(redrives()), "1");
    store_->execute("update " + redrives() + " set updated_at = " + old);
    EXPECT_EQ(must(letters_->purge_history(age, 2)), 1);
    EXPECT_EQ(count_of(redrives()), "0");
}

TEST_P(DeadLettersUpkeepConformance, ARedriveOfNothingIsNotKept) {
    retry_all(std::string(kNothing));
    keep(1);
    retry_all("orders.dlq.v1");
    must(letters_->open_redrive("under way", "o", "ann", kLease));
    EXPECT_EQ(must(letters_->purge_history(std::chrono::hours(1), 100)), 1);
    EXPECT_EQ(store_->value("select count(*) from " + redrives() + " where topic = '" + std::string(kNothing) + "'"),
              "0");
    EXPECT_EQ(count_of(redrives()), "2") << "one that is under way, and one that sent something";
}

}  // namespace deliverd::store::conformance
