// The guarantees of store/dead_letters.h about redrives, for every store.
#pragma once

#include "store/conformance/dead_letters_lanes.h"

namespace deliverd::store::conformance {

class RedriveConformance : public LettersFixture {
protected:
    static constexpr const char* kTopic = "pay.dlq.v1";
    static constexpr std::int64_t kManyBytes = 1'000'000;

    static NewLetter new_letter(std::int64_t offset) {
        NewLetter letter;
        letter.record.topic = kTopic;
        letter.record.offset = offset;
        letter.record.value = "v" + std::to_string(offset);
        letter.provenance.original_topic = "pay";
        return letter;
    }
    /// Letters whose offsets are from .. to.
    void fill(std::int64_t from, std::int64_t to) {
        std::vector<NewLetter> letters;
        for (std::int64_t offset = from; offset <= to; ++offset) letters.push_back(new_letter(offset));
        ASSERT_EQ(must(letters_->store(letters)), to - from + 1);
    }
    std::string id_of(std::int64_t offset) {
        return store_->value("select id from " + GetParam().letters +
                             " where source_offset = " + std::to_string(offset));
    }
    std::optional<Redrive> open(const std::string& owner, const std::string& topic = kTopic) {
        return must(letters_->open_redrive(topic, owner, "ann", std::chrono::seconds(60)));
    }
    std::vector<RetryClaim> next(const std::string& owner, std::int32_t limit, const std::string& topic = kTopic) {
        auto claims = must(letters_->next_of_redrive(topic, request(owner), {limit, kManyBytes}));
        for (const RetryClaim& claim : claims) {
            EXPECT_EQ(claim.verdict, RetryVerdict::begun);
            EXPECT_EQ(claim.letter.value().letter.status, LetterStatus::retrying);
        }
        return claims;
    }
    static std::vector<std::int64_t> offsets(const std::vector<RetryClaim>& claims) {
        std::vector<std::int64_t> out;
        for (const RetryClaim& claim : claims) out.push_back(claim.letter.value().record.offset);
        return out;
    }
    /// The offsets that are left, page by page; each is published.
    std::vector<std::int64_t> rest(const std::string& owner, std::int32_t limit = 3) {
        std::vector<std::int64_t> all;
        for (;;) {
            const auto claims = next(owner, limit);
            if (claims.empty()) return all;
            const auto page = offsets(claims);
            all.insert(all.end(), page.begin(), page.end());
            EXPECT_EQ(end_page(owner, claims, RetryResult::published), static_cast<std::int64_t>(claims.size()));
        }
    }
    std::int64_t end_page(const std::string& owner, std::span<const RetryClaim> claims, RetryResult result) {
        std::vector<RetryEnd> ends;
        for (const RetryClaim& claim : claims) ends.push_back({claim.id, result, "why"});
        return must(letters_->end_of_redrive_page(kTopic, owner, "ann", ends));
    }
    /// As if the owner's lease of the redrive had run out; its letters' leases have not.
    void age_redrives() {
        store_->execute("update " + GetParam().redrives + " set expires_at = " + store_->time_expression(-1));
    }
    template <typename T>
    static void expect_not_owner(const Result<T>& answer) {
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.error().code, "not_owner");
        EXPECT_EQ(answer.error().error_class, ErrorClass::permanent);
    }
};

TEST_P(RedriveConformance, GoesThroughTheTopicOldestFirstUpToWhereItBegan) {
    fill(1, 4);
    fill(5, 7);
    const auto begun = open("o");
    ASSERT_TRUE(begun);
    EXPECT_EQ(begun->topic, kTopic);
    EXPECT_EQ(begun->actor, "ann");
    EXPECT_FALSE(begun->position);
    EXPECT_EQ(begun->up_to.id, id_of(7));
    EXPECT_FALSE(begun->finished);
    fill(8, 8);
    const auto first = next("o", 3);
    EXPECT_THAT(offsets(first), ::testing::ElementsAre(1, 2, 3));
    EXPECT_EQ(first[0].letter.value().record.value, "v1");
    EXPECT_EQ(first[0].letter.value().letter.retry_count, 1);
    EXPECT_THAT(offsets(next("o", 3)), ::testing::ElementsAre(4, 5, 6)) << "the page before need not have ended";
    EXPECT_EQ(end_page("o", first, RetryResult::published), 3);
    EXPECT_EQ(letter(id_of(2)).status, LetterStatus::resolved);
    EXPECT_THAT(rest("o"), ::testing::ElementsAre(7)) << "what came later is not its business";
    const Redrive closed = must(letters_->close_redrive(kTopic, "o"));
    EXPECT_TRUE(closed.finished);
    EXPECT_EQ(closed.published, 4);
    EXPECT_EQ(closed.failed + closed.in_doubt + closed.taken_over, 0);
    EXPECT_THAT(trail(id_of(1)), ::testing::ElementsAre("published RETRYING>RESOLVED"));
}

TEST_P(RedriveConformance, FindsLettersByTheirOriginalTopicToo) {
    fill(1, 2);
    NewLetter other = new_letter(3);
    other.record.topic = "other.dlq.v1";
    must(letters_->store(std::span(&other, 1)));
    ASSERT_TRUE(open("o", "pay"));
    EXPECT_THAT(offsets(next("o", 2, "pay")), ::testing::ElementsAre(1, 2));
    EXPECT_THAT(offsets(next("o", 2, "pay")), ::testing::ElementsAre(3));
    EXPECT_TRUE(next("o", 2, "pay").empty());
}

TEST_P(RedriveConformance, CountsHowItsLettersEnded) {
    fill(1, 5);
    open("o");
    const auto claims = next("o", 10);
    std::vector<RetryEnd> ends;
    for (const RetryResult result : {RetryResult::published, RetryResult::failed, RetryResult::failed,
                                     RetryResult::in_doubt, RetryResult::not_tried}) {
        ends.push_back({claims.at(ends.size()).id, result, "why"});
    }
    ends.push_back({"00000000-0000-4000-8000-000000000000", RetryResult::published, ""});
    EXPECT_EQ(must(letters_->end_of_redrive_page(kTopic, "o", "ann", ends)), 5);
    EXPECT_EQ(must(letters_->end_of_redrive_page(kTopic, "o", "ann", ends)), 0) << "they have ended";
    EXPECT_TRUE(letter(id_of(4)).in_doubt);
    EXPECT_EQ(letter(id_of(5)).status, LetterStatus::pending);
    EXPECT_EQ(letter(id_of(5)).retry_count, 0);
    const Redrive closed = must(letters_->close_redrive(kTopic, "o"));
    EXPECT_EQ(closed.published, 1);
    EXPECT_EQ(closed.failed, 2);
    EXPECT_EQ(closed.in_doubt, 1);
    open("p");
    EXPECT_THAT(rest("p"), ::testing::ElementsAre(2, 3, 4, 5));
    EXPECT_EQ(must(letters_->close_redrive(kTopic, "p")).taken_over, 1) << "the one in doubt may be there twice now";
}

TEST_P(RedriveConformance, BeginsAnewOnceItHasEnded) {
    fill(1, 2);
    open("o");
    end_page("o", next("o", 10), RetryResult::failed);
    must(letters_->close_redrive(kTopic, "o"));
    expect_not_owner(letters_->next_of_redrive(kTopic, request("o"), {10, kManyBytes}));
    expect_not_owner(letters_->close_redrive(kTopic, "o"));
    const auto again = open("p");
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->finished);
    EXPECT_FALSE(again->position);
    EXPECT_EQ(again->failed, 0);
    const auto claims = next("p", 10);
    EXPECT_THAT(offsets(claims), ::testing::ElementsAre(1, 2));
    EXPECT_EQ(claims[0].letter.value().letter.retry_count, 2);
}

TEST_P(RedriveConformance, IsOneOwnersAtATime) {
    fill(1, 3);
    open("o");
    EXPECT_FALSE(open("p"));
    EXPECT_TRUE(open("o")) << "its own";
    EXPECT_TRUE(open("p", "pay")) << "another name, another redrive";
    expect_not_owner(letters_->next_of_redrive(kTopic, request("p"), {10, kManyBytes}));
    expect_not_owner(letters_->close_redrive(kTopic, "p"));
    expect_not_owner(letters_->next_of_redrive("nobody's", request("o"), {10, kManyBytes}));
    EXPECT_TRUE(must(letters_->abandoned_redrives()).empty());
    EXPECT_EQ(next("o", 10).size(), 3U);
}

TEST_P(RedriveConformance, IsTakenOverWhereItsOwnerDied) {
    fill(1, 8);
    open("o");
    const auto page = next("o", 4);
    end_page("o", std::span(page).subspan(0, 1), RetryResult::published);
    end_page("o", std::span(page).subspan(1, 1), RetryResult::failed);
    EXPECT_FALSE(open("p")) << "its lease has not run out";
    age_redrives();
    const auto abandoned = must(letters_->abandoned_redrives());
    ASSERT_EQ(abandoned.size(), 1U);
    EXPECT_EQ(abandoned[0].topic, kTopic);

    const auto other = store_->open_again();
    letters_ = other->dead_letters();
    const auto taken = open("p");
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->published, 1);
    EXPECT_EQ(taken->failed, 1);
    EXPECT_TRUE(must(letters_->abandoned_redrives()).empty());
    expect_not_owner(letters_->next_of_redrive(kTopic, request("o"), {10, kManyBytes}));
    const auto left = rest("p");
    EXPECT_EQ(std::set<std::int64_t>(left.begin(), left.end()), (std::set<std::int64_t>{3, 4, 5, 6, 7, 8}));
    EXPECT_EQ(left.size(), 6U) << "what had ended is not tried again";
    EXPECT_EQ(end_page("o", page, RetryResult::failed), 0) << "the one before has none of them any more";
    EXPECT_EQ(letter(id_of(3)).retry_count, 1) << "the same retry";
    EXPECT_EQ(letter(id_of(3)).status, LetterStatus::resolved);
    const Redrive closed = must(letters_->close_redrive(kTopic, "p"));
    EXPECT_EQ(closed.published, 7);
    EXPECT_EQ(closed.failed, 1);
    EXPECT_EQ(closed.taken_over, 2);
}

TEST_P(RedriveConformance, WhatIsTakenOverMayBeAtItsLimit) {
    fill(1, 1);
    const std::string id = id_of(1);
    for (int n = 0; n < 2; ++n) {
        begin(id);
        end(id, RetryResult::failed);
    }
    open("o");
    const auto first = next("o", 10);
    ASSERT_EQ(first.size(), 1U);
    EXPECT_FALSE(first[0].taken_over);
    EXPECT_EQ(letter(id).retry_count, 3);
    age_redrives();
    ASSERT_TRUE(open("p"));
    const auto claims = next("p", 10);
    ASSERT_EQ(claims.size(), 1U);
    EXPECT_TRUE(claims[0].taken_over);
    EXPECT_TRUE(claims[0].letter.value().letter.in_doubt) << "it may have been published";
    EXPECT_EQ(claims[0].letter.value().letter.retry_count, 3);
    EXPECT_EQ(end_page("p", claims, RetryResult::published), 1);
    EXPECT_EQ(letter(id).status, LetterStatus::resolved);
}

/// A row with only the required columns: its payload is what is sent. That it was retried before is no reason against
/// it, though nobody wrote down when.
TEST_P(RedriveConformance, WhatHasNoValueKeepsItsPayload) {
    store_->execute("insert into " + GetParam().letters +
                    " (id, original_topic, payload, status, retry_count) values"
                    " ('01980000-0000-7000-8000-000000000001', 'pay', '{\"n\": 1}', 'RETRYING', 1)");
    open("o", "pay");
    const auto claims = next("o", 10, "pay");
    ASSERT_EQ(claims.size(), 1U);
    EXPECT_FALSE(claims[0].letter.value().record.value);
    EXPECT_EQ(claims[0].letter.value().letter.payload, "{\"n\": 1}");
}

TEST_P(RedriveConformance, APayloadThatIsSentCountsToTheBytes) {
    for (int n = 1; n <= 3; ++n) {
        store_->execute("insert into " + GetParam().letters +
                        " (id, original_topic, payload) values ('01980000-0000-7000-8000-00000000000" +
                        std::to_string(n) + "', 'pay', '\"" + std::string(1'000, 'x') + "\"')");
    }
    open("o", "pay");
    const auto page = must(letters_->next_of_redrive("pay", request("o"), {10, 1'900}));
    EXPECT_EQ(page.size(), 2U);
}

TEST_P(RedriveConformance, APageEndsWhereItsBytesDo) {
    std::vector<NewLetter> letters;
    for (std::int64_t offset = 1; offset <= 5; ++offset) {
        letters.push_back(new_letter(offset));
        letters.back().record.value = std::string(1'000, 'x');
    }
    must(letters_->store(letters));
    open("o");
    const auto page = [&](std::int64_t bytes) {
        return offsets(must(letters_->next_of_redrive(kTopic, request("o"), {10, bytes})));
    };
    EXPECT_THAT(page(1), ::testing::ElementsAre(1)) << "one in any case";
    EXPECT_THAT(page(1'900), ::testing::ElementsAre(2, 3)) << "behind the one that was left out before";
    EXPECT_THAT(page(kManyBytes), ::testing::ElementsAre(4, 5));
    EXPECT_THAT(page(kManyBytes), ::testing::IsEmpty());
}

TEST_P(RedriveConformance, LettersForTopicsThatAreLeftOutStayAsTheyAre) {
    std::vector<NewLetter> letters;
    const std::vector<std::string> origins = {"a", "b", "a", "c'\"", "b", "d"};
    for (std::size_t n = 0; n < origins.size(); ++n) {
        letters.push_back(new_letter(static_cast<std::int64_t>(n)));
        letters.back().provenance.original_topic = origins[n];
    }
    must(letters_->store(letters));
    store_->execute("update " + GetParam().letters + " set source = 'spool:b' where source_offset = 4");
    open("o");
    const std::vector<std::string> away = {"b", "c'\""};
    const RedrivePage page{.letters = 2, .bytes = kManyBytes, .left_out_topics = away};
    const auto next = [&] { return offsets(must(letters_->next_of_redrive(kTopic, request("o"), page))); };
    EXPECT_THAT(next(), ::testing::ElementsAre(0, 2));
    EXPECT_THAT(next(), ::testing::ElementsAre(4, 5)) << "what goes into a spool does not go to that topic";
    EXPECT_THAT(next(), ::testing::IsEmpty());
    for (const std::int64_t offset : {1, 3}) {
        const Letter letter = must(letters_->find(id_of(offset))).value().letter;
        EXPECT_EQ(letter.status, LetterStatus::pending);
        EXPECT_EQ(letter.retry_count, 0);
    }
}

TEST_P(RedriveConformance, OneThatIsGivenUpIsAnybodysAtOnce) {
    fill(1, 3);
    open("o");
    end_page("o", next("o", 1), RetryResult::published);
    must(letters_->release_redrive(kTopic, "another"));
    EXPECT_FALSE(open("p")) << "it was not theirs to give up";
    must(letters_->release_redrive(kTopic, "o"));
    EXPECT_EQ(must(letters_->abandoned_redrives()).size(), 1U);
    const auto taken = open("p");
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->published, 1);
    EXPECT_THAT(rest("p"), ::testing::ElementsAre(2, 3));
    must(letters_->close_redrive(kTopic, "p"));
    must(letters_->release_redrive(kTopic, "p"));
    EXPECT_TRUE(must(letters_->abandoned_redrives()).empty()) << "what has ended stays so";
}

TEST_P(RedriveConformance, OneThatIsTakenUpTriesWhatWasGivenBackHoweverFarItWas) {
    fill(1, 2);
    fill(3, 6);
    open("o");
    end_page("o", next("o", 2), RetryResult::published);
    const auto page = next("o", 3);
    const std::vector<RetryEnd> ends = {{page[0].id, RetryResult::failed, "no"},
                                        {page[1].id, RetryResult::published, ""},
                                        {page[2].id, RetryResult::not_tried, "away"}};
    EXPECT_EQ(must(letters_->end_of_redrive_page(kTopic, "o", "ann", ends)), 3);
    age_redrives();  // its process died: nobody said how far it was
    ASSERT_TRUE(open("p"));
    EXPECT_THAT(rest("p"), ::testing::ElementsAre(5, 6)) << "3 was tried, 4 is through";
    must(letters_->close_redrive(kTopic, "p"));
    fill(7, 7);
    ASSERT_TRUE(open("q"));
    const auto tried = next("q", 1);
    EXPECT_THAT(offsets(tried), ::testing::ElementsAre(3)) << "another redrive tries it once more";
    end_page("q", tried, RetryResult::not_tried);
    must(letters_->release_redrive(kTopic, "q"));
    ASSERT_TRUE(open("r"));
    EXPECT_THAT(offsets(next("r", 10)), ::testing::ElementsAre(3, 7));
}

TEST_P(RedriveConformance, OneThatGoesOnTriesWhatItDidNotTryThoughOthersDidBefore) {
    fill(1, 3);
    begin(id_of(1));
    end(id_of(1), RetryResult::failed);
    begin(id_of(2));
    end(id_of(2), RetryResult::in_doubt);
    store_->execute("update " + GetParam().letters + " set last_retry_at = " + store_->time_expression(-60) +
                    " where last_retry_at is not null");
    const auto before = letter(id_of(1)).last_retry_at;
    ASSERT_TRUE(before);
    open("o");
    for (const std::string owner : {"o", "p", "q"}) {
        const auto page = next(owner, 10);
        EXPECT_THAT(offsets(page), ::testing::ElementsAre(1, 2, 3)) << "nobody has tried them, " << owner;
        end_page(owner, page, RetryResult::not_tried);
        EXPECT_EQ(letter(id_of(1)).retry_count, 1);
        EXPECT_EQ(letter(id_of(1)).last_retry_at, before) << "as if it had not begun";
        EXPECT_EQ(letter(id_of(3)).last_retry_at, std::nullopt);
        must(letters_->release_redrive(kTopic, owner));
        ASSERT_TRUE(open(std::string(1, static_cast<char>(owner[0] + 1))));
    }
    EXPECT_THAT(rest("r"), ::testing::ElementsAre(1, 2, 3));
}

TEST_P(RedriveConformance, WhatIsTakenOverAndNotTriedIsTriedLater) {
    fill(1, 2);
    open("o");
    next("o", 10);
    age_redrives();
    ASSERT_TRUE(open("p"));
    const auto page = next("p", 10);
    ASSERT_EQ(page.size(), 2U);
    end_page("p", page, RetryResult::not_tried);
    EXPECT_EQ(letter(id_of(1)).retry_count, 1) << "the first of them may have been published";
    must(letters_->release_redrive(kTopic, "p"));
    ASSERT_TRUE(open("q"));
    EXPECT_THAT(rest("q"), ::testing::ElementsAre(1, 2));
}

TEST_P(RedriveConformance, LeavesOutWhatCannotBeRetried) {
    fill(1, 5);
    begin(id_of(1));
    end(id_of(1), RetryResult::published);
    must(letters_->mark_dead(id_of(2), "ann"));
    for (int n = 0; n < 3; ++n) {
        begin(id_of(3));
        end(id_of(3), RetryResult::in_doubt);
    }
    begin(id_of(4), "somebody");
    std::vector<NewLetter> odd(6, new_letter(0));
    for (std::size_t n = 0; n < odd.size(); ++n) {
        odd[n].record.offset = static_cast<std::int64_t>(10 + n);
        odd[n].truncated = true;
    }
    must(letters_->store(odd));
    fill(20, 20);
    open("o");
    EXPECT_THAT(rest("o", 2), ::testing::ElementsAre(5, 20)) << "pages of nothing do not end it";
    EXPECT_EQ(letter(id_of(10)).retry_count, 0);
    EXPECT_EQ(letter(id_of(4)).retry_count, 1);
}

TEST_P(RedriveConformance, OfNothingEndsAtOnce) {
    const auto begun = open("o", "empty");
    ASSERT_TRUE(begun);
    EXPECT_TRUE(next("o", 10, "empty").empty());
    EXPECT_TRUE(must(letters_->close_redrive("empty", "o")).finished);
}

TEST_P(RedriveConformance, OfALaneGivesItsRowsBack) {
    for (int n = 1; n <= 3; ++n) {
        add("a" + std::to_string(n));
        ASSERT_EQ(settle_foreign(*outbox_, n, SettleKind::dead), EventSettled::applied);
    }
    store_->execute("delete from outbox where id = 3");
    open("o", "events");
    std::vector<std::string> ids;
    for (const RetryClaim& claim : next("o", 10, "events")) ids.push_back(claim.id);
    ASSERT_EQ(ids.size(), 3U);
    const auto problems = must(letters_->return_to_lane("o", "ann", ids));
    EXPECT_EQ(std::ranges::count(problems, ""), 2);
    EXPECT_EQ(EventsFixture::ids(read()).size(), 2U);
    const Redrive closed = must(letters_->close_redrive("events", "o"));
    EXPECT_EQ(closed.published, 2);
    EXPECT_EQ(closed.failed, 1);
}

}  // namespace deliverd::store::conformance
