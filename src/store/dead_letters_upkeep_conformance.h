// The guarantees of store/dead_letters.h about what is refused, deleted and forgotten, for every store. Included by one
// test file of each, which instantiates DeadLettersUpkeepConformance.
#pragma once

#include "store/dead_letters_conformance.h"

namespace deliverd::store::conformance {

class DeadLettersUpkeepConformance : public DeadLettersConformance {
protected:
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
    EXPECT_EQ(refused(bad).code, kLetterRefused);
    // What somebody's own rule for the table does not let in.
    store_->execute("create unique index one_of_a_kind on " + messages() + " (original_topic)");
    keep(2);
    EXPECT_EQ(refused(letter(3)).error_class, ErrorClass::permanent);
    EXPECT_EQ(refused(letter(3)).code, kLetterRefused);
}

TEST_P(DeadLettersUpkeepConformance, ATableThatIsMissingIsNoLettersFault) {
    store_->execute("alter table " + messages() + " rename to elsewhere");
    const Error error = refused(letter(1));
    EXPECT_EQ(error.error_class, ErrorClass::permanent);
    EXPECT_NE(error.code, kLetterRefused);
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

}  // namespace deliverd::store::conformance
