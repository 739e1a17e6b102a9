// What is special about dead letters on SQLite, beside the suites for every store: counts by triggers, plans, bytes in
// typed columns. Rows that were dead before there were letters are in dead_letters_migration_test.cc.
#include "store/sqlite/letters/dead_letters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "base/text.h"
#include "base/uuid.h"
#include "client/sqlite_statement.h"
#include "store/letter_rules.h"
#include "store/record_headers.h"
#include "store/sqlite/testing/test_store.h"

namespace deliverd::store::sqlite {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

NewLetter new_letter(std::int64_t offset, const std::string& topic = "pay.dlq.v1") {
    NewLetter letter;
    letter.record.topic = topic;
    letter.record.offset = offset;
    letter.record.value = "v";
    letter.provenance.original_topic = "pay";
    return letter;
}

class SqliteDeadLettersTest : public ::testing::Test {
protected:
    void keep(const NewLetter& letter) { ASSERT_EQ(must(letters_->store(std::span(&letter, 1))), 1); }
    std::string id_of(std::int64_t offset) {
        return store_.value("select id from dlq_messages where source_offset = " + std::to_string(offset));
    }
    RetryVerdict begin(const std::string& id) {
        return must(letters_->begin_retry(std::span(&id, 1), {"o", "ann", std::chrono::seconds(60)})).at(0).verdict;
    }
    void end(const std::string& id, RetryResult result) {
        const RetryEnd end{id, result, "why"};
        ASSERT_EQ(must(letters_->end_retry("o", "ann", std::span(&end, 1))), 1);
    }
    std::int64_t total(const LetterQuery& query) { return must(letters_->list(query)).total; }
    /// Counts that are not what counting the letters gives.
    std::string wrong_counts() {
        return store_.value(
            "with real as (select coalesce(source_topic, original_topic) as topic, original_topic, source, status,"
            " count(*) as letters from dlq_messages group by 1, 2, 3, 4) select group_concat(topic || status) from ("
            "select * from (select * from real except select * from dlq_counts) union all"
            " select * from (select * from dlq_counts except select * from real))");
    }

    SqliteTestStore store_{true};
    std::unique_ptr<DeadLetters> letters_ = store_.database().dead_letters();
};

/// Times have milliseconds here, and a program is faster than that: of fifty rounds many fall into one.
TEST_F(SqliteDeadLettersTest, ARedriveTriesWhatWasTriedInTheMillisecondItBeginsAndNothingTwice) {
    for (std::int64_t round = 1; round <= 50; ++round) {
        const std::string topic = "t" + std::to_string(round);
        keep(new_letter(round, topic));
        const std::string id = id_of(round);
        ASSERT_EQ(begin(id), RetryVerdict::begun);
        end(id, RetryResult::failed);
        store_.execute("update dlq_messages set last_retry_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')");
        ASSERT_TRUE(must(letters_->open_redrive(topic, "o", "ann", std::chrono::seconds(60))));
        const auto next = [&](const std::string& owner) {
            const RetryRequest request{owner, "ann", std::chrono::seconds(60)};
            return must(letters_->next_of_redrive(topic, request, {10, 1000})).size();
        };
        ASSERT_EQ(next("o"), 1U) << "round " << round;
        const RetryEnd failed{id, RetryResult::failed, "why"};
        ASSERT_EQ(must(letters_->end_of_redrive_page(topic, "o", "ann", std::span(&failed, 1))), 1);
        ASSERT_TRUE(letters_->release_redrive(topic, "o"));
        ASSERT_TRUE(must(letters_->open_redrive(topic, "p", "ann", std::chrono::seconds(60))));
        ASSERT_EQ(next("p"), 0U) << "round " << round;
    }
}

TEST_F(SqliteDeadLettersTest, KeepsBytesAsTheyWere) {
    NewLetter letter = new_letter(1);
    letter.record.partition = 7;
    letter.record.key = std::string("k\0\xff", 3);
    letter.record.value = std::string("\0\x80{", 3);
    letter.record.headers = {{"a", "1"}, {"a", std::nullopt}, {"a", ""}, {"\xff", "x"}, {"", std::string("\0", 1)}};
    letter.record.timestamp_ms = 1'700'000'000'123;
    letter.record.timestamp_type = RecordTime::appended;
    keep(letter);
    const auto found = must(letters_->find(id_of(1))).value();
    EXPECT_EQ(found.record.key, letter.record.key);
    EXPECT_EQ(found.record.value, letter.record.value);
    EXPECT_EQ(found.record.headers, letter.record.headers);
    EXPECT_EQ(found.record.timestamp_ms, letter.record.timestamp_ms);
    EXPECT_EQ(found.record.timestamp_type, RecordTime::appended);
    EXPECT_EQ(found.record.partition, 7);
    EXPECT_EQ(found.letter.value_bytes, 3);
    EXPECT_FALSE(found.letter.payload);
}

TEST_F(SqliteDeadLettersTest, NullIsNotEmpty) {
    NewLetter null = new_letter(1);
    null.record.value.reset();
    keep(null);
    NewLetter empty = new_letter(2);
    empty.record.key = "";
    empty.record.value = "";
    keep(empty);
    EXPECT_EQ(must(letters_->find(id_of(1)))->record.key, std::nullopt);
    EXPECT_EQ(must(letters_->find(id_of(1)))->record.value, std::nullopt);
    EXPECT_EQ(must(letters_->find(id_of(2)))->record.key, "");
    EXPECT_EQ(must(letters_->find(id_of(2)))->record.value, "");
    LetterQuery query;
    query.key = "";
    EXPECT_EQ(total(query), 1);
}

TEST_F(SqliteDeadLettersTest, ARecordIsStoredOnce) {
    const std::vector<NewLetter> twice = {new_letter(1), new_letter(1), new_letter(2)};
    EXPECT_EQ(must(letters_->store(twice)), 2);
    EXPECT_EQ(must(letters_->store(twice)), 0);
    NewLetter anew = new_letter(1);
    anew.record.timestamp_ms = 5;
    EXPECT_EQ(must(letters_->store(std::span(&anew, 1))), 1) << "the topic was made anew";
    EXPECT_EQ(wrong_counts(), "");
}

TEST_F(SqliteDeadLettersTest, WhatCannotBeHeldRefusesAll) {
    std::vector<NewLetter> letters = {new_letter(1), new_letter(2)};
    letters[1].provenance.error_message = "\xff";
    conformance::expect_refused(letters_->store(letters), "error_message", codes::kLetterRefused);
    letters[1] = new_letter(2);
    letters[1].payload = "{";
    conformance::expect_refused(letters_->store(letters), "payload", codes::kLetterRefused);
    EXPECT_EQ(total({}), 0);
}

TEST_F(SqliteDeadLettersTest, ARowWithOnlyTheTopicIsALetter) {
    store_.execute("insert into dlq_messages (original_topic, payload) values ('orders', '{\"a\": 1}')");
    const auto page = must(letters_->list({.topic = "orders"}));
    ASSERT_EQ(page.letters.size(), 1U);
    const Letter& letter = page.letters[0];
    EXPECT_EQ(canonical_uuid(letter.id), letter.id);
    EXPECT_EQ(letter.id.at(14), '7');
    EXPECT_EQ(letter.source, "kafka");
    EXPECT_EQ(letter.provenance.error_message, "unknown error");
    EXPECT_EQ(letter.status, LetterStatus::pending);
    EXPECT_EQ(letter.payload, "{\"a\": 1}");
    EXPECT_EQ(letter.max_retries, 3);
    EXPECT_FALSE(letter.topic);
    EXPECT_EQ(begin(letter.id), RetryVerdict::begun);
}

TEST_F(SqliteDeadLettersTest, CountsAreExactAfterEveryChange) {
    for (int n = 1; n <= 8; ++n) keep(new_letter(n, n % 2 == 0 ? "a.dlq.v1" : "b.dlq.v1"));
    EXPECT_EQ(wrong_counts(), "");
    const auto each = [&](const std::function<void()>& change) {
        change();
        EXPECT_EQ(wrong_counts(), "");
    };
    each([&] { begin(id_of(1)); });
    each([&] { end(id_of(1), RetryResult::published); });
    each([&] { begin(id_of(2)); });
    each([&] { end(id_of(2), RetryResult::not_tried); });
    each([&] { must(letters_->mark_dead(id_of(3), "ann")); });
    each([&] { must(letters_->remove(id_of(4), "ann")); });
    each([&] { must(letters_->purge(LetterStatus::dead, Duration::zero(), 10, "upkeep")); });
    each([&] { store_.execute("update dlq_messages set source_topic = null where source_offset = 5"); });
    each([&] { store_.execute("update dlq_messages set original_topic = 'x', source = 'spool:s'"); });
    each([&] { store_.execute("delete from dlq_messages"); });
    EXPECT_EQ(store_.value("select count(*) from dlq_counts"), "0");
}

TEST_F(SqliteDeadLettersTest, TellsTheTopicsWithTheirNewest) {
    keep(new_letter(1, "b.dlq.v1"));
    keep(new_letter(2, "a.dlq.v1"));
    store_.execute(
        "insert into dlq_messages (original_topic, source, created_at, status) values"
        " ('pay', 'lane:pay', '2026-01-01T00:00:00.000Z', 'DEAD'), ('pay', 'lane:pay', '2025-01-01T00:00:00.000Z',"
        " 'PENDING')");
    const auto topics = must(letters_->topics());
    ASSERT_EQ(topics.size(), 3U);
    EXPECT_EQ(topics[0].topic, "a.dlq.v1");
    EXPECT_EQ(topics[1].topic, "b.dlq.v1");
    EXPECT_EQ(topics[2].topic, "pay");
    EXPECT_EQ(topics[2].source, "lane:pay");
    EXPECT_EQ(topics[2].dead, 1);
    EXPECT_EQ(topics[2].pending, 1);
    EXPECT_EQ(rfc3339_millis(topics[2].newest_at), "2026-01-01T00:00:00.000Z");
    EXPECT_EQ(rfc3339_millis(topics[0].newest_at), store_.value("select created_at from dlq_messages"
                                                                " where source_offset = 2"));
}

TEST_F(SqliteDeadLettersTest, FindsTextWhateverTheCase) {
    NewLetter letter = new_letter(1);
    letter.provenance.error_message = "Connection REFUSED 100%_";
    keep(letter);
    letter = new_letter(2);
    letter.payload = R"({"Customer": "O'Neil <b>"})";
    keep(letter);
    for (const auto& [text, found] : std::map<std::string, int>{
             {"refused", 1}, {"CUSTOMER", 1}, {"100%_", 1}, {"1%_", 0}, {"o'neil <B>", 1}, {"unknown", 1}, {"", 2}}) {
        EXPECT_EQ(total({.text = text}), found) << text;
    }
}

TEST_F(SqliteDeadLettersTest, ALetterWithoutUtf8InItsPayloadShowsNone) {
    store_.execute(
        "insert into outbox_memory (target_space, payload_md, payload_sha) values ('s', cast(x'61ff' as text), 'x')");
    must(store_.database().memory_outbox("notes")->claim({"w", 10, std::chrono::seconds(60), std::nullopt}));
    const auto page = must(letters_->list({.topic = "notes"}));
    ASSERT_EQ(page.letters.size(), 1U) << "a claim gave it up";
    EXPECT_FALSE(page.letters[0].payload);
    EXPECT_THAT(page.letters[0].provenance.error_message, HasSubstr("payload_md"));
    EXPECT_EQ(must(letters_->find(page.letters[0].id))->record.value, "a\xff");
}

TEST_F(SqliteDeadLettersTest, TheClientsLetterGoesWithItsTransaction) {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(store_.value("select file from pragma_database_list").c_str(), &raw), SQLITE_OK);
    sqlite3_busy_timeout(raw, 5000);
    {
        const auto lease = lease_on(raw);
        const std::int64_t id = must(lease->enqueue_memory("s", "text", std::nullopt));
        must(lease->claim_outbox("w", 1, 60));
        must(client::sqlite_run(raw, "begin"));
        EXPECT_TRUE(must(lease->mark_dead_by_worker(id, "w", "no")));
        EXPECT_FALSE(must(lease->mark_dead_by_worker(id, "w", "no")));
        EXPECT_EQ(sqlite3_get_autocommit(raw), 0) << "the caller's transaction is still open";
        must(client::sqlite_run(raw, "rollback"));
        EXPECT_EQ(total({}), 0);
        EXPECT_EQ(must(lease->show(id))->status, "pending");
        must(client::sqlite_run(raw, "alter table dlq_messages rename to gone"));
        EXPECT_FALSE(lease->mark_dead_by_worker(id, "w", "no")) << "no letter, no death";
        EXPECT_EQ(sqlite3_get_autocommit(raw), 1);
        EXPECT_EQ(must(lease->show(id))->status, "pending");
    }
    sqlite3_close(raw);
}

/// The plan's lines, for a listing.
std::string plan(SqliteTestStore& store, const std::string& sql) {
    sqlite3* raw = nullptr;
    EXPECT_EQ(sqlite3_open(store.value("select file from pragma_database_list").c_str(), &raw), SQLITE_OK);
    std::string lines;
    {
        auto statement = must(client::SqliteStatement::prepare(raw, "explain query plan " + sql));
        must(statement.each([&](const client::SqliteStatement& row) { lines += row.get<std::string>(3) + "\n"; }));
    }
    sqlite3_close(raw);
    return lines;
}

TEST_F(SqliteDeadLettersTest, AListingReadsOnlyWhatItShows) {
    LetterQuery by_topic;
    by_topic.topic = "pay";
    by_topic.after = LetterCursor{};
    LetterQuery by_status;
    by_status.status = LetterStatus::dead;
    by_status.after = LetterCursor{};
    LetterQuery by_class;
    by_class.error_class = "X";
    LetterQuery by_source;
    by_source.source = "lane:x";
    LetterQuery all;
    all.after = LetterCursor{};
    for (const LetterQuery& query : {by_topic, by_status, by_class, by_source, all}) {
        const std::string lines = plan(store_, letter_page_sql(query));
        EXPECT_THAT(lines, Not(HasSubstr("SCAN m")));
        EXPECT_THAT(lines, HasSubstr("SEARCH m USING INDEX sqlite_autoindex_dlq_messages_1 (id=?)"));
        EXPECT_THAT(plan(store_, letter_total_sql(query)), Not(HasSubstr("SCAN m USING INDEX dlq_messages")));
    }
    EXPECT_THAT(plan(store_, letter_page_sql(by_topic)),
                HasSubstr("USING COVERING INDEX dlq_messages_source_topic (source_topic=? AND (created_at,id)<(?,?))"));
    EXPECT_THAT(plan(store_, letter_page_sql(by_topic)), HasSubstr("dlq_messages_original_topic (original_topic=?"));
}

/// As the relay's letters, but some fields at random.
rc::Gen<std::vector<NewLetter>> random_letters() {
    const auto letter = rc::gen::map(
        rc::gen::tuple(rc::gen::element<std::string>("a.dlq.v1", "b.dlq.v1", "a"),
                       rc::gen::element<std::string>("a", "b", "a.dlq.v1"),
                       rc::gen::element<std::optional<std::string>>(std::nullopt, "X", "Y"), rc::gen::inRange(0, 4)),
        [](const auto& parts) {
            NewLetter letter = new_letter(0, std::get<0>(parts));
            letter.provenance.original_topic = std::get<1>(parts);
            letter.provenance.error_class = std::get<2>(parts);
            letter.record.key = "k" + std::to_string(std::get<3>(parts));
            return letter;
        });
    return rc::gen::container<std::vector<NewLetter>>(letter);
}

std::vector<std::string> ids(const std::vector<Letter>& letters) {
    std::vector<std::string> out;
    for (const Letter& letter : letters) out.push_back(letter.id);
    return out;
}

/// All pages one after the other, by cursor or by offset.
std::vector<std::string> all_pages(DeadLetters& letters, LetterQuery query, bool by_cursor) {
    std::vector<std::string> seen;
    for (;;) {
        const LetterPage page = must(letters.list(query));
        const auto page_ids = ids(page.letters);
        seen.insert(seen.end(), page_ids.begin(), page_ids.end());
        if (!page.has_next) return seen;
        if (by_cursor) {
            query.after = LetterCursor{page.letters.back().created_at, page.letters.back().id};
        } else {
            query.offset += query.limit;
        }
    }
}

bool matches(const Letter& letter, const LetterQuery& query, const std::optional<std::string>& key) {
    const bool topic = !query.topic || letter.topic == query.topic || letter.provenance.original_topic == query.topic;
    return topic && (!query.status || letter.status == query.status) &&
           (!query.error_class || letter.provenance.error_class == query.error_class) &&
           (!query.key || key == query.key) && (!query.from || letter.created_at >= *query.from) &&
           (!query.until || letter.created_at < *query.until);
}

RC_GTEST_PROP(SqliteDeadLettersProperty, PagesByCursorAreThoseByOffset, ()) {
    SqliteTestStore store(true);
    const auto letters = store.database().dead_letters();
    auto given = *random_letters();
    for (std::size_t n = 0; n < given.size(); ++n) given[n].record.offset = static_cast<std::int64_t>(n);
    must(letters->store(given));
    // Some in one millisecond, some not.
    store.execute("update dlq_messages set created_at = '2026-01-01T00:00:00.00' || (source_offset / 3 % 4) || 'Z'");
    store.execute("update dlq_messages set status = 'DEAD' where source_offset % 5 = 0");
    std::vector<Letter> everything = must(letters->list({.limit = 1000})).letters;
    std::map<std::string, std::optional<std::string>> keys;
    for (const Letter& letter : everything) keys[letter.id] = must(letters->find(letter.id))->record.key;
    RC_ASSERT(everything.size() == given.size());
    RC_ASSERT(std::ranges::is_sorted(everything, [](const Letter& a, const Letter& b) {
        return std::tie(a.created_at, a.id) > std::tie(b.created_at, b.id);
    }));

    LetterQuery query;
    query.limit = *rc::gen::inRange(1, 5);
    query.topic = *rc::gen::element<std::optional<std::string>>(std::nullopt, "a.dlq.v1", "a", "none");
    query.status = *rc::gen::element<std::optional<LetterStatus>>(std::nullopt, LetterStatus::dead);
    query.error_class = *rc::gen::element<std::optional<std::string>>(std::nullopt, "X");
    query.key = *rc::gen::element<std::optional<std::string>>(std::nullopt, "k1");
    const WallTime base = parse_rfc3339("2026-01-01T00:00:00.000Z").value();
    const auto moment = [&](int micros) { return base + std::chrono::microseconds(micros); };
    if (*rc::gen::arbitrary<bool>()) query.from = moment(*rc::gen::inRange(0, 4000));
    if (*rc::gen::arbitrary<bool>()) query.until = moment(*rc::gen::inRange(0, 4000));

    std::erase_if(everything, [&](const Letter& letter) { return !matches(letter, query, keys[letter.id]); });
    const auto expected = ids(everything);
    RC_ASSERT(all_pages(*letters, query, true) == expected);
    RC_ASSERT(all_pages(*letters, query, false) == expected);
    RC_ASSERT(must(letters->list(query)).total == static_cast<std::int64_t>(expected.size()));
}

RC_GTEST_PROP(RecordHeadersProperty, HeadersComeBackAsTheyWere, (const std::vector<std::string>& bytes)) {
    std::vector<RecordHeader> headers;
    for (std::size_t n = 0; n + 1 < bytes.size(); n += 2) {
        headers.push_back({bytes[n], n % 3 == 2 ? std::nullopt : std::optional<std::string>(bytes[n + 1])});
    }
    const auto back = parse_record_headers(record_headers_json(headers));
    RC_ASSERT(back.has_value());
    RC_ASSERT(*back == headers);
}

}  // namespace
}  // namespace deliverd::store::sqlite
