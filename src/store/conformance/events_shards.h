// The guarantees of store/events.h about shards, leases and what a settlement needs to count, for every store.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

#include "store/conformance/events_fixture.h"

namespace deliverd::store::conformance {

class EventShardsConformance : public EventsFixture {
protected:
    /// As if the relay had died and its leases had run out.
    void expire(const std::string& owner) {
        for (const std::string& name : {GetParam().shards, GetParam().relays}) {
            store_->execute("update " + name + " set expires_at = " + store_->time_expression(-1) + " where owner = '" +
                            owner + "'");
        }
    }
    /// As a relay does it: a heartbeat, and what is above the share is given back.
    std::map<std::int32_t, ShardLease> turn(const std::string& owner) {
        ShardShare share = must(outbox_->tend(owner, kLease));
        std::vector<ShardLease> surplus;
        while (share.held.size() > static_cast<std::size_t>(share.share)) {
            surplus.push_back(share.held.back());
            share.held.pop_back();
        }
        if (!surplus.empty()) must(outbox_->release(owner, surplus));
        std::map<std::int32_t, ShardLease> leases;
        for (const ShardLease& lease : share.held) leases.emplace(lease.shard, lease);
        return leases;
    }
    /// Two turns of each: enough to be even.
    std::map<std::string, std::size_t> settled_down(const std::vector<std::string>& owners) {
        std::map<std::string, std::size_t> held;
        std::set<std::int32_t> all;
        for (const std::string& owner : owners) turn(owner);
        for (const std::string& owner : owners) {
            const auto leases = turn(owner);
            held[owner] = leases.size();
            for (const auto& [shard, lease] : leases) EXPECT_TRUE(all.insert(shard).second) << "held twice: " << shard;
        }
        EXPECT_EQ(all.size(), static_cast<std::size_t>(kShards));
        return held;
    }
    std::int64_t token_sum() { return std::stoll(store_->value("select sum(token) from " + GetParam().shards)); }
};

TEST_P(EventShardsConformance, ASentRowIsPublished) {
    const std::int64_t id = add("a");
    const EventRow row = only(everything());
    EXPECT_EQ(settle(row), EventSettled::applied);
    EXPECT_EQ(count("outbox where published and published_at >= created_at and retry_count = 0"), "1");
    EXPECT_TRUE(read().empty());
    EXPECT_EQ(settle(row), EventSettled::conflict) << "it is no longer open";
    EXPECT_EQ(count("outbox_audit"), "0") << "successes are not in it";
    EXPECT_EQ(state(id, "last_error"), "");
}

TEST_P(EventShardsConformance, ASentRowIsDeletedWhereThatIsWanted) {
    EventTable removing = table();
    removing.after_publish = AfterPublish::remove;
    outbox_ = outbox(removing);
    add("a");
    add("b");
    const auto rows = read();
    EXPECT_EQ(settle(rows.at(0)), EventSettled::applied);
    EXPECT_EQ(settle(rows.at(0)), EventSettled::conflict) << "it is gone";
    EXPECT_EQ(count("outbox"), "1");
}

TEST_P(EventShardsConformance, AFailedRowWaitsAndIsInTheAudit) {
    const std::int64_t id = add("a");
    EXPECT_EQ(settle(only(everything()), SettleKind::retry), EventSettled::applied);
    EXPECT_EQ(state(id, "retry_count"), "1");
    EXPECT_EQ(state(id, "last_error"), "BROKER_5XX: no");
    EXPECT_EQ(count("outbox where next_attempt_at > " + store_->time_expression(3500) + " and next_attempt_at < " +
                    store_->time_expression(3700)),
              "1");
    EXPECT_TRUE(read().empty());
    const std::string audited = "outbox_audit where outbox = 'events' and outbox_id = " + std::to_string(id) +
                                " and worker = 'r' and actor = 'r' and last_error = 'BROKER_5XX: no' and reason = ";
    EXPECT_EQ(count(audited + "'outbox_flush_retry' and retry_count = 1"), "1");

    set_waiting(id, -1, 1);
    EXPECT_EQ(settle(only(everything()), SettleKind::dead), EventSettled::applied);
    EXPECT_EQ(state(id, "retry_count"), "2");
    EXPECT_EQ(count("outbox where dead_at is not null and not published"), "1");
    EXPECT_EQ(count(audited + "'outbox_flush_dead' and retry_count = 2"), "1");
    EXPECT_EQ(count("outbox_audit"), "2");
}

TEST_P(EventShardsConformance, ASettlementNeedsTheCountItWasReadWith) {
    const std::int64_t id = add("a");
    const EventRow stale = only(everything());
    set_waiting(id, -1, 2);
    for (const SettleKind kind : {SettleKind::sent, SettleKind::retry, SettleKind::dead}) {
        EXPECT_EQ(settle(stale, kind), EventSettled::conflict);
    }
    EXPECT_EQ(count("outbox where retry_count = 2 and dead_at is null and not published"), "1");
    EXPECT_EQ(count("outbox_audit"), "0");
    EXPECT_EQ(settle(only(everything())), EventSettled::applied);
}

TEST_P(EventShardsConformance, AnswersEachOfABatchInItsPlace) {
    for (int n = 0; n < 6; ++n) add("a" + std::to_string(n));
    const auto rows = read();
    const auto leases = tend("r");
    store_->execute("delete from outbox where id = 2");
    std::vector<EventSettlement> batch = {
        settlement(rows.at(5), leases.at(rows[5].shard)),
        settlement(rows.at(0), leases.at(rows[0].shard), SettleKind::retry),
        settlement(rows.at(1), leases.at(rows[1].shard)),
        settlement(rows.at(2), {rows[2].shard, leases.at(rows[2].shard).token + 1}),
        settlement(rows.at(3), leases.at(rows[3].shard), SettleKind::dead),
        settlement(rows.at(5), leases.at(rows[5].shard)),
        settlement(rows.at(4), leases.at(rows[4].shard)),
    };
    using enum EventSettled;
    EXPECT_THAT(must(outbox_->settle("r", batch)),
                ::testing::ElementsAre(applied, applied, conflict, fenced, applied, conflict, applied));
    EXPECT_EQ(count("outbox where published"), "2");
    EXPECT_EQ(count("outbox where id = 3 and not published and retry_count = 0"), "1");
    EXPECT_TRUE(must(outbox_->settle("r", {})).empty());
    expect_refused(outbox_->settle("", batch), "owner");
}

TEST_P(EventShardsConformance, SettlesLargeBatches) {
    store_->execute(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < 3000) insert into outbox"
        " (aggregate_id, event_type, payload) select 'a' || (i % 300), 'T', '{}' from n");
    EventRead request = everything();
    request.limit = 3000;
    const auto leases = tend("r");
    std::vector<EventSettlement> batch;
    for (const EventRow& row : read(request)) batch.push_back(settlement(row, leases.at(row.shard)));
    ASSERT_EQ(batch.size(), 3000U);
    const auto answers = must(outbox_->settle("r", batch));
    EXPECT_EQ(std::ranges::count(answers, EventSettled::applied), 3000);
    EXPECT_EQ(count("outbox where published"), "3000");
}

TEST_P(EventShardsConformance, AFormerOwnersSettlementChangesNothing) {
    add("a");
    const EventRow row = only(everything());
    const ShardLease former = tend("r").at(row.shard);
    expire("r");
    const ShardLease current = tend("s").at(row.shard);
    EXPECT_GT(current.token, former.token);
    for (const SettleKind kind : {SettleKind::sent, SettleKind::retry, SettleKind::dead}) {
        EXPECT_EQ(settle("r", settlement(row, former, kind)), EventSettled::fenced);
        EXPECT_EQ(settle("r", settlement(row, current, kind)), EventSettled::fenced) << "another's token";
        EXPECT_EQ(settle("s", settlement(row, former, kind)), EventSettled::fenced) << "an old token";
    }
    EXPECT_EQ(count("outbox where not published and retry_count = 0 and dead_at is null"), "1");
    EXPECT_EQ(count("outbox_audit"), "0");
    EXPECT_EQ(settle("s", settlement(row, current)), EventSettled::applied);
}

TEST_P(EventShardsConformance, ALeaseThatRanOutAndNobodyTookStillSettles) {
    add("a");
    const EventRow row = only(everything());
    const ShardLease lease = tend("r").at(row.shard);
    expire("r");
    EXPECT_EQ(settle("r", settlement(row, lease)), EventSettled::applied);
}

TEST_P(EventShardsConformance, AReleasedShardNoLongerSettles) {
    add("a");
    const EventRow row = only(everything());
    const ShardLease lease = tend("r").at(row.shard);
    must(outbox_->release("r", std::span(&lease, 1)));
    EXPECT_EQ(settle("r", settlement(row, lease)), EventSettled::fenced);
    const ShardLease again = tend("r").at(row.shard);
    EXPECT_GT(again.token, lease.token) << "taken anew";
    must(outbox_->release("r", std::span(&lease, 1)));
    must(outbox_->release("s", std::span(&again, 1)));
    EXPECT_EQ(settle("r", settlement(row, again)), EventSettled::applied) << "only with the token, only the owner's";
    must(outbox_->release("r", {}));
}

TEST_P(EventShardsConformance, OneRelayHoldsAllAndKeepsItsTokens) {
    const ShardShare first = must(outbox_->tend("r", kLease));
    EXPECT_EQ(first.relays, 1);
    EXPECT_EQ(first.share, kShards);
    ASSERT_EQ(first.held.size(), static_cast<std::size_t>(kShards));
    for (std::int32_t shard = 0; shard < kShards; ++shard) {
        EXPECT_EQ(first.held.at(static_cast<std::size_t>(shard)).shard, shard) << "in order";
    }
    EXPECT_EQ(must(outbox_->tend("r", kLease)).held, first.held);
    expire("r");
    EXPECT_EQ(must(outbox_->tend("r", kLease)).held, first.held) << "nobody took them meanwhile";
    EXPECT_EQ(count(GetParam().shards + " where expires_at > " + store_->time_expression(50)), "8") << "renewed";
}

TEST_P(EventShardsConformance, ASecondRelayGetsItsShareWhenTheFirstGivesItBack) {
    tend("a");
    const ShardShare second = must(outbox_->tend("b", kLease));
    EXPECT_TRUE(second.held.empty());
    EXPECT_EQ(second.relays, 2);
    EXPECT_EQ(second.share, kShards / 2);
    const ShardShare first = must(outbox_->tend("a", kLease));
    EXPECT_EQ(first.held.size(), static_cast<std::size_t>(kShards)) << "nothing is taken away";
    EXPECT_EQ(first.share, kShards / 2);
    EXPECT_EQ(turn("a").size(), 4U);
    EXPECT_EQ(turn("b").size(), 4U);
}

TEST_P(EventShardsConformance, RelaysThatComeAndGoShareEvenly) {
    using Held = std::map<std::string, std::size_t>;
    EXPECT_EQ(settled_down({"a"}), (Held{{"a", 8}}));
    EXPECT_EQ(settled_down({"a", "b"}), (Held{{"a", 4}, {"b", 4}}));
    EXPECT_EQ(settled_down({"a", "b", "c"}), (Held{{"a", 3}, {"b", 3}, {"c", 2}}));
    EXPECT_EQ(settled_down({"d", "c", "b", "a"}), (Held{{"a", 2}, {"b", 2}, {"c", 2}, {"d", 2}}));
    EXPECT_EQ(settled_down({"a", "b", "c", "d", "e"}), (Held{{"a", 2}, {"b", 2}, {"c", 2}, {"d", 1}, {"e", 1}}));
    must(outbox_->leave("b"));
    expire("d");
    EXPECT_EQ(settled_down({"a", "c", "e"}), (Held{{"a", 3}, {"c", 3}, {"e", 2}}));
    must(outbox_->leave("a"));
    must(outbox_->leave("c"));
    EXPECT_EQ(settled_down({"e"}), (Held{{"e", 8}}));
}

TEST_P(EventShardsConformance, MoreRelaysThanShardsLeaveSomeWithout) {
    std::vector<std::string> owners;
    for (int n = 0; n < 10; ++n) owners.push_back("r" + std::to_string(n));
    const auto held = settled_down(owners);
    EXPECT_EQ(held.at("r7"), 1U);
    EXPECT_EQ(held.at("r8"), 0U);
    EXPECT_EQ(held.at("r9"), 0U);
}

TEST_P(EventShardsConformance, WhoLeftIsNotCountedAndItsTokensAreSpent) {
    const auto before = tend("a");
    const std::int64_t tokens = token_sum();
    must(outbox_->leave("a"));
    EXPECT_EQ(count(GetParam().relays), "0");
    const ShardShare next = must(outbox_->tend("b", kLease));
    EXPECT_EQ(next.relays, 1);
    EXPECT_EQ(next.held.size(), static_cast<std::size_t>(kShards)) << "at once";
    EXPECT_EQ(token_sum(), tokens + kShards);
    for (const ShardLease& lease : next.held) EXPECT_GT(lease.token, before.at(lease.shard).token);
    must(outbox_->leave("nobody"));
}

TEST_P(EventShardsConformance, ForgetsRelaysThatHaveBeenDeadForLong) {
    tend("old");
    store_->execute("update " + GetParam().relays + " set expires_at = " + store_->time_expression(-3600));
    must(outbox_->tend("r", std::chrono::seconds(100)));
    EXPECT_EQ(count(GetParam().relays), "1");
}

TEST_P(EventShardsConformance, LanesDoNotShareShards) {
    EventTable other = table();
    other.lane = "others";
    other.shards = 3;
    const auto second = outbox(other);
    tend("a");
    const ShardShare share = must(second->tend("b", kLease));
    EXPECT_EQ(share.relays, 1);
    EXPECT_EQ(share.held.size(), 3U);
    must(second->leave("a"));
    EXPECT_EQ(tend("a").size(), 8U) << "a leave is of one lane";
}

TEST_P(EventShardsConformance, RefusesImpossibleOwnerNames) {
    expect_refused(outbox_->tend("", kLease), "owner");
    expect_refused(outbox_->tend("r", Duration::zero()), "lease");
    expect_refused(outbox_->leave(""), "owner");
    expect_refused(outbox_->set_asleep("", true), "owner");
    expect_refused(outbox_->release("", {}), "owner");
}

/// Relays that take, lose and give back shards while they settle: each row is settled once, by an owner.
TEST_P(EventShardsConformance, RelaysAtTheSameTimeSettleEachRowOnce) {
    constexpr int kRelays = 3;
    constexpr int kRows = 600;
    store_->execute(
        "with recursive n (i) as (select 1 union all select i + 1 from n where i < " + std::to_string(kRows) +
        ") insert into outbox (aggregate_id, event_type, payload) select 'a' || (i % 40), 'T', '{}' from n");
    std::atomic<int> applied = 0;
    std::mutex mutex;
    std::string fault;
    const auto relay = [&](int number) {
        const auto database = store_->open_again();
        const auto mine = must(database->event_outbox(table()));
        const std::string owner = "r" + std::to_string(number);
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        for (int round = 0; applied < kRows && std::chrono::steady_clock::now() < deadline; ++round) {
            // A lease that has run out by the next round: others take it at any time.
            const auto share = mine->tend(owner, std::chrono::milliseconds(1));
            if (!share) {
                if (share.error().error_class == ErrorClass::retryable) continue;
                const std::lock_guard lock(mutex);
                fault = share.error().message;
                return;
            }
            EventRead request;
            request.limit = 20;
            std::map<std::int32_t, ShardLease> leases;
            for (const ShardLease& lease : share->held) {
                request.shards.push_back(lease.shard);
                leases.emplace(lease.shard, lease);
            }
            const auto batch = mine->read(request);
            std::vector<EventSettlement> settlements;
            for (const EventRow& row : batch ? batch->rows : std::vector<EventRow>()) {
                settlements.push_back(settlement(row, leases.at(row.shard)));
            }
            const auto answers = mine->settle(owner, settlements);
            if (answers) applied += static_cast<int>(std::ranges::count(*answers, EventSettled::applied));
            if (round % 5 == number) {
                if (const auto left = mine->release(owner, share->held); !left) continue;
            }
        }
    };
    std::vector<std::thread> threads;
    for (int n = 0; n < kRelays; ++n) threads.emplace_back(relay, n);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(fault, "");
    EXPECT_EQ(applied, kRows);
    EXPECT_EQ(count("outbox where published"), std::to_string(kRows));
}

}  // namespace deliverd::store::conformance
