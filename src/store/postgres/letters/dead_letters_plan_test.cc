// Looking through dead letters beside 60,000 of them, and working on some, touches only what is returned: shown by the
// plans PostgreSQL really ran, with and without statistics.
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <set>

#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/letters/statements.h"
#include "store/postgres/testing/test_plan.h"

namespace deliverd::store::postgres {
namespace {

using conformance::must;

constexpr int kBig = 50'000;
constexpr int kSmall = 10'000;
constexpr int kOld = 500;  // of the big topic, the oldest: what a purge finds
constexpr int kLetterLimit = 20;
/// The table has more than 7,500 pages. Those of a page: of two indexes, and for each letter those of a look-up.
constexpr int kPagesOfAPage = 400;

/// Nothing is read from one end to the other, and nothing sorted but what is returned.
void expect_by_index(const json::object& root, std::initializer_list<const char*> indexes, int rows, int pages) {
    const std::string shown = json::serialize(root);
    EXPECT_LE(pages_of(root), pages) << shown;
    std::set<std::string> used;
    walk(root, [&](const json::object& node) {
        const std::string type = text_of(node, "Node Type");
        for (const char* slow : {"Seq Scan", "Bitmap Heap Scan", "Hash Join", "Merge Join"}) {
            const std::string relation = text_of(node, "Relation Name");
            if (relation == "dlq_messages" || relation == "dlq_audit") {
                EXPECT_NE(type, slow) << shown;
            }
        }
        if (type == "Sort") {
            EXPECT_LE(number_of(node, "Actual Rows"), rows) << shown;
        }
        EXPECT_LE(number_of(node, "Rows Removed by Filter"), rows) << shown;
        used.insert(text_of(node, "Index Name"));
    });
    for (const char* index : indexes) EXPECT_TRUE(used.contains(index)) << index << " is not used: " << shown;
}

class DeadLettersPlan : public ::testing::Test {
protected:
    void fill() {
        store_.execute("alter table dlq.dlq_messages set (autovacuum_enabled = off)");
        const auto insert = [&](const std::string& topic, int count) {
            store_.execute(
                "insert into dlq.dlq_messages (source_topic, original_topic, source_partition,"
                " source_offset, record_timestamp_ms, record_value, error_class, status, created_at)"
                " select '" +
                topic + ".dlq.v1', '" + topic +
                "', 0, n, n, convert_to(repeat('x', 500),"
                " 'UTF8'), 'E' || n % 10, 'RESOLVED', now() - n * interval '1 s' from generate_series(1, " +
                std::to_string(count) + ") as n");
        };
        insert("big", kBig);
        insert("small", kSmall);
        store_.execute("update dlq.dlq_messages set status = 'PENDING' where source_offset <= 3");
        // Few among many, from the newest to the oldest.
        store_.execute("update dlq.dlq_messages set status = 'DEAD' where source_offset % 1000 = 5");
        store_.execute(
            "update dlq.dlq_messages set created_at = now() - interval '1 year', updated_at = now() -"
            " interval '1 year' where source_topic = 'big.dlq.v1' and source_offset > " +
            std::to_string(kBig - kOld));
    }
    json::object plan(const LetterSelect& select) { return plan(select.statement, select.params); }
    json::object plan(const Statement& statement, const Params& params) {
        return plan_of(store_.server().conninfo(), statement, params);
    }
    /// Somewhere in the middle of the big topic.
    LetterCursor middle() {
        const std::string id =
            store_.value("select id from dlq.dlq_messages where source_topic = 'big.dlq.v1' and source_offset = " +
                         std::to_string(kBig / 2));
        return {must(store_.database().dead_letters()->find(id))->letter.created_at, id};
    }

    void expect_good_listings() {
        LetterQuery query;
        query.limit = kLetterLimit;
        expect_by_index(plan(select_page(query)), {"dlq_messages_created"}, kLetterLimit + 1, kPagesOfAPage);
        query.after = middle();
        expect_by_index(plan(select_page(query)), {"dlq_messages_created"}, kLetterLimit + 1, kPagesOfAPage);
        for (const char* topic : {"big", "big.dlq.v1"}) {
            SCOPED_TRACE(topic);
            query.topic = topic;
            query.after.reset();
            const auto both = {"dlq_messages_source_topic", "dlq_messages_original_topic"};
            expect_by_index(plan(select_page(query)), both, kLetterLimit + 1, kPagesOfAPage);
            query.after = middle();
            expect_by_index(plan(select_page(query)), both, kLetterLimit + 1, kPagesOfAPage);
            expect_by_index(plan(select_total(query)), {"dlq_counts_topic", "dlq_counts_original_topic"}, 100, 100);
        }
        query = {};
        query.limit = kLetterLimit;
        query.error_class = "E7";
        expect_by_index(plan(select_page(query)), {"dlq_messages_error_class"}, kLetterLimit + 1, kPagesOfAPage);
        query = {};
        query.source = "lane:none";
        expect_by_index(plan(select_page(query)), {"dlq_messages_elsewhere"}, 0, 20);
        // All there are of a status are found: what is behind them is not looked through.
        query = {};
        query.limit = kLetterLimit;
        query.topic = "big";
        query.status = LetterStatus::pending;
        expect_by_index(plan(select_page(query)), {"dlq_messages_original_topic"}, kLetterLimit, kPagesOfAPage);
        expect_good_listings_of_the_dead();
    }

    void expect_good_listings_of_the_dead() {
        LetterQuery query;
        query.limit = kLetterLimit;
        query.status = LetterStatus::dead;
        expect_by_index(plan(select_page(query)), {"dlq_dead_created"}, kLetterLimit + 1, kPagesOfAPage);
        const auto both = {"dlq_dead_source_topic", "dlq_dead_original_topic"};
        query.topic = "big";
        expect_by_index(plan(select_page(query)), both, kLetterLimit + 1, kPagesOfAPage);
        query.after = middle();
        expect_by_index(plan(select_page(query)), both, kLetterLimit + 1, kPagesOfAPage);
        query.error_class = "E5";
        query.from = query.after->created_at - std::chrono::hours(24);
        expect_by_index(plan(select_page(query)), both, kLetterLimit + 1, kPagesOfAPage);
    }

    void expect_good_purges() {
        const auto purge = [](const char* status, double seconds, std::int32_t looked_at) {
            Params params;
            params.text(status).float64(seconds).int32(100).int64(std::numeric_limits<std::int64_t>::min());
            params.literal("00000000-0000-0000-0000-000000000000").text("upkeep").int32(looked_at);
            return params;
        };
        // All are of the status: after the limit nothing more is looked at.
        expect_by_index(plan(sql_[letters::sql::purge_letters], purge("RESOLVED", 86400.0 * 30, kMaxLookedAt)),
                        {"dlq_messages_created"}, 200, 100 * 60);
        // Hardly any is, and 60,000 are old enough.
        expect_by_index(plan(sql_[letters::sql::purge_letters], purge("PENDING", 0, 500)), {"dlq_messages_created"},
                        500, 500 * 4);
    }

    void expect_good_changes() {
        std::vector<std::optional<std::string>> ids;
        for (const std::string& id : store_.plain().column("select id from dlq.dlq_messages order by source_offset"
                                                           " limit 100")) {
            ids.emplace_back(id);
        }
        const int kPagesOfAChange = 100 * 40;  // with its audit
        Params begin;
        begin.array(ids).text("o").float64(60).text("ann");
        expect_by_index(plan(sql_[letters::sql::begin_retry], begin), {"dlq_messages_pkey"}, 200, kPagesOfAChange);
        Params end;
        end.text("o").text("ann").array(ids).array(std::vector<std::int32_t>(100, 0)).array(ids);
        expect_by_index(plan(sql_[letters::sql::end_retry], end), {"dlq_messages_pkey"}, 200, kPagesOfAChange);
        expect_good_purges();
        must(store_.database().dead_letters()->open_redrive("big", "o", "ann", std::chrono::seconds(600)));
        store_.execute(
            "update deliverd.redrives set position_created_at = now() - interval '20 s', position_id ="
            " gen_random_uuid()");
        Params next;
        next.text("big").text("o").int32(100).float64(60).text("ann").int64(1 << 20).array(
            std::vector<std::optional<std::string>>());
        expect_by_index(plan(sql_[letters::sql::next_of_redrive], next), {"dlq_messages_original_topic"}, 200,
                        kPagesOfAChange);
        expect_by_index(plan(sql_[letters::sql::topics], Params()), {"dlq_messages_source_topic"}, 200, 300);
    }

    PostgresTestStore store_{true};
    const Statements sql_{"public", {letters::sql::all}};
};

TEST_F(DeadLettersPlan, TouchesOnlyWhatItReturns) {
    fill();
    {
        SCOPED_TRACE("without statistics");
        expect_good_listings();
        expect_good_changes();
    }
    store_.execute("analyze dlq.dlq_messages; analyze dlq.dlq_counts; analyze dlq.dlq_dead");
    {
        SCOPED_TRACE("with statistics");
        expect_good_listings();
        expect_good_changes();
    }
}

/// Of 115,200 lines a tenth is too old: a piece of the retention looks at that piece.
TEST_F(DeadLettersPlan, TheRetentionOfTheAuditTouchesOnlyWhatItDeletes) {
    constexpr int kPiece = 1000;
    constexpr int kPages = 20 + kPiece * 4;  // of the index, and each line's when it is found, locked and deleted
    store_.execute("alter table dlq.dlq_audit set (autovacuum_enabled = off)");
    store_.execute(
        "insert into dlq.dlq_audit (at, message_id, action, actor) select now() - (115200 - n) * interval '5 min',"
        " gen_random_uuid(), 'published', 'ann' from generate_series(1, 115200) as n");
    Params purge;
    purge.float64(86400.0 * 360).int32(kPiece).int64(std::numeric_limits<std::int64_t>::min());
    {
        SCOPED_TRACE("without statistics");
        expect_by_index(plan(sql_[letters::sql::purge_history], purge), {"dlq_audit_at"}, kPiece, kPages);
    }
    store_.execute("analyze dlq.dlq_audit");
    {
        SCOPED_TRACE("with statistics");
        expect_by_index(plan(sql_[letters::sql::purge_history], purge), {"dlq_audit_at"}, kPiece, kPages);
    }
}

/// The planner, which plans for any topic, takes every letter to be of the one it knows of.
TEST_F(DeadLettersPlan, WhereAllAreOfOneTopicToo) {
    store_.execute(
        "insert into dlq.dlq_messages (id, source_topic, original_topic, source_partition, source_offset,"
        " record_timestamp_ms, status, created_at) select ('01980000-0000-7000-8000-' || lpad(to_hex(n), 12, "
        "'0'))::uuid,"
        " 'big.dlq.v1', 'big', 0, n, n, 'PENDING', now() - interval '1 day' + n * interval '10 ms'"
        " from generate_series(1, 50000) as n");
    store_.execute("analyze dlq.dlq_messages; analyze dlq.dlq_counts");
    for (const char* topic : {"big", "big.dlq.v1"}) {
        SCOPED_TRACE(topic);
        LetterQuery query;
        query.limit = kLetterLimit;
        query.topic = topic;
        query.status = LetterStatus::pending;
        const auto both = {"dlq_messages_source_topic", "dlq_messages_original_topic"};
        expect_by_index(plan(select_page(query)), both, kLetterLimit + 1, kPagesOfAPage);
        must(store_.database().dead_letters()->open_redrive(topic, topic, "ann", std::chrono::seconds(600)));
        Params next;
        next.text(topic).text(topic).int32(100).float64(60).text("ann").int64(1 << 20).array(
            std::vector<std::optional<std::string>>());
        expect_by_index(plan(sql_[letters::sql::next_of_redrive], next), both, 200, 100 * 60);
    }
}

/// A retry's two updates change no indexed column.
TEST_F(DeadLettersPlan, ARetryTouchesNoIndex) {
    auto sessions = store_.open_again();
    auto letters = sessions->dead_letters();
    NewLetter letter;
    letter.record.topic = "a.dlq.v1";
    letter.record.value = std::string(500, 'x');
    letter.provenance.original_topic = "a";
    must(letters->store(std::span(&letter, 1)));
    const std::string id = store_.value("select id from dlq.dlq_messages");
    must(letters->begin_retry(std::span(&id, 1), {"o", "ann", std::chrono::seconds(60)}));
    const RetryEnd end{id, RetryResult::published};
    must(letters->end_retry("o", "ann", std::span(&end, 1)));
    letters.reset();
    sessions.reset();  // one that ends tells its counts at once
    EXPECT_TRUE(wait_until([&] {
        return store_.value("select n_tup_hot_upd from pg_stat_user_tables where relname = 'dlq_messages'") == "2";
    }));
}

}  // namespace
}  // namespace deliverd::store::postgres
