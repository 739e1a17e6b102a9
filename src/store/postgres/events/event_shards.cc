#include "store/postgres/events/event_shards.h"

#include <array>
#include <utility>

#include "base/try.h"
#include "store/event_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_sql.h"
#include "store/postgres/events/statements.h"

namespace deliverd::store::postgres {

Result<ShardShare> EventShards::tend(std::string_view owner, Duration lease) {
    TRY(check_tend(owner, lease));
    TRY_ASSIGN(auto connection, pool_.borrow());
    TRY_ASSIGN(auto tended, try_tend(*connection, owner, to_seconds(lease), false));
    // The lock that it takes to change the number holds up all relays of the lane: it is taken only when needed.
    if (!tended.stored.fits(shards_) && tended.stored.others == 0) {
        TRY_ASSIGN(tended, try_tend(*connection, owner, to_seconds(lease), true));
    }
    if (!tended.stored.fits(shards_)) return other_shards(lane_, shards_, tended.stored);
    return std::move(tended.share);
}

/// Durable, unlike the claim of a row lease: if a crash of the server forgot a shard lease, another relay could take it
/// while this one still counts on it. It is one commit every few seconds.
Result<EventShards::Tended> EventShards::try_tend(Connection& connection, std::string_view owner, double lease_seconds,
                                                  bool remake) {
    const Params lane(lane_);
    const Params remade(lane_, shards_, owner);
    const Params all(lane_, shards_, owner, lease_seconds);
    const Params forget(lane_, lease_seconds * kForgetAfterLeases);
    const Params lane_owner(lane_, owner);
    std::vector<Step> steps;
    const auto add = [&](std::string_view text, const Params& params) {
        steps.push_back(Step{&fixed_statement(text), &params});
    };
    // The lock of the lane comes before those of shards, in every relay. The heartbeat comes before the shares are
    // counted, so that this relay counts.
    add(remake ? events::sql::lock_lane : events::sql::share_lane, lane);
    if (remake) add(events::sql::remake_shards, remade);
    add(events::sql::beat, all);
    add(events::sql::forget_relays, forget);
    add(events::sql::renew_shards, all);
    add(events::sql::take_shards, all);
    add(events::sql::stored_shards, lane_owner);
    add(events::sql::relays_alive, lane_owner);
    add(events::sql::held_shards, lane_owner);
    TRY_ASSIGN(auto results, connection.run(steps, Effect::write, connection.statement_deadline()));
    const std::span<const PgResult> answers = std::span(results).last(3);
    Tended tended;
    StoredShards& stored = tended.stored;
    read_row(answers[0].get(), 0, stored.count, stored.last, stored.others);
    std::int32_t place = 0;
    read_row(answers[1].get(), 0, tended.share.relays, place);
    tended.share.share = shard_share(shards_, tended.share.relays, place);
    for (int row = 0; row < PQntuples(answers[2].get()); ++row) {
        ShardLease& lease = tended.share.held.emplace_back();
        read_row(answers[2].get(), row, lease.shard, lease.token);
    }
    return tended;
}

Result<void> EventShards::release(std::string_view owner, std::span<const ShardLease> leases) {
    TRY(check_owner(owner));
    if (leases.empty()) return {};
    const Params params(lane_, owner, column(leases, &ShardLease::shard), column(leases, &ShardLease::token));
    TRY(run_once(pool_, fixed_statement(events::sql::release_shards), params, Effect::write));
    return {};
}

Result<void> EventShards::leave(std::string_view owner) {
    TRY(check_owner(owner));
    const Params params(lane_, owner);
    TRY_ASSIGN(auto connection, pool_.borrow());
    const std::array steps = {Step{&fixed_statement(events::sql::release_all_shards), &params},
                              Step{&fixed_statement(events::sql::leave_lane), &params}};
    TRY(connection->run(steps, Effect::write, connection->statement_deadline()));
    return {};
}

Result<void> EventShards::set_asleep(std::string_view owner, bool asleep) {
    TRY(check_owner(owner));
    const Params params(lane_, owner, asleep ? 1 : 0);
    TRY_ASSIGN(auto connection, pool_.borrow());
    // If a crash forgets it, a writer does not notify, and the relay finds the event with its next poll.
    const std::array steps = {relaxed_commit(), Step{&fixed_statement(events::sql::set_asleep), &params}};
    TRY(connection->run(steps, Effect::write, connection->statement_deadline()));
    return {};
}

}  // namespace deliverd::store::postgres
