// The event outbox of include/deliverd/outbox.h as every store must have it: through the client library on a connection
// of the caller's, and through Database::events(). Included by one test file of each store, which instantiates
// ClientOutboxConformance, CallersTransaction and AuditedEvents.
#pragma once

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <boost/json.hpp>
#include <map>
#include <set>
#include <vector>

#include "deliverd/outbox.h"
#include "store/conformance/test_store.h"

namespace deliverd::store::conformance {

/// A connection that the test owns as an application would, and the client library on it.
class CallersConnection {
public:
    virtual ~CallersConnection() = default;
    virtual deliverd::Outbox& outbox() = 0;
    virtual void execute(const std::string& sql) = 0;
    virtual bool in_transaction() = 0;
};

struct ClientKind {
    StoreKind store;
    std::function<std::unique_ptr<CallersConnection>(TestStore&)> connect;
    bool client = true;  // otherwise Database::events()
    friend void PrintTo(const ClientKind& kind, std::ostream* out) {
        *out << kind.store.name << (kind.client ? " by the client library" : " by the store");
    }
};

inline std::vector<std::int64_t> ids_of(const std::vector<Event>& events) {
    std::vector<std::int64_t> ids;
    for (const Event& event : events) ids.push_back(event.id);
    return ids;
}

class ClientOutboxConformance : public ::testing::TestWithParam<ClientKind> {
protected:
    void SetUp() override {
        store_ = GetParam().store.make();
        if (GetParam().client) {
            connection_ = GetParam().connect(*store_);
        } else {
            own_ = must(store_->database().events(std::nullopt));
        }
    }
    deliverd::Outbox& outbox() { return connection_ ? connection_->outbox() : *own_; }
    std::int64_t add(std::string_view aggregate = "order-1", std::string_view type = "OrderCreated") {
        return must(outbox().add({aggregate, type, "{}"}));
    }
    Event shown(std::int64_t id) { return must(outbox().show(id)).value(); }
    void set(std::int64_t id, const std::string& assignments) {
        store_->execute("update outbox set " + assignments + " where id = " + std::to_string(id));
    }
    void kill(std::int64_t id) { set(id, "dead_at = " + store_->time_expression(0)); }

    std::unique_ptr<TestStore> store_;
    std::unique_ptr<CallersConnection> connection_;
    std::unique_ptr<deliverd::Outbox> own_;
};

TEST_P(ClientOutboxConformance, AddStoresAnOpenEvent) {
    const std::int64_t id =
        must(outbox().add({"größe-1", "OrderCreated", R"({"total": 42})", R"({"traceparent": "00-a-b-01"})"}));
    const Event event = shown(id);
    EXPECT_EQ(event.id, id);
    EXPECT_EQ(event.aggregate_id, "größe-1");
    EXPECT_EQ(event.event_type, "OrderCreated");
    EXPECT_EQ(boost::json::parse(event.payload).at("total"), 42);
    EXPECT_EQ(boost::json::parse(event.metadata).at("traceparent"), "00-a-b-01");
    EXPECT_EQ(event.event_id.size(), 36U);
    EXPECT_EQ(event.created_at.back(), 'Z');
    EXPECT_FALSE(event.published);
    EXPECT_EQ(event.published_at, std::nullopt);
    EXPECT_EQ(event.retry_count, 0);
    EXPECT_EQ(event.next_attempt_at, std::nullopt);
    EXPECT_EQ(event.last_error, std::nullopt);
    EXPECT_EQ(event.dead_at, std::nullopt);
    EXPECT_EQ(shown(add()).metadata, "{}");
    EXPECT_NE(shown(add()).event_id, event.event_id);
    EXPECT_EQ(must(outbox().show(id + 1000)), std::nullopt);
}

TEST_P(ClientOutboxConformance, UnpublishedOnesComeOldestFirst) {
    const std::vector<std::int64_t> ids{add(), add("b"), add(), add("b"), add()};
    ASSERT_TRUE(must(outbox().mark_published(ids[1])));
    kill(ids[2]);
    EXPECT_THAT(ids_of(must(outbox().fetch_unpublished())), ::testing::ElementsAre(ids[0], ids[3], ids[4]));
    EXPECT_THAT(ids_of(must(outbox().fetch_unpublished(2))), ::testing::ElementsAre(ids[0], ids[3]));
}

TEST_P(ClientOutboxConformance, AnEventIsMarkedPublishedOnce) {
    const std::int64_t id = add();
    EXPECT_TRUE(must(outbox().mark_published(id)));
    EXPECT_TRUE(shown(id).published);
    EXPECT_TRUE(shown(id).published_at.has_value());
    EXPECT_FALSE(must(outbox().mark_published(id)));
    EXPECT_FALSE(must(outbox().mark_published(id + 1000)));
}

TEST_P(ClientOutboxConformance, ADeadEventThatAPersonPublishedIsNoLongerDead) {
    const std::int64_t id = add();
    kill(id);
    EXPECT_EQ(must(outbox().stats()).dead, 1);
    EXPECT_TRUE(must(outbox().mark_published(id)));
    EXPECT_EQ(shown(id).dead_at, std::nullopt);
    EXPECT_EQ(must(outbox().stats()).dead, 0);
}

TEST_P(ClientOutboxConformance, FailedAttemptsAreCounted) {
    const std::int64_t id = add();
    EXPECT_EQ(must(outbox().increment_retry_count(id, "503 from the broker")), 1);
    EXPECT_EQ(must(outbox().increment_retry_count(id)), 2);
    const Event event = shown(id);
    EXPECT_EQ(event.retry_count, 2);
    EXPECT_EQ(event.last_error, "503 from the broker");
    EXPECT_TRUE(event.next_attempt_at.has_value());
    EXPECT_THAT(ids_of(must(outbox().fetch_unpublished())), ::testing::ElementsAre(id));
}

TEST_P(ClientOutboxConformance, OnlyOpenEventsHaveAttempts) {
    const std::int64_t published = add();
    const std::int64_t dead = add();
    ASSERT_TRUE(must(outbox().mark_published(published)));
    kill(dead);
    EXPECT_EQ(must(outbox().increment_retry_count(published, "e")), std::nullopt);
    EXPECT_EQ(must(outbox().increment_retry_count(dead, "e")), std::nullopt);
    EXPECT_EQ(must(outbox().increment_retry_count(dead + 1000, "e")), std::nullopt);
    EXPECT_EQ(shown(dead).retry_count, 0);
    EXPECT_EQ(shown(published).last_error, std::nullopt);
}

TEST_P(ClientOutboxConformance, ATimeThatARelayWroteStays) {
    const std::int64_t id = add();
    set(id, "retry_count = 1, next_attempt_at = " + store_->time_expression(3600));
    const Event before = shown(id);
    EXPECT_EQ(must(outbox().increment_retry_count(id)), 2);
    EXPECT_EQ(shown(id).next_attempt_at, before.next_attempt_at);
}

TEST_P(ClientOutboxConformance, OldPublishedEventsAreDeletedUpToALimit) {
    std::vector<std::int64_t> old;
    for (int i = 0; i < 5; ++i) old.push_back(add());
    const std::int64_t open = add();
    const std::int64_t dead = add();
    const std::int64_t fresh = add();
    const std::int64_t undated = add();
    for (const std::int64_t id : old)
        set(id, "published = true, published_at = " + store_->time_expression(-8 * 86400));
    for (const std::int64_t id : {open, dead}) set(id, "created_at = " + store_->time_expression(-9 * 86400));
    kill(dead);
    set(fresh, "published = true, published_at = " + store_->time_expression(-6 * 86400));
    set(undated, "published = true, created_at = " + store_->time_expression(-8 * 86400));
    EXPECT_EQ(must(outbox().delete_published(kDefaultKeepSeconds, 4)), 4);
    EXPECT_EQ(must(outbox().delete_published()), 2);
    EXPECT_EQ(must(outbox().delete_published()), 0);
    EXPECT_EQ(store_->value("select count(*) from outbox"), "3");
    EXPECT_EQ(must(outbox().delete_published(5 * 86400.0)), 1);
    EXPECT_EQ(must(outbox().show(fresh)), std::nullopt);
    EXPECT_TRUE(must(outbox().show(open)) && must(outbox().show(dead)));
}

TEST_P(ClientOutboxConformance, StatisticsCountEveryRowOnce) {
    OutboxStats stats = must(outbox().stats());
    EXPECT_EQ(stats.total, 0);
    EXPECT_EQ(stats.oldest_unpublished_age_seconds, std::nullopt);
    EXPECT_EQ(stats.max_retries, 0);
    const std::vector<std::int64_t> ids{add(), add(), add(), add(), add(), add()};
    must(outbox().mark_published(ids[0]));
    for (const std::size_t dead : {1U, 2U}) kill(ids[dead]);
    set(ids[1], "retry_count = 7, created_at = " + store_->time_expression(-7200));
    set(ids[3], "created_at = " + store_->time_expression(-3600));
    stats = must(outbox().stats());
    EXPECT_EQ(stats.total, 6);
    EXPECT_EQ(stats.published, 1);
    EXPECT_EQ(stats.dead, 2);
    EXPECT_EQ(stats.unpublished, 3);
    EXPECT_EQ(stats.max_retries, 7);
    ASSERT_TRUE(stats.oldest_unpublished_age_seconds);
    EXPECT_GE(*stats.oldest_unpublished_age_seconds, 3599);
    EXPECT_LT(*stats.oldest_unpublished_age_seconds, 7000);
}

TEST_P(ClientOutboxConformance, AnAggregatesEventsAreAllThere) {
    const std::vector<std::int64_t> ids{add("a"), add("b"), add("a"), add("a")};
    must(outbox().mark_published(ids[0]));
    kill(ids[2]);
    EXPECT_THAT(ids_of(must(outbox().by_aggregate("a"))), ::testing::ElementsAre(ids[0], ids[2], ids[3]));
    EXPECT_THAT(ids_of(must(outbox().by_aggregate("a", 2))), ::testing::ElementsAre(ids[0], ids[2]));
    EXPECT_TRUE(must(outbox().by_aggregate("c")).empty());
}

/// Inside a transaction, where PostgreSQL would refuse everything after its own error: so the refusals are ours.
TEST_P(ClientOutboxConformance, BadArgumentsAreRefusedBeforeTheDatabaseIsAsked) {
    if (connection_) connection_->execute("begin");
    const std::string long_name(256, 'a');
    const std::string nul("a\0b", 3);
    expect_refused(outbox().add({"", "T", "{}"}), "aggregate_id is empty");
    expect_refused(outbox().add({"a", "", "{}"}), "event_type is empty");
    expect_refused(outbox().add({long_name, "T", "{}"}), "aggregate_id has 256 characters");
    expect_refused(outbox().add({"a", long_name, "{}"}), "event_type has 256 characters");
    expect_refused(outbox().add({nul, "T", "{}"}), "aggregate_id has a NUL byte");
    expect_refused(outbox().add({"\xff", "T", "{}"}), "aggregate_id is not valid UTF-8");
    expect_refused(outbox().add({"a", "T", ""}), "payload is not JSON");
    expect_refused(outbox().add({"a", "T", "{nonsense"}), "payload is not JSON");
    expect_refused(outbox().add({"a", "T", R"("\u0000")"}), "payload has the character U+0000");
    expect_refused(outbox().add({"a", "T", "{}", "[]"}), "metadata is not a JSON object");
    expect_refused(outbox().add({"a", "T", "{}", "nonsense"}), "metadata is not JSON");
    const std::string large = "\"" + std::string(16 * 1024 * 1024, 'x') + "\"";
    expect_refused(outbox().add({"a", "T", large}), "payload has 16777218 bytes, more than the 16777216 allowed");
    const std::string much = "{\"a\": \"" + std::string(64 * 1024, 'x') + "\"}";
    expect_refused(outbox().add({"a", "T", "{}", much}), "metadata has 65545 bytes, more than the 65536 allowed");
    expect_refused(outbox().fetch_unpublished(0), "limit is 0");
    expect_refused(outbox().by_aggregate("a", -1), "limit is -1");
    expect_refused(outbox().by_aggregate(nul), "aggregate_id has a NUL byte");
    expect_refused(outbox().increment_retry_count(1, nul), "error has a NUL byte");
    expect_refused(outbox().delete_published(-1), "older_than_seconds is -1");
    expect_refused(outbox().delete_published(1, 0), "limit is 0");
    const std::int64_t id = add();
    if (connection_) connection_->execute("commit");
    EXPECT_THAT(ids_of(must(outbox().fetch_unpublished())), ::testing::ElementsAre(id));
}

TEST_P(ClientOutboxConformance, NamesAreMeasuredInCharacters) {
    std::string longest;
    for (int i = 0; i < 255; ++i) longest += "ä";
    EXPECT_EQ(shown(add(longest, longest)).aggregate_id, longest);
}

TEST_P(ClientOutboxConformance, WhatAnApplicationInsertedItselfIsAnEventToo) {
    store_->execute("insert into outbox (aggregate_id, event_type, payload) values ('a', 'T', '{\"n\": 1}')");
    const auto events = must(outbox().fetch_unpublished());
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].metadata, "{}");
    EXPECT_EQ(events[0].event_id.size(), 36U);
}

class CallersTransaction : public ClientOutboxConformance {};

TEST_P(CallersTransaction, WhatIsRolledBackLeavesNothing) {
    const std::int64_t kept = add();
    connection_->execute("begin");
    add("gone");
    EXPECT_TRUE(must(outbox().mark_published(kept)));
    EXPECT_EQ(must(outbox().fetch_unpublished()).size(), 1U);
    connection_->execute("rollback");
    EXPECT_THAT(ids_of(must(outbox().fetch_unpublished())), ::testing::ElementsAre(kept));
    EXPECT_EQ(store_->value("select count(*) from outbox"), "1");
}

TEST_P(CallersTransaction, IsNeitherBegunNorEnded) {
    const auto every_call = [this] {
        const std::int64_t id = add();
        must(outbox().fetch_unpublished());
        must(outbox().increment_retry_count(id, "e"));
        must(outbox().mark_published(id));
        must(outbox().delete_published(0));
        must(outbox().by_aggregate("order-1"));
        must(outbox().show(id));
        must(outbox().stats());
        return add();
    };
    every_call();
    EXPECT_FALSE(connection_->in_transaction());
    EXPECT_EQ(store_->value("select count(*) from outbox where not published"), "1") << "committed by itself";

    connection_->execute("begin");
    every_call();
    EXPECT_TRUE(connection_->in_transaction());
    EXPECT_EQ(store_->value("select count(*) from outbox where not published"), "1") << "not seen by others yet";
    connection_->execute("commit");
    EXPECT_EQ(store_->value("select count(*) from outbox where not published"), "2");
}

/// Random transactions: what is unpublished in the end is exactly what was committed, in the order it was written.
TEST_P(CallersTransaction, WhatWasCommittedIsExactlyWhatIsThere) {
    const bool held = rc::check("committed events, and only those", [this] {
        struct Transaction {
            std::vector<int> aggregates;
            bool commit;
        };
        store_->execute("delete from outbox");
        // Up to 30 transactions of up to 30 events: with RapidCheck's 100 of each, most of the time went to round
        // trips.
        const auto transactions = *rc::gen::scale(
            0.3, rc::gen::container<std::vector<Transaction>>(rc::gen::construct<Transaction>(
                     rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 4)), rc::gen::arbitrary<bool>())));
        std::vector<std::pair<std::int64_t, std::string>> expected;
        for (const Transaction& transaction : transactions) {
            std::vector<std::pair<std::int64_t, std::string>> added;
            connection_->execute("begin");
            for (const int aggregate : transaction.aggregates) {
                const std::string name = "order-" + std::to_string(aggregate);
                added.emplace_back(add(name), name);
            }
            connection_->execute(transaction.commit ? "commit" : "rollback");
            if (transaction.commit) expected.insert(expected.end(), added.begin(), added.end());
        }
        std::vector<std::pair<std::int64_t, std::string>> found;
        for (const Event& event : must(outbox().fetch_unpublished(1'000'000))) {
            found.emplace_back(event.id, event.aggregate_id);
        }
        RC_ASSERT(found == expected);
    });
    EXPECT_TRUE(held);
}

/// Database::events() with an actor: every change, and nothing else, is in outbox_audit.
class AuditedEvents : public ClientOutboxConformance {};

TEST_P(AuditedEvents, EveryChangeLeavesALine) {
    const auto events = must(store_->database().events("cli:ann"));
    const std::int64_t id = must(events->add({"a", "T", "{}"}));
    must(events->increment_retry_count(id, "503"));
    EXPECT_TRUE(must(events->mark_published(id)));
    EXPECT_FALSE(must(events->mark_published(id)));
    EXPECT_EQ(must(events->increment_retry_count(id)), std::nullopt);
    set(id, "published_at = " + store_->time_expression(-100));
    EXPECT_EQ(must(events->delete_published(50)), 1);
    EXPECT_EQ(must(events->delete_published(50)), 0);
    must(events->fetch_unpublished());
    must(events->stats());
    must(events->by_aggregate("a"));
    must(events->show(id));
    const auto line = [&](int offset, const std::string& column) {
        return store_->value("select " + column + " from outbox_audit order by audit_id limit 1 offset " +
                             std::to_string(offset));
    };
    EXPECT_EQ(store_->value("select count(*) from outbox_audit"), "4");
    EXPECT_EQ(store_->value("select count(*) from outbox_audit where outbox = 'events' and actor = 'cli:ann'"), "4");
    const std::vector<std::string> reasons = {"event_added", "event_retry_counted", "event_marked_published",
                                              "events_deleted"};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(line(i, "reason"), reasons[static_cast<std::size_t>(i)]);
    EXPECT_EQ(line(0, "outbox_id"), std::to_string(id));
    EXPECT_EQ(line(0, "status_to"), "pending");
    EXPECT_EQ(line(1, "retry_count"), "1");
    EXPECT_EQ(line(1, "last_error"), "503");
    EXPECT_EQ(line(2, "status_to"), "published");
    EXPECT_EQ(line(3, "detail"), "1 published longer than 50 s ago");
}

TEST_P(AuditedEvents, AChangeWhoseLineCannotBeWrittenIsNotMade) {
    const auto events = must(store_->database().events("cli:ann"));
    const std::int64_t id = must(events->add({"a", "T", "{}"}));
    store_->execute("alter table outbox_audit rename to elsewhere");
    EXPECT_FALSE(events->add({"a", "T", "{}"}));
    EXPECT_FALSE(events->mark_published(id));
    EXPECT_FALSE(events->increment_retry_count(id));
    const Event event = must(events->show(id)).value();
    EXPECT_FALSE(event.published);
    EXPECT_EQ(event.retry_count, 0);
    EXPECT_EQ(must(events->stats()).total, 1);
}

}  // namespace deliverd::store::conformance
