#include "store/postgres/events/event_shards.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/lease_arguments.h"
#include "store/event_row.h"
#include "store/postgres/connection/cells.h"

namespace deliverd::store::postgres {
namespace {

// All take the lane first.

// Who tends shares a lock of the lane with the others; who changes the number of its shards has it alone. Settling does
// without: the rows of its leases are locked.
#define DELIVERD_LANE_KEY "hashtextextended('deliverd.shards ' || $1::text, 0)"
const Statement kShareLane{"shards_share_lane", "select pg_advisory_xact_lock_shared(" DELIVERD_LANE_KEY ")"};
const Statement kLockLane{"shards_lock_lane", "select pg_advisory_xact_lock(" DELIVERD_LANE_KEY ")"};
#undef DELIVERD_LANE_KEY

// Nothing happens while the lane has another number of shards than this relay: to a relay with another number a row is
// one of another shard.
#define DELIVERD_FITS \
    "(select count(*) = $2::int and max(x.shard) = $2::int - 1 from deliverd.shards x where x.lane = $1::text)"

/// … number of shards, owner. One statement: what it decides is of one moment. Rows are locked in the order of the
/// shards, as settle() does it.
const Statement kRemake{"shards_remake",
                        "with stored as materialized (select coalesce(max(token), 0) as token from deliverd.shards"
                        "  where lane = $1::text having not " DELIVERD_FITS
                        "   and not exists (select from deliverd.relays"
                        "    where lane = $1::text and owner <> $3::text and expires_at > now())),"
                        " old as materialized (select s.shard, stored.token from stored"
                        "  join deliverd.shards s on s.lane = $1::text order by s.shard for update of s),"
                        " gone as (delete from deliverd.shards s using old"
                        "  where s.lane = $1::text and s.shard = old.shard and old.shard >= $2::int),"
                        " kept as (update deliverd.shards s set owner = null, token = old.token,"
                        "  expires_at = '-infinity' from old"
                        "  where s.lane = $1::text and s.shard = old.shard and old.shard < $2::int)"
                        " insert into deliverd.shards (lane, shard, owner, token, expires_at)"
                        " select $1::text, n, null, stored.token, '-infinity'"
                        " from stored, generate_series(0, $2::int - 1) as n"
                        " where not exists (select from old where old.shard = n)"};

/// … number of shards, owner, lease in seconds.
const Statement kBeat{"shards_beat",
                      "insert into deliverd.relays as r (lane, owner, expires_at)"
                      " select $1::text, $3::text, now() + $4::float8 * interval '1 second' where " DELIVERD_FITS
                      " on conflict (lane, owner) do update set expires_at = excluded.expires_at"};

/// … and seconds. Waits for nobody: the next heartbeat comes soon.
const Statement kForget{"shards_forget",
                        "delete from deliverd.relays r using (select g.owner from deliverd.relays g"
                        "  where g.lane = $1::text and g.expires_at < now() - $2::float8 * interval '1 second'"
                        "  for update skip locked) as old"
                        " where r.lane = $1::text and r.owner = old.owner"};

/// … number of shards, owner, lease in seconds. In the order of the shards, as settle() locks them.
const Statement kRenew{"shards_renew",
                       "with mine as materialized (select s.shard from deliverd.shards s"
                       "  where s.lane = $1::text and s.owner = $3::text and " DELIVERD_FITS
                       "  order by s.shard for no key update)"
                       " update deliverd.shards s set expires_at = now() + $4::float8 * interval '1 second'"
                       " from mine where s.lane = $1::text and s.shard = mine.shard"};

/// … and the owner: relays alive, this one's place among them, shards it holds. Names are compared as bytes, as all
/// relays and both stores do.
const Statement kStanding{"shards_standing",
                          "select count(*)::int, (count(*) filter (where owner collate \"C\" < $2::text collate \"C\"))"
                          "::int from deliverd.relays where lane = $1::text and expires_at > now()"};

/// … number of shards, owner, lease in seconds. Those that someone settles in at this moment are left for next time.
const Statement kTake{"shards_take",
                      "with standing as materialized ("
                      "  select count(*)::int as relays, (count(*) filter"
                      "   (where owner collate \"C\" < $3::text collate \"C\"))::int as place"
                      "  from deliverd.relays where lane = $1::text and expires_at > now()),"
                      " free as materialized (select s.shard from deliverd.shards s"
                      "  where s.lane = $1::text and (s.owner is null or s.expires_at <= now()) and " DELIVERD_FITS
                      "  order by s.shard"
                      "  limit (select greatest(0, $2::int / greatest(relays, 1)"
                      "    + case when place < $2::int % greatest(relays, 1) then 1 else 0 end"
                      "    - (select count(*) from deliverd.shards m where m.lane = $1::text and m.owner = $3::text))"
                      "   from standing)"
                      "  for no key update skip locked)"
                      " update deliverd.shards s set owner = $3::text, token = s.token + 1,"
                      "  expires_at = now() + $4::float8 * interval '1 second'"
                      " from free where s.lane = $1::text and s.shard = free.shard"};

/// … and the owner.
const Statement kHeld{"shards_held",
                      "select shard, token from deliverd.shards where lane = $1::text and owner = $2::text"
                      " order by shard"};

#undef DELIVERD_FITS

/// … and the owner: how many shards there are, the last of them, other relays that are alive.
const Statement kStored{"shards_stored",
                        "select count(*), coalesce(max(shard), -1)::bigint, (select count(*) from deliverd.relays"
                        "  where lane = $1::text and owner <> $2::text and expires_at > now())"
                        " from deliverd.shards where lane = $1::text"};

/// … owner, shards, tokens.
const Statement kRelease{"shards_release",
                         "with mine as materialized (select s.shard"
                         "  from unnest($3::int[], $4::bigint[]) as i (shard, token)"
                         "  join deliverd.shards s on s.lane = $1::text and s.shard = i.shard"
                         "  where s.owner = $2::text and s.token = i.token"
                         "  order by s.shard for no key update of s)"
                         " update deliverd.shards s set owner = null, expires_at = now()"
                         " from mine where s.lane = $1::text and s.shard = mine.shard"};

/// … and the owner.
const Statement kReleaseAll{"shards_release_all",
                            "with mine as materialized (select s.shard from deliverd.shards s"
                            "  where s.lane = $1::text and s.owner = $2::text order by s.shard for no key update)"
                            " update deliverd.shards s set owner = null, expires_at = now()"
                            " from mine where s.lane = $1::text and s.shard = mine.shard"};
const Statement kLeave{"shards_leave", "delete from deliverd.relays where lane = $1::text and owner = $2::text"};

/// … owner, 1 or 0.
const Statement kAsleep{"shards_asleep",
                        "update deliverd.relays set asleep = ($3::int = 1)"
                        " where lane = $1::text and owner = $2::text and asleep <> ($3::int = 1)"};

}  // namespace

Result<void> check_owner(std::string_view owner) {
    if (owner.empty()) return permanent("bad_argument", "owner must not be empty");
    return client::check_text("owner", owner);
}

Result<ShardShare> EventShards::tend(std::string_view owner, Duration lease) {
    if (auto ok = check_owner(owner); !ok) return Failure(std::move(ok.error()));
    const double seconds = to_seconds(lease);
    if (seconds <= 0 || seconds > client::kMaxLeaseSeconds) {
        return permanent("bad_argument", "lease must be longer than nothing and at most 31 years");
    }
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    auto tended = try_tend(**connection, owner, seconds, false);
    if (tended && !tended->stored.fits(shards_) && tended->stored.others == 0) {
        tended = try_tend(**connection, owner, seconds, true);
    }
    if (!tended) return Failure(std::move(tended.error()));
    if (!tended->stored.fits(shards_)) return other_shards(lane_, shards_, tended->stored);
    return std::move(tended->share);
}

/// Durable: a lease that a crash of the server forgot could be taken by another while the relay still counts on it. It
/// is one commit every few seconds.
Result<EventShards::Tended> EventShards::try_tend(Connection& connection, std::string_view owner, double lease_seconds,
                                                  bool remake) {
    Params lane;
    lane.text(lane_);
    Params remade;
    remade.text(lane_).int32(shards_).text(owner);
    Params all;
    all.text(lane_).int32(shards_).text(owner).float64(lease_seconds);
    Params forget;
    forget.text(lane_).float64(lease_seconds * kForgetAfterLeases);
    Params lane_owner;
    lane_owner.text(lane_).text(owner);
    std::vector<Step> steps = {Step{remake ? &kLockLane : &kShareLane, &lane}};
    if (remake) steps.push_back(Step{&kRemake, &remade});
    for (const Step& step : {Step{&kBeat, &all}, Step{&kForget, &forget}, Step{&kRenew, &all}, Step{&kTake, &all},
                             Step{&kStored, &lane_owner}, Step{&kStanding, &lane_owner}, Step{&kHeld, &lane_owner}}) {
        steps.push_back(step);
    }
    auto results = connection.run(steps, Effect::write, connection.statement_deadline());
    if (!results) return Failure(std::move(results.error()));
    const std::span<const PgResult> answers = std::span(*results).last(3);
    Tended tended;
    tended.stored = {int64_at(answers[0].get(), 0, 0), int64_at(answers[0].get(), 0, 1),
                     int64_at(answers[0].get(), 0, 2)};
    tended.share.relays = int32_at(answers[1].get(), 0, 0);
    tended.share.share = shard_share(shards_, tended.share.relays, int32_at(answers[1].get(), 0, 1));
    const PGresult* held = answers[2].get();
    for (int row = 0; row < PQntuples(held); ++row) {
        tended.share.held.push_back(ShardLease{int32_at(held, row, 0), int64_at(held, row, 1)});
    }
    return tended;
}

Result<void> EventShards::release(std::string_view owner, std::span<const ShardLease> leases) {
    if (auto ok = check_owner(owner); !ok) return ok;
    if (leases.empty()) return {};
    std::vector<std::int32_t> shards;
    std::vector<std::int64_t> tokens;
    for (const ShardLease& lease : leases) {
        shards.push_back(lease.shard);
        tokens.push_back(lease.token);
    }
    Params params;
    params.text(lane_).text(owner).int32_array(shards).int64_array(tokens);
    auto done = run_once(pool_, kRelease, params, Effect::write);
    if (!done) return Failure(std::move(done.error()));
    return {};
}

Result<void> EventShards::leave(std::string_view owner) {
    if (auto ok = check_owner(owner); !ok) return ok;
    Params params;
    params.text(lane_).text(owner);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const std::array steps = {Step{&kReleaseAll, &params}, Step{&kLeave, &params}};
    auto done = (*connection)->run(steps, Effect::write, (*connection)->statement_deadline());
    if (!done) return Failure(std::move(done.error()));
    return {};
}

Result<void> EventShards::set_asleep(std::string_view owner, bool asleep) {
    if (auto ok = check_owner(owner); !ok) return ok;
    Params params;
    params.text(lane_).text(owner).int32(asleep ? 1 : 0);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    // What a crash forgets costs a notification, and the relay looks by itself as well.
    const std::array steps = {relaxed_commit(), Step{&kAsleep, &params}};
    auto done = (*connection)->run(steps, Effect::write, (*connection)->statement_deadline());
    if (!done) return Failure(std::move(done.error()));
    return {};
}

}  // namespace deliverd::store::postgres
