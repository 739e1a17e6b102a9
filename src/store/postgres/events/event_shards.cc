#include "store/postgres/events/event_shards.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/try.h"
#include "client/lease_arguments.h"
#include "deliverd/error_codes.h"
#include "store/event_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/statements.h"

namespace deliverd::store::postgres {
namespace {

const Statement& shard_statement(std::string_view text) {
    static const Statements kStatements("", {events::sql::all});
    return kStatements[text];
}

}  // namespace

Result<void> check_owner(std::string_view owner) {
    if (owner.empty()) return permanent(codes::kBadArgument, "owner must not be empty");
    return client::check_text("owner", owner);
}

Result<ShardShare> EventShards::tend(std::string_view owner, Duration lease) {
    TRY(check_owner(owner));
    const double seconds = to_seconds(lease);
    if (seconds <= 0 || seconds > client::kMaxLeaseSeconds) {
        return permanent(codes::kBadArgument, "lease must be longer than nothing and at most 31 years");
    }
    TRY_ASSIGN(auto connection, pool_.borrow());
    auto tended = try_tend(*connection, owner, seconds, false);
    if (tended && !tended->stored.fits(shards_) && tended->stored.others == 0) {
        tended = try_tend(*connection, owner, seconds, true);
    }
    if (!tended) return Failure(std::move(tended.error()));
    if (!tended->stored.fits(shards_)) return other_shards(lane_, shards_, tended->stored);
    return std::move(tended->share);
}

/// Durable: a lease that a crash of the server forgot could be taken by another while the relay still counts on it. It
/// is one commit every few seconds.
Result<EventShards::Tended> EventShards::try_tend(Connection& connection, std::string_view owner, double lease_seconds,
                                                  bool remake) {
    const Params lane(lane_);
    const Params remade(lane_, shards_, owner);
    const Params all(lane_, shards_, owner, lease_seconds);
    const Params forget(lane_, lease_seconds * kForgetAfterLeases);
    const Params lane_owner(lane_, owner);
    std::vector<Step> steps;
    const auto add = [&](std::string_view text, const Params& params) {
        steps.push_back(Step{&shard_statement(text), &params});
    };
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
    TRY(run_once(pool_, shard_statement(events::sql::release_shards), params, Effect::write));
    return {};
}

Result<void> EventShards::leave(std::string_view owner) {
    TRY(check_owner(owner));
    const Params params(lane_, owner);
    TRY_ASSIGN(auto connection, pool_.borrow());
    const std::array steps = {Step{&shard_statement(events::sql::release_all_shards), &params},
                              Step{&shard_statement(events::sql::leave_lane), &params}};
    TRY(connection->run(steps, Effect::write, connection->statement_deadline()));
    return {};
}

Result<void> EventShards::set_asleep(std::string_view owner, bool asleep) {
    TRY(check_owner(owner));
    const Params params(lane_, owner, asleep ? 1 : 0);
    TRY_ASSIGN(auto connection, pool_.borrow());
    // What a crash forgets costs a notification, and the relay looks by itself as well.
    const std::array steps = {relaxed_commit(), Step{&shard_statement(events::sql::set_asleep), &params}};
    TRY(connection->run(steps, Effect::write, connection->statement_deadline()));
    return {};
}

}  // namespace deliverd::store::postgres
