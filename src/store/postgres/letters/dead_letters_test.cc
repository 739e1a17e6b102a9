// Dead letters on PostgreSQL: what is not the same on every store.
#include "store/postgres/letters/dead_letters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "store/migration_plan.h"
#include "store/postgres/testing/test_server.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;

class PostgresDeadLetterTest : public ::testing::Test {
protected:
    static NewLetter letter(std::int64_t offset, std::optional<std::string> payload) {
        NewLetter letter;
        letter.record.topic = "a.dlq.v1";
        letter.record.offset = offset;
        letter.record.value = payload;
        letter.payload = std::move(payload);
        letter.provenance.original_topic = "a";
        return letter;
    }
    std::string value(const std::string& sql) { return store_.value(sql); }

    PostgresTestStore store_{true};
    std::unique_ptr<DeadLetters> letters_ = store_.database().dead_letters();
};

/// JSON to a parser, and nothing to jsonb: the batch is stored all the same, and the others keep their payloads.
TEST_F(PostgresDeadLetterTest, KeepsTheBytesWhereJsonbHoldsNoPayload) {
    std::string deep(200'000, '[');
    deep += std::string(200'000, ']');
    const std::vector<std::string> refused = {
        R"({"a":"\u0000"})", R"({"n":1e999999})", R"("\ud800")", deep, "{", "no", "\xff"};
    std::vector<NewLetter> batch = {letter(0, R"({"good":1})")};
    for (const std::string& text : refused) batch.push_back(letter(static_cast<std::int64_t>(batch.size()), text));
    batch.back().payload = std::nullopt;  // what is not UTF-8 is not given as one
    batch.push_back(letter(100, R"({"good":2})"));
    EXPECT_EQ(must(letters_->store(batch)), static_cast<std::int64_t>(batch.size()));
    EXPECT_EQ(value("select string_agg(payload::text, ' ' order by source_offset) from dlq.dlq_messages"),
              R"({"good": 1} {"good": 2})");
    for (const NewLetter& given : batch) {
        const std::string id =
            value("select id from dlq.dlq_messages where source_offset = " + std::to_string(given.record.offset));
        EXPECT_EQ(must(letters_->find(id))->record.value, given.record.value);
    }
}

TEST_F(PostgresDeadLetterTest, RefusesTextThatIsNone) {
    NewLetter bad = letter(1, std::nullopt);
    bad.provenance.error_message = std::string("a\0b", 3);
    const std::vector<NewLetter> batch = {letter(0, std::nullopt), bad};
    const auto stored = letters_->store(batch);
    ASSERT_FALSE(stored);
    EXPECT_EQ(stored.error().error_class, ErrorClass::permanent);
    EXPECT_EQ(value("select count(*) from dlq.dlq_messages"), "0");
    EXPECT_EQ(must(letters_->store(std::span(batch).first(1))), 1);
}

TEST_F(PostgresDeadLetterTest, StoresMoreThanAStatementCarriesInOneTransaction) {
    std::vector<NewLetter> batch;
    for (std::size_t n = 0; n < kMaxStoredAtOnce * 2 + 10; ++n) {
        batch.push_back(letter(static_cast<std::int64_t>(n), "{}"));
    }
    EXPECT_EQ(must(letters_->store(batch)), static_cast<std::int64_t>(batch.size()));
    EXPECT_EQ(value("select count(distinct xmin::text) from dlq.dlq_messages"), "1");
    EXPECT_EQ(must(letters_->topics()).at(0).pending, static_cast<std::int64_t>(batch.size()));
}

TEST_F(PostgresDeadLetterTest, KeepsALargeRecord) {
    NewLetter large = letter(1, std::nullopt);
    std::string bytes(900'000, '\0');
    for (std::size_t n = 0; n < bytes.size(); ++n) bytes[n] = static_cast<char>(n * 2654435761U >> 7U);
    large.record.value = bytes;
    EXPECT_EQ(must(letters_->store(std::span(&large, 1))), 1);
    const LetterPage page = must(letters_->list({}));
    ASSERT_EQ(page.letters.size(), 1U);
    EXPECT_EQ(page.letters[0].value_bytes, 900'000);
    EXPECT_EQ(must(letters_->find(page.letters[0].id))->record.value, bytes);
}

/// Writers beside each other: none waits for another's counts, and nothing is lost while kinds are summed up.
TEST_F(PostgresDeadLetterTest, CountsSurviveManyWritersAtOnce) {
    constexpr int kThreads = 4;
    constexpr int kEach = 200;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (int n = 0; n < kEach; ++n) {
                const NewLetter one = letter(t * kEach + n, "{}");
                EXPECT_TRUE(letters_->store(std::span(&one, 1)));
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(must(letters_->topics()).at(0).pending, kThreads * kEach);
    EXPECT_LT(std::stoi(value("select count(*) from dlq.dlq_counts")), kThreads * kEach * 3 / 4);
    store_.execute("truncate dlq.dlq_messages");
    EXPECT_TRUE(must(letters_->topics()).empty());
}

/// What is listed as DEAD is what is DEAD, whoever made it so and however.
TEST_F(PostgresDeadLetterTest, TheListOfTheDeadFollowsTheLetters) {
    const auto listed = [&](int letters) {
        EXPECT_EQ(value("select count(*) from dlq.dlq_dead"), std::to_string(letters));
        EXPECT_EQ(value("select count(*) from dlq.dlq_dead d join dlq.dlq_messages m using (id, created_at,"
                        " original_topic) where m.status = 'DEAD' and m.source_topic is not distinct from"
                        " d.source_topic"),
                  std::to_string(letters));
        EXPECT_EQ(must(letters_->list({.status = LetterStatus::dead})).letters.size(),
                  static_cast<std::size_t>(letters));
    };
    store_.execute(
        "insert into dlq.dlq_messages (original_topic, source_topic, source_partition, source_offset,"
        " record_timestamp_ms, status) select 'a', case when n < 5 then 'a.dlq.v1' end, 0, n, n, case when n % 2 = 0"
        " then 'DEAD' else 'PENDING' end from generate_series(0, 9) as n");
    listed(5);
    store_.execute("update dlq.dlq_messages set status = 'DEAD' where source_offset in (1, 2, 7)");
    listed(7);
    store_.execute("update dlq.dlq_messages set status = 'PENDING' where source_offset in (2, 3)");
    listed(6);
    store_.execute("update dlq.dlq_messages set original_topic = 'b', source_topic = null where source_offset = 0");
    listed(6);
    EXPECT_EQ(must(letters_->list({.topic = "b", .status = LetterStatus::dead})).letters.size(), 1U);
    EXPECT_EQ(must(letters_->list({.topic = "a.dlq.v1", .status = LetterStatus::dead})).letters.size(), 2U);
    store_.execute("delete from dlq.dlq_messages where source_offset in (4, 5)");
    listed(5);
    // As a database has it that was made before there was the list.
    store_.execute(
        "drop table dlq.dlq_dead; drop function deliverd.list_dead_letters cascade;"
        " drop function deliverd.list_no_dead_letters cascade");
    store_.execute("update dlq.dlq_messages set status = 'DEAD' where source_offset = 3");
    const auto migrations = postgres_migrations();
    const auto migration = std::ranges::find(migrations, 8, &Migration::version);
    ASSERT_NE(migration, migrations.end());
    store_.execute("begin; " + std::string(migration->sql) + "; commit");
    listed(6);
    store_.execute("truncate dlq.dlq_messages");
    listed(0);
}

/// Kinds that take turns: each is summed up now and then.
TEST_F(PostgresDeadLetterTest, RetriesLeaveFewCounts) {
    constexpr int kLetters = 250;
    std::vector<NewLetter> batch;
    for (int n = 0; n < kLetters; ++n) batch.push_back(letter(n, "{}"));
    must(letters_->store(batch));
    for (const std::string& id : store_.plain().column("select id from dlq.dlq_messages")) {
        must(letters_->begin_retry(std::span(&id, 1), {"o", "ann", std::chrono::seconds(60)}));
        const RetryEnd end{id, RetryResult::published};
        must(letters_->end_retry("o", "ann", std::span(&end, 1)));
    }
    EXPECT_EQ(must(letters_->topics()).at(0).resolved, kLetters);
    EXPECT_EQ(must(letters_->topics()).at(0).retrying, 0);
    // Each retry adds four lines of three kinds, and one in 32 sums up its kind: about a hundred are left.
    EXPECT_LT(std::stoi(value("select count(*) from dlq.dlq_counts")), kLetters * 2);
}

TEST_F(PostgresDeadLetterTest, APurgeFindsWhatIsBehindManyThatAreKept) {
    store_.execute(
        "insert into dlq.dlq_messages (original_topic, status, created_at, updated_at) select 'a',"
        " case when n % 10000 = 1 then 'DEAD' else 'PENDING' end, now() - interval '2 days', now() - interval '1 day'"
        " from generate_series(1, " +
        std::to_string(2 * kMaxLookedAt + 10'000) + ") as n");
    const auto letters = store_.database().dead_letters();
    EXPECT_EQ(must(letters->purge(LetterStatus::dead, std::chrono::hours(1), 4, "ada")), 4);
    EXPECT_EQ(must(letters->purge(LetterStatus::dead, std::chrono::hours(1), 4, "ada")), 1);
    EXPECT_EQ(store_.value("select count(*) from dlq.dlq_messages"), std::to_string(2 * kMaxLookedAt + 9'995));
    EXPECT_EQ(store_.value("select count(*) from dlq.dlq_audit where action = 'purged'"), "5");
}

/// Past what is deleted and not yet vacuumed away, which a snapshot somewhere can keep there for hours.
TEST_F(PostgresDeadLetterTest, TheRetentionOfTheAuditGoesOnWhereItEnded) {
    const auto letters = store_.database().dead_letters();
    const auto line = [&](int age) {
        store_.execute("insert into dlq.dlq_audit (at, message_id, action, actor) values (now() - " +
                       std::to_string(age) + " * interval '1 s', gen_random_uuid(), 'dead', 'ann')");
    };
    for (const int age : {1004, 1003, 1002, 1001}) line(age);
    const auto age = std::chrono::seconds(500);
    EXPECT_EQ(must(letters->purge_history(age, 2)), 2);
    line(2000);
    EXPECT_EQ(must(letters->purge_history(age, 2)), 2);
    EXPECT_EQ(store_.value("select count(*) from dlq.dlq_audit where at < now() - interval '1500 s'"), "1");
    EXPECT_EQ(must(letters->purge_history(age, 2)), 0) << "that was all behind it, and the next begins anew";
    EXPECT_EQ(must(letters->purge_history(age, 2)), 1);
}

/// A transaction that is open keeps nobody from storing.
TEST_F(PostgresDeadLetterTest, AnOpenTransactionIsInNobodysWay) {
    store_.execute(
        "begin; insert into dlq.dlq_messages (original_topic, source_topic) select 'a', 'a.dlq.v1' from"
        " generate_series(1, 200)");
    const NewLetter one = letter(1, "{}");
    EXPECT_EQ(must(letters_->store(std::span(&one, 1))), 1);
    EXPECT_EQ(must(letters_->topics()).at(0).pending, 1);
    store_.execute("commit");
    EXPECT_EQ(must(letters_->topics()).at(0).pending, 201);
}

/// Who only works on memories needs no right on dead letters.
TEST_F(PostgresDeadLetterTest, AWorkerInAnotherLanguageLeavesALetter) {
    const std::string role = "deliverd_dlq_worker_" + std::to_string(getpid());
    const std::int64_t id = must(store_.client_lease()->enqueue_memory("space", "# text", std::nullopt));
    store_.execute("create role " + role + "; grant usage on schema deliverd, public to " + role +
                   "; grant select, update on outbox_memory to " + role +
                   "; grant execute on function deliverd.claim_outbox, deliverd.mark_dead_by_worker,"
                   " deliverd.keep_dead_memory to " +
                   role + "; set role " + role);
    EXPECT_EQ(value("select outbox_id from deliverd.claim_outbox('w', 1, 60)"), std::to_string(id));
    EXPECT_EQ(value("select deliverd.mark_dead_by_worker(" + std::to_string(id) + ", 'w', 'X1: no')"), "t");
    EXPECT_EQ(value("select deliverd.mark_dead_by_worker(" + std::to_string(id) + ", 'w', 'X1: no')"), "f");
    store_.execute("reset role; drop owned by " + role + "; drop role " + role);
    const LetterPage page = must(letters_->list({}));
    ASSERT_EQ(page.letters.size(), 1U);
    EXPECT_EQ(page.letters[0].source, "lane:memory");
    EXPECT_EQ(page.letters[0].provenance.error_class, "X1");
    EXPECT_EQ(page.letters[0].provenance.producer, "w");
}

TEST(PostgresDeadLetterMigration, WhatWasDeadBeforeHasALetter) {
    PostgresTestStore store(false);
    const auto steps = must(store.database().migrate(true));
    ASSERT_EQ(steps.at(3).name, "dead_letters");
    for (int n = 0; n < 3; ++n) store.execute(steps.at(static_cast<std::size_t>(n)).sql);
    store.execute(
        "insert into outbox_memory (target_space, payload_md, payload_sha, status, last_error) values"
        " ('s', 'text', 'x', 'dead', 'HTTP_500: no'), ('s', 'text', 'x', 'sent', null)");
    store.execute(
        "insert into outbox_orders (idempotency_key, request_json, request_digest, status, next_attempt_at,"
        " last_error, last_error_detail) values ('k', '{\"a\":1}', 'd', 'dead', now(), 'C', 'C: detail'),"
        " ('l', '{}', 'd', 'sent', now(), null, null)");
    store.execute(
        "insert into outbox (aggregate_id, event_type, payload, metadata, dead_at, last_error) values"
        " ('a', 'T', '{\"b\":2}', '{\"h\":\"v\"}', now(), 'words only: no code'),"
        " ('a', 'T', '{}', '{}', null, null)");
    store.execute(
        "insert into deliverd.event_failures (lane, row_id, aggregate_id, retry_count, dead_at) values"
        " ('theirs', '17', 'agg', 3, now()), ('theirs', '18', 'agg', 1, null)");
    must(store.database().migrate(false));
    EXPECT_EQ(store.value("select string_agg(concat_ws(' ', source, status, outbox, outbox_row_id,"
                          " coalesce(error_class, '-'), error_message, payload, convert_from(record_key, 'UTF8')), '; '"
                          " order by source) from dlq.dlq_messages"),
              "lane:events PENDING events 1 - words only: no code {\"b\": 2} a;"
              " lane:memory PENDING memory 1 HTTP_500 HTTP_500: no \"text\" s;"
              " lane:orders DEAD orders 1 C C: detail {\"a\": 1} k;"
              " lane:theirs PENDING events 17 - unknown error agg");
    const auto letters = store.database().dead_letters();
    EXPECT_EQ(must(letters->topics()).size(), 4U);
    const std::string id = store.value("select id from dlq.dlq_messages where source = 'lane:events'");
    EXPECT_THAT(must(letters->find(id))->record.headers, ::testing::ElementsAre(RecordHeader{"h", "v"}));
    must(letters->begin_retry(std::span(&id, 1), {"o", "ann", std::chrono::seconds(60)}));
    EXPECT_THAT(must(letters->return_to_lane("o", "ann", std::span(&id, 1))), ::testing::ElementsAre(""));
    EXPECT_EQ(store.value("select count(*) from outbox where dead_at is null"), "2");
}

}  // namespace
}  // namespace deliverd::store::postgres
