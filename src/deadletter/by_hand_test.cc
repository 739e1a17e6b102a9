// What the manager does beside sending: changes by hand, deleting old letters, and the plan of a redrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "deadletter/manager.h"
#include "deadletter/testing/fake_letters.h"
#include "deadletter/testing/fakes.h"

namespace deliverd::deadletter {
namespace {

using Fault = FakeLetters::Fault;
using store::LetterStatus;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class ByHandTest : public testing::Test {
protected:
    std::string add(LetterStatus status) {
        const std::string id = letters.add("orders");
        letters.change(id, [status](FakeLetters::Row& row) { row.detail.letter.status = status; });
        return id;
    }
    /// A retry of it is under way.
    std::string add_under_way() {
        const std::string id = letters.add("orders");
        static_cast<void>(letters.begin_retry(std::span(&id, 1), {"another", "ops", std::chrono::seconds(30)}));
        return id;
    }
    LetterStatus status(const std::string& id) { return letters.at(id).detail.letter.status; }
    void fail(const std::string& name) {
        letters.fault = [name](int, std::string_view call) { return call == name ? Fault::retryable : Fault::none; };
    }

    static constexpr const char* kNobody = "00000000-0000-4000-8000-999999999999";

    FakeLetters letters;
    FakeReplayer replayer;
    RecordingLog log;
    Manager manager{ManagerOptions(), letters, &replayer, log};
};

TEST_F(ByHandTest, AnOpenLetterIsMarkedAsDead) {
    for (const LetterStatus open : {LetterStatus::pending, LetterStatus::retrying}) {
        const std::string id = add(open);
        EXPECT_EQ(manager.mark_dead(id, "ops").answer, ChangeAnswer::done);
        EXPECT_EQ(status(id), LetterStatus::dead);
    }
    EXPECT_EQ(manager.mark_dead(kNobody, "ops").answer, ChangeAnswer::not_found);
    const ChangeReport finished = manager.mark_dead(add(LetterStatus::resolved), "ops");
    EXPECT_EQ(finished.answer, ChangeAnswer::conflict);
    EXPECT_EQ(finished.reason, "status=RESOLVED, retry_count=0/3");
    const std::string under_way = add_under_way();
    const ChangeReport refused = manager.mark_dead(under_way, "ops");
    EXPECT_EQ(refused.answer, ChangeAnswer::conflict);
    EXPECT_EQ(refused.reason, "a retry of it is under way");
    EXPECT_EQ(status(under_way), LetterStatus::retrying);
}

TEST_F(ByHandTest, ALetterThatIsDeletedBetweenTwoLooksIsNotFound) {
    const std::string id = add(LetterStatus::pending);
    letters.fault = [&](int, std::string_view call) {
        if (call == "find") static_cast<void>(letters.remove(id, "another"));
        return Fault::none;
    };
    EXPECT_EQ(manager.mark_dead(id, "ops").answer, ChangeAnswer::not_found);
}

TEST_F(ByHandTest, ADeadLetterIsRevived) {
    const std::string id = add(LetterStatus::dead);
    EXPECT_EQ(manager.revive(id, "ops").answer, ChangeAnswer::done);
    EXPECT_EQ(status(id), LetterStatus::pending);
    const ChangeReport again = manager.revive(id, "ops");
    EXPECT_EQ(again.answer, ChangeAnswer::conflict);
    EXPECT_EQ(again.reason, "status=PENDING, retry_count=0/3");
    EXPECT_EQ(manager.revive(kNobody, "ops").answer, ChangeAnswer::not_found);
}

TEST_F(ByHandTest, ALetterIsDeletedUnlessItIsBeingRetried) {
    const std::string id = add(LetterStatus::pending);
    EXPECT_EQ(manager.remove(id, "ops").answer, ChangeAnswer::done);
    EXPECT_THAT(letters.ids(), SizeIs(0));
    EXPECT_EQ(manager.remove(id, "ops").answer, ChangeAnswer::not_found);
    const ChangeReport refused = manager.remove(add_under_way(), "ops");
    EXPECT_EQ(refused.answer, ChangeAnswer::conflict);
    EXPECT_EQ(refused.reason, "a retry of it is under way");
    EXPECT_THAT(letters.ids(), SizeIs(1));
}

TEST_F(ByHandTest, AStoreThatFailsIsReported) {
    const std::string id = add(LetterStatus::pending);
    const auto expect_unavailable = [](const ChangeReport& report) {
        EXPECT_EQ(report.answer, ChangeAnswer::unavailable);
        ASSERT_TRUE(report.store_error);
        EXPECT_EQ(report.store_error->code, "db_unreachable");
    };
    for (const char* call : {"mark_dead", "find"}) {
        fail(call);
        expect_unavailable(manager.mark_dead(id, "ops"));
    }
    fail("revive");
    expect_unavailable(manager.revive(id, "ops"));
    fail("remove");
    expect_unavailable(manager.remove(id, "ops"));
    fail("destinations");
    EXPECT_FALSE(manager.plan("orders"));
}

// --- purge ---------------------------------------------------------------------------------------------------------

class PurgeTest : public ByHandTest {
protected:
    /// A store with that many letters to delete.
    void fill(std::int64_t count) {
        letters.purges = [this, left = count](std::int32_t limit) mutable {
            limits.push_back(limit);
            const std::int64_t gone = std::min<std::int64_t>(limit, left);
            left -= gone;
            return gone;
        };
    }
    PurgeReport purge(std::optional<std::int64_t> limit = std::nullopt) {
        return manager.purge(LetterStatus::resolved, std::chrono::hours(1), limit, "ops");
    }
    std::vector<std::int32_t> limits;
};

TEST_F(PurgeTest, ItGoesOnUntilTheStoreTwiceHasNothing) {
    fill(kPurgePiece + 1);
    const PurgeReport report = purge();
    EXPECT_EQ(report.purged, kPurgePiece + 1);
    EXPECT_FALSE(report.more);
    EXPECT_FALSE(report.store_error);
    EXPECT_THAT(limits, ElementsAre(kPurgePiece, kPurgePiece, kPurgePiece, kPurgePiece));
}

TEST_F(PurgeTest, OneEmptyPieceIsNotTheEnd) {
    int calls = 0;
    letters.purges = [&calls](std::int32_t) { return ++calls % 2 == 0 && calls < 6 ? 7 : 0; };
    const PurgeReport report = purge();
    EXPECT_EQ(report.purged, 14);
    EXPECT_FALSE(report.more);
    EXPECT_EQ(calls, 6);
}

TEST_F(PurgeTest, ItStopsAtTheLimit) {
    fill(5 * kPurgePiece);
    const PurgeReport report = purge(kPurgePiece + 10);
    EXPECT_EQ(report.purged, kPurgePiece + 10);
    EXPECT_TRUE(report.more);
    EXPECT_THAT(limits, ElementsAre(kPurgePiece, 10));
    EXPECT_EQ(purge(0).purged, 0);
    EXPECT_THAT(limits, SizeIs(2)) << "nothing is asked for";
}

TEST_F(PurgeTest, AStoreThatFailsLeavesTheRest) {
    fill(5 * kPurgePiece);
    letters.fault = [this](int, std::string_view call) {
        return call == "purge" && letters.calls_of("purge") == 3 ? Fault::permanent : Fault::none;
    };
    const PurgeReport report = purge();
    EXPECT_EQ(report.purged, 2 * kPurgePiece);
    EXPECT_TRUE(report.more);
    ASSERT_TRUE(report.store_error);
    EXPECT_EQ(report.store_error->code, "db_error");
}

// --- the plan of a redrive -----------------------------------------------------------------------------------------

class PlanTest : public ByHandTest {
protected:
    /// Why letters of that source would not be sent to `to`.
    std::string refused(const ManagerOptions& options, const std::string& source, const std::string& to,
                        const SendRule& rule = {}) {
        FakeLetters store;
        store.change(store.add(to), [&](FakeLetters::Row& row) {
            row.detail.letter.source = source;
            row.detail.letter.topic = "all";
        });
        Manager other(options, store, &replayer, log);
        const auto planned = other.plan("all", rule);
        EXPECT_TRUE(planned && planned->size() == 1);
        EXPECT_EQ(planned->at(0).destination.source, source);
        return planned->at(0).refused;
    }
};

TEST_F(PlanTest, OnlyTheDestinationsOfRecordsAreLimited) {
    ManagerOptions options;
    options.replay_topics = {"orders"};
    EXPECT_EQ(refused(options, "kafka", "orders"), "");
    EXPECT_THAT(refused(options, "kafka", "bills"), HasSubstr("kafka.replay_topics"));
    EXPECT_EQ(refused(options, "kafka", "orders.dlq.v1"), "the topic is itself for dead letters");
    EXPECT_EQ(refused(options, "lane:bills", "bills"), "");
    EXPECT_EQ(refused(options, "spool:bills", "bills"), "");
    options.dead_letter_pattern.clear();
    EXPECT_EQ(refused(options, "kafka", "bills"), "") << "stand-alone, nothing is published";
}

TEST_F(PlanTest, TheCallersRuleIsAskedForWhatIsNotRefusedYet) {
    std::vector<std::string> asked;
    const SendRule rule = [&](const store::Letter& letter) {
        asked.push_back(letter.source + " " + letter.provenance.original_topic);
        return std::string(letter.provenance.original_topic == "bills" ? "not for this caller" : "");
    };
    EXPECT_EQ(refused({}, "kafka", "orders", rule), "");
    EXPECT_EQ(refused({}, "lane:bills", "bills", rule), "not for this caller");
    EXPECT_EQ(refused({}, "kafka", "x.dlq.v1", rule), "the topic is itself for dead letters");
    EXPECT_THAT(asked, ElementsAre("kafka orders", "lane:bills bills"));
}

}  // namespace
}  // namespace deliverd::deadletter
