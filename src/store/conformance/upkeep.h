// The guarantees of store/upkeep.h, for every store. Included by one test file of each, which instantiates
// UpkeepConformance.
#pragma once

#include <gmock/gmock.h>

#include <barrier>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "store/conformance/test_store.h"
#include "store/upkeep.h"

namespace deliverd::store::conformance {

struct UpkeepKind {
    StoreKind store;
    std::string leases;  // what the tables are called there
    std::string chores;
    friend void PrintTo(const UpkeepKind& kind, std::ostream* out) { *out << kind.store.name; }
};

class UpkeepConformance : public ::testing::TestWithParam<UpkeepKind> {
protected:
    static constexpr std::chrono::hours kInterval{1};
    static constexpr std::chrono::seconds kLease{60};

    void SetUp() override {
        store_ = GetParam().store.make();
        upkeep_ = store_->database().upkeep();
        ASSERT_NE(upkeep_, nullptr);
    }
    bool begin(const std::string& owner, const std::string& chore = "tidy") {
        return must(upkeep_->begin(chore, owner, kInterval, kLease));
    }
    void end(const std::string& owner, bool finished, const std::string& chore = "tidy") {
        must(upkeep_->end(chore, owner, finished));
    }
    void set_done(int seconds_from_now) {
        store_->execute("update " + GetParam().chores + " set done_at = " + store_->time_expression(seconds_from_now));
    }
    void let_the_lease_run_out() {
        store_->execute("update " + GetParam().leases + " set expires_at = " + store_->time_expression(-1));
    }
    std::string lease(const std::string& column) {
        return store_->value("select " + column + " from " + GetParam().leases + " where name = 'upkeep'");
    }
    int token() { return std::stoi(lease("token")); }
    std::string chores_done() { return store_->value("select count(*) from " + GetParam().chores); }
    void expect_lease_lasts(int seconds) {
        EXPECT_EQ(store_->value("select count(*) from " + GetParam().leases + " where expires_at > " +
                                store_->time_expression(seconds - 30) +
                                " and expires_at <= " + store_->time_expression(seconds)),
                  "1");
    }
    void add_ledger(const std::string& key, int expires_in_seconds) {
        store_->execute("insert into idempo_ledger (idempotency_key, request_digest, expires_at) values ('" + key +
                        "', 'sha256:x', " + store_->time_expression(expires_in_seconds) + ")");
    }
    bool in_ledger(const std::string& key) {
        return store_->value("select count(*) from idempo_ledger where idempotency_key = '" + key + "'") == "1";
    }

    std::unique_ptr<TestStore> store_;
    std::unique_ptr<Upkeep> upkeep_;
};

TEST_P(UpkeepConformance, AChoreThatWasNeverDoneIsDue) {
    EXPECT_TRUE(begin("one"));
    EXPECT_EQ(lease("owner"), "one");
    expect_lease_lasts(60);
    EXPECT_EQ(chores_done(), "0") << "begun is not done";
}

TEST_P(UpkeepConformance, AFinishedChoreIsDueWhenItsIntervalIsOver) {
    EXPECT_TRUE(begin("one"));
    end("one", true);
    EXPECT_FALSE(begin("one"));
    EXPECT_FALSE(begin("two"));
    set_done(-3500);
    EXPECT_FALSE(begin("two"));
    set_done(-3600);
    EXPECT_TRUE(begin("two"));
    end("two", true);
    EXPECT_FALSE(begin("two")) << "the time of the second run counts";
}

TEST_P(UpkeepConformance, AnUnfinishedChoreIsDueAtOnce) {
    EXPECT_TRUE(begin("one"));
    end("one", false);
    EXPECT_EQ(chores_done(), "0");
    EXPECT_TRUE(begin("two")) << "the lease is free";
}

TEST_P(UpkeepConformance, GivingUpLaterKeepsTheTimeItWasLastDone) {
    EXPECT_TRUE(begin("one"));
    end("one", true);
    set_done(-4000);
    EXPECT_TRUE(begin("one"));
    end("one", false);
    EXPECT_EQ(store_->value("select count(*) from " + GetParam().chores + " where name = 'tidy' and done_at < " +
                            store_->time_expression(-3900)),
              "1");
    EXPECT_TRUE(begin("one"));
}

TEST_P(UpkeepConformance, EachChoreHasItsOwnTimeAndAllShareTheLease) {
    EXPECT_TRUE(begin("one", "tidy"));
    EXPECT_FALSE(begin("two", "sweep")) << "one process at a time, whatever it does";
    end("one", true, "tidy");
    EXPECT_TRUE(begin("two", "sweep"));
    end("two", true, "sweep");
    EXPECT_FALSE(begin("one", "tidy"));
    EXPECT_EQ(chores_done(), "2");
}

TEST_P(UpkeepConformance, SomeoneElsesLiveLeaseRefuses) {
    EXPECT_TRUE(begin("one"));
    EXPECT_FALSE(begin("two"));
    EXPECT_EQ(lease("owner"), "one");
    EXPECT_EQ(token(), 1);
}

TEST_P(UpkeepConformance, ALeaseThatRanOutIsTakenOver) {
    EXPECT_TRUE(begin("one"));
    const int before = token();
    let_the_lease_run_out();
    EXPECT_TRUE(begin("two"));
    EXPECT_EQ(lease("owner"), "two");
    EXPECT_EQ(token(), before + 1);
    expect_lease_lasts(60);
}

TEST_P(UpkeepConformance, OnesOwnLeaseIsExtended) {
    EXPECT_TRUE(begin("one"));
    const int before = token();
    let_the_lease_run_out();
    EXPECT_TRUE(begin("one"));
    expect_lease_lasts(60);
    EXPECT_TRUE(must(upkeep_->begin("sweep", "one", kInterval, std::chrono::seconds(600))));
    expect_lease_lasts(600);
    EXPECT_EQ(token(), before) << "the same owner";
}

TEST_P(UpkeepConformance, TheTokenAlsoGoesUpAfterTheLeaseWasGivenBack) {
    EXPECT_TRUE(begin("one"));
    const int before = token();
    end("one", false);
    EXPECT_TRUE(begin("two"));
    EXPECT_GT(token(), before);
}

TEST_P(UpkeepConformance, AChoreThatIsNotDueLeavesTheLeaseAlone) {
    EXPECT_TRUE(begin("one"));
    end("one", true);
    EXPECT_FALSE(begin("two"));
    EXPECT_TRUE(begin("three", "sweep")) << "two did not take it";
}

TEST_P(UpkeepConformance, KeepingStartsTheLeaseAnewOrTellsThatItIsLost) {
    EXPECT_FALSE(must(upkeep_->keep("one", kLease))) << "never had";
    EXPECT_TRUE(begin("one"));
    EXPECT_TRUE(must(upkeep_->keep("one", std::chrono::seconds(600))));
    expect_lease_lasts(600);
    let_the_lease_run_out();
    EXPECT_TRUE(must(upkeep_->keep("one", kLease))) << "nobody else took it";
    expect_lease_lasts(60);
    let_the_lease_run_out();
    EXPECT_TRUE(begin("two"));
    EXPECT_FALSE(must(upkeep_->keep("one", std::chrono::seconds(600))));
    EXPECT_EQ(lease("owner"), "two");
    expect_lease_lasts(60);
}

TEST_P(UpkeepConformance, AFormerOwnerEndsNothing) {
    EXPECT_TRUE(begin("one"));
    let_the_lease_run_out();
    EXPECT_TRUE(begin("two"));
    end("one", true);
    EXPECT_EQ(chores_done(), "0");
    EXPECT_EQ(lease("owner"), "two");
    expect_lease_lasts(60);
    EXPECT_FALSE(begin("three")) << "two still has it";
}

TEST_P(UpkeepConformance, WhoseLeaseRanOutStillEndsWhatNobodyTook) {
    EXPECT_TRUE(begin("one"));
    let_the_lease_run_out();
    end("one", true);
    EXPECT_EQ(chores_done(), "1");
    EXPECT_FALSE(begin("two"));
}

TEST_P(UpkeepConformance, PurgingDeletesWhatIsOverOldestFirst) {
    add_ledger("newest", -10);
    add_ledger("oldest", -30);
    add_ledger("middle", -20);
    add_ledger("alive", 600);
    EXPECT_EQ(must(upkeep_->purge_ledger(2)), 2);
    EXPECT_FALSE(in_ledger("oldest"));
    EXPECT_FALSE(in_ledger("middle"));
    EXPECT_TRUE(in_ledger("newest"));
    EXPECT_EQ(must(upkeep_->purge_ledger(2)), 1);
    EXPECT_FALSE(in_ledger("newest"));
    EXPECT_EQ(must(upkeep_->purge_ledger(2)), 0);
    EXPECT_TRUE(in_ledger("alive"));
}

TEST_P(UpkeepConformance, WrongArgumentsAreRefused) {
    expect_refused(upkeep_->begin("", "one", kInterval, kLease), "chore");
    expect_refused(upkeep_->begin("tidy", "", kInterval, kLease), "owner");
    expect_refused(upkeep_->begin("tidy", "one", std::chrono::seconds(-1), kLease), "interval");
    expect_refused(upkeep_->begin("tidy", "one", kInterval, std::chrono::seconds(-1)), "lease");
    expect_refused(upkeep_->keep("", kLease), "owner");
    expect_refused(upkeep_->keep("one", std::chrono::seconds(-1)), "lease");
    expect_refused(upkeep_->end("", "one", true), "chore");
    expect_refused(upkeep_->end("tidy", "", true), "owner");
    expect_refused(upkeep_->purge_ledger(0), "limit");
    EXPECT_EQ(lease("count(*)"), "0");
}

/// Each round starts as the very first one does, or from a lease that its former owner let run out.
TEST_P(UpkeepConformance, OfSeveralThatBeginAtOnceExactlyOneDoes) {
    constexpr int kRounds = 20;
    const std::unique_ptr<Database> other = store_->open_again();
    const std::unique_ptr<Upkeep> others = other->upkeep();
    struct Contender {
        Upkeep* upkeep = nullptr;
        std::string owner;
        Result<bool> began = false;
    };
    std::vector<Contender> contenders = {
        {upkeep_.get(), "one"}, {upkeep_.get(), "two"}, {others.get(), "three"}, {others.get(), "four"}};
    std::barrier together(static_cast<std::ptrdiff_t>(contenders.size()));
    for (int round = 0; round < kRounds; ++round) {
        if (round % 2 == 0) {
            store_->execute("delete from " + GetParam().leases);
        } else {
            store_->execute("update " + GetParam().leases + " set owner = 'gone'");
            let_the_lease_run_out();
        }
        std::vector<std::thread> threads;
        for (Contender& contender : contenders) {
            threads.emplace_back([&together, &contender] {
                together.arrive_and_wait();
                contender.began = contender.upkeep->begin("tidy", contender.owner, kInterval, kLease);
            });
        }
        for (std::thread& thread : threads) thread.join();
        std::vector<std::string> winners;
        for (const Contender& contender : contenders) {
            if (must(contender.began)) winners.push_back(contender.owner);
        }
        ASSERT_THAT(winners, ::testing::ElementsAre(lease("owner"))) << "round " << round;
    }
}

}  // namespace deliverd::store::conformance
