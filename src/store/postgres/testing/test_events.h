// An event table on PostgreSQL and what its tests do with it. Only tests include this.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "store/events.h"
#include "store/postgres/testing/test_server.h"

namespace deliverd::store::postgres {

class PostgresEvents : public ::testing::Test {
protected:
    static constexpr std::int32_t kShards = 4;

    static EventTable table() {
        EventTable table;
        table.lane = "events";
        table.shards = kShards;
        return table;
    }
    std::unique_ptr<EventOutbox> outbox(const EventTable& table) {
        return conformance::must(store_.database().event_outbox(table));
    }
    void add(const std::string& aggregate) {
        store_.execute("insert into outbox (aggregate_id, event_type, payload) values ('" + aggregate +
                       "', 'T', '{}')");
    }
    static std::vector<EventRow> read(EventOutbox& outbox) {
        EventRead request;
        for (std::int32_t shard = 0; shard < kShards; ++shard) request.shards.push_back(shard);
        request.limit = 1000;
        request.due_limit = 1000;
        return conformance::must(outbox.read(request)).rows;
    }
    static std::vector<std::string> ids(const std::vector<EventRow>& rows) {
        std::vector<std::string> out;
        for (const EventRow& row : rows) out.push_back(row.row_id);
        return out;
    }
    static ShardLease lease(EventOutbox& outbox, const std::string& owner, std::int32_t shard) {
        for (const ShardLease& held : conformance::must(outbox.tend(owner, std::chrono::seconds(60))).held) {
            if (held.shard == shard) return held;
        }
        ADD_FAILURE() << owner << " does not hold " << shard;
        return {};
    }
    static EventSettlement settlement(const EventRow& row, ShardLease lease, SettleKind kind = SettleKind::sent) {
        EventSettlement out;
        out.row_id = row.row_id;
        out.aggregate_id = row.message.key;
        out.lease = lease;
        out.settlement.id = row.sequence;
        out.settlement.kind = kind;
        out.settlement.failures_before = row.message.failures;
        out.settlement.error = "BROKER_5XX: no";
        return out;
    }
    static EventSettled settle(EventOutbox& outbox, const std::string& owner, const EventSettlement& one) {
        return conformance::must(outbox.settle(owner, std::span(&one, 1))).at(0);
    }
    std::string count(const std::string& from) { return store_.value("select count(*) from " + from); }
    /// Backends of the store that wait for a lock; in a settle: the second of its tries, which waits for longer.
    static constexpr const char* kWaiting =
        " from pg_stat_activity where application_name = 'deliverd' and datname = current_database()"
        " and wait_event_type = 'Lock' and query like '%skip locked%'";
    static bool someone_waits(PlainConnection& other) {
        return wait_until([&] { return !other.column(std::string("select pid") + kWaiting).empty(); });
    }

    PostgresTestStore store_{true};
    std::unique_ptr<EventOutbox> outbox_ = outbox(table());
};

}  // namespace deliverd::store::postgres
