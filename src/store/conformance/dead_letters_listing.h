// The guarantees of store/dead_letters.h about listings, for every store. Included by one test file of each, which
// instantiates DeadLettersListingConformance.
#pragma once

#include <algorithm>

#include "store/conformance/dead_letters.h"

namespace deliverd::store::conformance {

class DeadLettersListingConformance : public DeadLettersConformance {
protected:
    static constexpr int kLetters = 48;

    /// Of all kinds, each with each.
    void keep_all_kinds() {
        const auto ids = keep_many(kLetters);
        const std::vector<std::string> statuses = {"PENDING", "RETRYING", "RESOLVED", "DEAD"};
        for (std::size_t n = 0; n < ids.size(); ++n) {
            std::string change = "status = '" + statuses[n % 4] + "'";
            if (n / 4 % 2 == 1) change += ", error_class = 'E1'";
            if (n / 8 % 3 == 1) change += ", original_topic = 'bills', source_topic = null, source = 'lane:bills'";
            if (n / 8 % 3 == 2) change += ", source_topic = original_topic, error_message = 'No Stock'";
            set(ids[n], change);
        }
    }

    static bool is_wanted(const Letter& letter, const LetterQuery& query) {
        const bool topic =
            !query.topic || letter.topic == query.topic || letter.provenance.original_topic == *query.topic;
        const bool text = !query.text || letter.provenance.error_message == "No Stock";
        const bool error_class = !query.error_class || letter.provenance.error_class == query.error_class;
        return topic && text && error_class && (!query.status || letter.status == *query.status) &&
               (!query.source || letter.source == *query.source) && (!query.from || letter.created_at >= *query.from) &&
               (!query.until || letter.created_at < *query.until);
    }

    static std::vector<std::string> ids_of(const std::vector<Letter>& letters) {
        std::vector<std::string> ids;
        for (const Letter& letter : letters) ids.push_back(letter.id);
        return ids;
    }

    /// By pages of 3 with a cursor, and by number.
    void expect_found(const LetterQuery& asked, const std::vector<Letter>& all) {
        std::vector<Letter> wanted;
        std::ranges::copy_if(all, std::back_inserter(wanted), [&](const Letter& it) { return is_wanted(it, asked); });
        LetterQuery query = asked;
        query.limit = 3;
        std::vector<Letter> found;
        for (bool more = true; more;) {
            LetterPage page = list(query);
            ASSERT_EQ(page.total, static_cast<std::int64_t>(wanted.size()));
            more = page.has_next;
            std::ranges::move(page.letters, std::back_inserter(found));
            ASSERT_LE(found.size(), all.size());
            if (more) query.after = LetterCursor{found.back().created_at, found.back().id};
        }
        ASSERT_EQ(ids_of(found), ids_of(wanted));
        query.after.reset();
        query.offset = 2;
        const std::size_t from = std::min<std::size_t>(2, wanted.size());
        const std::size_t count = std::min<std::size_t>(3, wanted.size() - from);
        ASSERT_EQ(ids_of(list(query).letters),
                  ids_of(std::vector<Letter>(wanted.begin() + static_cast<std::ptrdiff_t>(from),
                                             wanted.begin() + static_cast<std::ptrdiff_t>(from + count))));
    }

    std::string keep_payload(std::int64_t offset, std::size_t bytes) {
        NewLetter with = letter(offset);
        with.record.value = '"' + std::string(bytes - 2, 'x') + '"';
        with.payload = with.record.value;
        must(letters_->store(std::span(&with, 1)));
        return list({}).letters.at(0).id;
    }
};

TEST_P(DeadLettersListingConformance, EveryFilterWithEveryOther) {
    keep_all_kinds();
    const std::vector<Letter> all = list({.limit = kLetters}).letters;
    ASSERT_EQ(all.size(), static_cast<std::size_t>(kLetters));
    const auto none = std::nullopt;
    using Name = std::optional<std::string>;
    using Status = std::optional<LetterStatus>;
    using enum LetterStatus;
    int asked = 0;
    for (const Name& topic : {Name(), Name("orders"), Name("orders.dlq.v1"), Name("bills")}) {
        for (const Status& status : {Status(), Status(pending), Status(retrying), Status(resolved), Status(dead)}) {
            for (const Name& source : {Name(), Name("kafka"), Name("lane:bills")}) {
                for (const int rest : {0, 1, 2, 3, 4, 5, 6, 7}) {
                    const LetterQuery query{
                        .topic = topic,
                        .status = status,
                        .source = source,
                        .error_class = (rest & 1) != 0 ? Name("E1") : none,
                        .from = (rest & 2) != 0 ? std::optional(all[40].created_at) : none,
                        .until = (rest & 2) != 0 ? std::optional(all[10].created_at) : none,
                        .text = (rest & 4) != 0 ? Name("no stock") : none,
                    };
                    SCOPED_TRACE(++asked);
                    ASSERT_NO_FATAL_FAILURE(expect_found(query, all));
                }
            }
        }
    }
}

TEST_P(DeadLettersListingConformance, LongPayloadsAreLeftOutWhereTheyWouldBeTooMuch) {
    constexpr auto kLong = static_cast<std::size_t>(kMaxLongPayloadBytes / 2);
    constexpr auto kShort = static_cast<std::size_t>(kShortPayloadBytes);
    // Oldest first; of the three long ones the two newest are shown.
    for (std::int64_t n = 0; n < 3; ++n) {
        set_age(keep_payload(3 * n, kLong), 20 - static_cast<int>(3 * n));
        set_age(keep_payload(3 * n + 1, kShort), 19 - static_cast<int>(3 * n));
        NewLetter without = letter(3 * n + 2);
        without.payload.reset();
        set_age(keep(without), 18 - static_cast<int>(3 * n));
    }
    const LetterPage page = list({});
    ASSERT_EQ(page.letters.size(), 9U);
    for (const Letter& letter : page.letters) {
        SCOPED_TRACE(*letter.offset);
        const bool left_out = *letter.offset == 0;
        EXPECT_EQ(letter.payload_left_out, left_out);
        EXPECT_EQ(letter.payload.has_value(), *letter.offset % 3 != 2 && !left_out);
    }
    EXPECT_EQ(found(page.letters.back().id).letter.payload->size(), kLong) << "the letter itself has it";
    LetterQuery oldest;
    oldest.offset = 8;
    EXPECT_TRUE(list(oldest).letters.at(0).payload.has_value()) << "nothing of this page is before it";
}

TEST_P(DeadLettersListingConformance, DestinationsAreThoseOfTheTopicsOpenLetters) {
    const auto add = [&](const std::string& topic, std::int64_t offset, const std::string& origin) {
        NewLetter letter;
        letter.record.topic = topic;
        letter.record.offset = offset;
        letter.provenance.original_topic = origin;
        must(letters_->store(std::span(&letter, 1)));
    };
    for (int n = 1; n <= 3; ++n) add("a.dlq.v1", n, "a");
    add("a.dlq.v1", 4, "elsewhere");
    add("b.dlq.v1", 1, "a");
    const auto told = [&](const std::string& topic, std::int32_t limit) {
        std::vector<std::string> lines;
        for (const Destination& each : must(letters_->destinations(topic, limit))) {
            lines.push_back(each.source + " " + each.topic + " " + std::to_string(each.letters));
        }
        return lines;
    };
    EXPECT_THAT(told("a.dlq.v1", 10), ::testing::ElementsAre("kafka a 3", "kafka elsewhere 1"));
    EXPECT_THAT(told("a.dlq.v1", 1), ::testing::ElementsAre("kafka a 3"));
    EXPECT_THAT(told("a", 10), ::testing::ElementsAre("kafka a 4"));
    EXPECT_TRUE(told("nothing", 10).empty());
    LetterQuery query;
    query.topic = "elsewhere";
    must(letters_->mark_dead(must(letters_->list(query)).letters.at(0).id, "ann"));
    EXPECT_THAT(told("a.dlq.v1", 10), ::testing::ElementsAre("kafka a 3")) << "what is dead goes nowhere";
}

}  // namespace deliverd::store::conformance
