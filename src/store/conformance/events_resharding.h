// The guarantees of store/events.h about a lane whose number of shards changes, for every store.
#pragma once

#include <barrier>
#include <thread>

#include "store/conformance/events_shards.h"

namespace deliverd::store::conformance {

class EventReshardingConformance : public EventShardsConformance {
protected:
    static EventTable table_with(std::int32_t shards) {
        EventTable table = EventsFixture::table();
        table.shards = shards;
        return table;
    }
    std::unique_ptr<EventOutbox> with(std::int32_t shards) { return outbox(table_with(shards)); }
    static void expect_waits(const Result<ShardShare>& tended, std::int32_t stored, std::int32_t wanted) {
        ASSERT_FALSE(tended.has_value());
        EXPECT_EQ(tended.error().code, codes::kOtherShards);
        EXPECT_EQ(tended.error().error_class, ErrorClass::retryable) << "it passes by itself";
        for (const std::string& told : {std::string("the lane events"), std::to_string(stored) + " shards",
                                        "shards is " + std::to_string(wanted), std::string("stop them")}) {
            EXPECT_THAT(tended.error().message, ::testing::HasSubstr(told));
        }
    }
    std::int64_t highest_token() {
        return std::stoll(store_->value("select coalesce(max(token), 0) from " + GetParam().shards));
    }
    static void expect_all(const ShardShare& share, std::int32_t shards, std::int64_t tokens_above) {
        EXPECT_EQ(share.relays, 1);
        EXPECT_EQ(share.share, shards);
        ASSERT_EQ(share.held.size(), static_cast<std::size_t>(shards));
        for (std::int32_t shard = 0; shard < shards; ++shard) {
            EXPECT_EQ(share.held[static_cast<std::size_t>(shard)].shard, shard);
            EXPECT_GT(share.held[static_cast<std::size_t>(shard)].token, tokens_above);
        }
    }
};

TEST_P(EventReshardingConformance, AnotherNumberWaitsWhileAnotherRelayLives) {
    for (const std::int32_t other : {12, 5}) {
        const ShardShare before = must(outbox_->tend("old", kLease));
        const auto waiting = with(other);
        for (const char* owner : {"new-1", "new-2"}) expect_waits(waiting->tend(owner, kLease), kShards, other);
        EXPECT_EQ(count(GetParam().shards), "8");
        const ShardShare after = must(outbox_->tend("old", kLease));
        EXPECT_EQ(after.held, before.held);
        EXPECT_EQ(after.relays, 1) << "who waits has no share";

        const ShardShare helper = must(outbox_->tend("old-2", kLease));
        EXPECT_EQ(helper.relays, 2);
        must(outbox_->leave("old"));
        expect_waits(waiting->tend("new-1", kLease), kShards, other);
        must(outbox_->leave("old-2"));
        expect_all(must(waiting->tend("new-1", kLease)), other, before.held.back().token);
        EXPECT_EQ(must(waiting->tend("new-2", kLease)).relays, 2);
        expect_waits(outbox_->tend("old", kLease), other, kShards);
        must(waiting->leave("new-1"));
        expect_waits(outbox_->tend("old", kLease), other, kShards);
        must(waiting->leave("new-2"));
    }
}

TEST_P(EventReshardingConformance, TokensKeepGrowingWhateverTheNumber) {
    must(outbox_->tend("r0", kLease));
    for (int n = 0; n < 3; ++n) {  // some shards have changed hands more often than others
        expire("r0");
        must(outbox_->tend("r1", kLease));
        must(outbox_->leave("r1"));
        const ShardShare share = must(outbox_->tend("r0", kLease));
        must(outbox_->release("r0", std::span(share.held).last(3)));
    }
    int relay = 0;
    for (const std::int32_t shards : {12, 3, 1, 8, 64, 8}) {
        SCOPED_TRACE(shards);
        const std::int64_t before = highest_token();
        const std::string former = "r" + std::to_string(relay);
        if (relay % 2 == 0) {
            expire(former);
        } else {
            must(outbox_->leave(former));
        }
        expect_all(must(with(shards)->tend("r" + std::to_string(++relay), kLease)), shards, before);
        EXPECT_EQ(count(GetParam().shards), std::to_string(shards));
    }
}

TEST_P(EventReshardingConformance, WhatWasBegunWithTheFormerNumberIsFenced) {
    for (int n = 0; n < 20; ++n) add("a" + std::to_string(n));
    const auto rows = read();
    const auto former = tend("old");
    expire("old");
    for (const std::int32_t shards : {12, 2}) {
        const std::string owner = "new-" + std::to_string(shards);
        must(with(shards)->tend(owner, kLease));
        for (const SettleKind kind : {SettleKind::sent, SettleKind::retry, SettleKind::dead}) {
            for (const EventRow& row : rows) {
                EXPECT_EQ(settle("old", settlement(row, former.at(row.shard), kind)), EventSettled::fenced);
            }
        }
        expire(owner);
    }
    EXPECT_EQ(count("outbox where not published and retry_count = 0 and dead_at is null"), "20");
    EXPECT_EQ(count("outbox_audit"), "0");
    for (const EventRow& row : rows) {
        EXPECT_EQ(settle("old", settlement(row, tend("old").at(row.shard))), EventSettled::applied);
    }
}

TEST_P(EventReshardingConformance, ARelayThatWasAloneComesBackWithAnotherNumber) {
    must(outbox_->tend("r", kLease));
    for (const std::int32_t shards : {12, 5}) {
        expect_all(must(with(shards)->tend("r", kLease)), shards, 0);
        EXPECT_EQ(count(GetParam().shards), std::to_string(shards));
    }
}

TEST_P(EventReshardingConformance, LanesHaveTheirOwnNumbers) {
    must(outbox_->tend("r", kLease));
    EventTable other = table_with(3);
    other.lane = "others";
    expect_all(must(outbox(other)->tend("s", kLease)), 3, 0);
    other.shards = 4;
    must(outbox(other)->leave("s"));
    expect_all(must(outbox(other)->tend("s", kLease)), 4, 1);
    EXPECT_EQ(must(outbox_->tend("r", kLease)).held.size(), 8U);
}

/// Whoever comes first decides; the others have the same number or wait. No shard of one number lives beside another.
TEST_P(EventReshardingConformance, RelaysThatStartAtTheSameMomentHaveOneNumber) {
    constexpr int kRelays = 4;
    constexpr int kRounds = 25;
    const auto shards_of = [](int relay) { return relay % 2 == 0 ? 8 : 12; };
    const auto owner_of = [](int relay) { return "r" + std::to_string(relay); };
    std::vector<Result<ShardShare>> tended(kRelays, retryable("", ""));
    std::barrier gate(kRelays + 1);
    const auto relay = [&](int number) {
        const auto database = store_->open_again();
        const auto mine = must(database->event_outbox(table_with(shards_of(number))));
        for (int round = 0; round < kRounds; ++round) {
            gate.arrive_and_wait();
            tended[static_cast<std::size_t>(number)] = mine->tend(owner_of(number), kLease);
            gate.arrive_and_wait();
        }
    };
    std::vector<std::thread> threads;
    for (int n = 0; n < kRelays; ++n) threads.emplace_back(relay, n);
    for (int round = 0; round < kRounds; ++round) {
        SCOPED_TRACE(round);
        for (int n = 0; n < kRelays; ++n) EXPECT_TRUE(outbox_->leave(owner_of(n)).has_value());
        if (round % 2 == 0) store_->execute("delete from " + GetParam().shards);
        gate.arrive_and_wait();
        gate.arrive_and_wait();
        const std::string stored = count(GetParam().shards);
        std::set<std::int32_t> held;
        for (int n = 0; n < kRelays; ++n) {
            const Result<ShardShare>& answer = tended[static_cast<std::size_t>(n)];
            const bool fits = stored == std::to_string(shards_of(n));
            EXPECT_EQ(answer.has_value(), fits) << (answer ? "" : answer.error().message);
            if (!answer) {
                EXPECT_EQ(answer.error().code, codes::kOtherShards) << answer.error().message;
                continue;
            }
            for (const ShardLease& lease : answer->held) EXPECT_TRUE(held.insert(lease.shard).second) << lease.shard;
        }
        EXPECT_EQ(std::to_string(held.size()), stored);
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace deliverd::store::conformance
