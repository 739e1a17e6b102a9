#include "store/sqlite/events/event_shards.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/sqlite_rows.h"
#include "store/event_row.h"
#include "store/sqlite/file/time_modifier.h"

namespace deliverd::store::sqlite {
namespace {

#define DELIVERD_NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
#define DELIVERD_NOW_AND(modifier) "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', " modifier ")"

/// 1 lane, 2 owner: how many shards there are, the last of them, other relays that are alive.
constexpr std::string_view kStored =
    "select count(*), coalesce(max(shard), -1), (select count(*) from deliverd_relays where lane = ?1 and owner <> ?2"
    " and expires_at > " DELIVERD_NOW ") from deliverd_shards where lane = ?1";

/// 1 lane. Tokens go on above the highest.
constexpr std::string_view kFreeAll =
    "update deliverd_shards set owner = null, expires_at = " DELIVERD_NOW
    ", token = (select max(token) from deliverd_shards where lane = ?1) where lane = ?1";
/// 1 lane, 2 how many there are to be.
constexpr std::string_view kMake =
    "with recursive n (shard) as (select 0 union all select shard + 1 from n where shard + 1 < ?2)"
    " insert into deliverd_shards (lane, shard, owner, token, expires_at) select ?1, shard, null,"
    " coalesce((select max(token) from deliverd_shards where lane = ?1), 0), " DELIVERD_NOW
    " from n where true on conflict (lane, shard) do nothing";
constexpr std::string_view kDropRest = "delete from deliverd_shards where lane = ?1 and shard >= ?2";

/// 1 lane, 2 how long ago, as a modifier.
constexpr std::string_view kForget =
    "delete from deliverd_relays where lane = ?1 and expires_at < " DELIVERD_NOW_AND("?2");

/// 1 lane, 2 owner, 3 the lease as a modifier.
constexpr std::string_view kLive =
    "insert into deliverd_relays (lane, owner, expires_at) values (?1, ?2, " DELIVERD_NOW_AND(
        "?3") ") on conflict (lane, owner) do update set expires_at = excluded.expires_at";

/// 1 lane, 2 owner: how many live, and how many of them come before the owner. The owner itself lives, whatever the
/// clock says of a lease of no time.
constexpr std::string_view kCount =
    "select count(*), count(*) filter (where owner < ?2) from deliverd_relays"
    " where lane = ?1 and (expires_at > " DELIVERD_NOW " or owner = ?2)";

/// 1 lane, 2 owner, 3 the lease as a modifier.
constexpr std::string_view kRenew =
    "update deliverd_shards set expires_at = " DELIVERD_NOW_AND("?3") " where lane = ?1 and owner = ?2";

/// 1 lane, 2 owner, 3 the lease as a modifier, 4 how many at most.
constexpr std::string_view kTake = "update deliverd_shards set owner = ?2, token = token + 1, expires_at = "
    DELIVERD_NOW_AND("?3") " where lane = ?1 and shard in (select shard from deliverd_shards where lane = ?1"
    " and (owner is null or (owner <> ?2 and expires_at <= " DELIVERD_NOW ")) order by shard limit ?4)";

/// 1 lane, 2 owner.
constexpr std::string_view kHeld =
    "select shard, token from deliverd_shards where lane = ?1 and owner = ?2 order by shard";

/// 1 lane, 2 owner, 3 shard, 4 token.
constexpr std::string_view kOwns =
    "select 1 from deliverd_shards where lane = ?1 and owner = ?2 and shard = ?3 and token = ?4";
constexpr std::string_view kReleaseShard = "update deliverd_shards set owner = null, expires_at = " DELIVERD_NOW
                                           " where lane = ?1 and owner = ?2 and shard = ?3 and token = ?4";

/// 1 lane, 2 owner.
constexpr std::string_view kReleaseAll =
    "update deliverd_shards set owner = null, expires_at = " DELIVERD_NOW " where lane = ?1 and owner = ?2";
constexpr std::string_view kLeave = "delete from deliverd_relays where lane = ?1 and owner = ?2";

#undef DELIVERD_NOW_AND
#undef DELIVERD_NOW

template <typename Bind>
Result<void> run_shard_sql(Handle& handle, std::string_view sql, Bind bind) {
    auto statement = handle.prepared(sql);
    if (!statement) return Failure(std::move(statement.error()));
    bind(**statement);
    return (*statement)->run();
}

/// The lane gets this number of shards, unless it has it or others count on another one.
Result<void> make_shards(Handle& handle, const EventTable& table, std::string_view owner) {
    const std::string_view lane = table.lane;
    auto statement = handle.prepared(kStored);
    if (!statement) return Failure(std::move(statement.error()));
    StoredShards stored;
    auto counted = each_row((*statement)->bind(1, lane).bind(2, owner), [&](const SqliteStatement& row) {
        stored = {row.integer(0), row.integer(1), row.integer(2)};
    });
    if (!counted) return counted;
    if (stored.fits(table.shards)) return {};
    if (stored.others > 0) return other_shards(table.lane, table.shards, stored);
    auto freed = run_shard_sql(handle, kFreeAll, [&](SqliteStatement& s) { s.bind(1, lane); });
    if (!freed) return freed;
    for (const std::string_view sql : {kMake, kDropRest}) {
        auto done = run_shard_sql(handle, sql,
                                  [&](SqliteStatement& s) { s.bind(1, lane).bind(2, std::int64_t{table.shards}); });
        if (!done) return done;
    }
    return {};
}

/// The owner's heartbeat among the relays; answers its share, without shards.
Result<ShardShare> count_relays(Handle& handle, const EventTable& table, std::string_view owner, Duration lease) {
    const std::string_view lane = table.lane;
    const std::string ahead = time_ahead(to_seconds(lease));
    const std::string long_ago = client::lease_modifier(kForgetAfterLeases * to_seconds(lease));
    auto forgotten = run_shard_sql(handle, kForget,
                                   [&](SqliteStatement& s) { s.bind(1, lane).bind(2, std::string_view(long_ago)); });
    if (!forgotten) return Failure(std::move(forgotten.error()));
    auto lives = run_shard_sql(
        handle, kLive, [&](SqliteStatement& s) { s.bind(1, lane).bind(2, owner).bind(3, std::string_view(ahead)); });
    if (!lives) return Failure(std::move(lives.error()));
    auto statement = handle.prepared(kCount);
    if (!statement) return Failure(std::move(statement.error()));
    ShardShare share;
    auto counted = each_row((*statement)->bind(1, lane).bind(2, owner), [&](const SqliteStatement& row) {
        share.relays = static_cast<std::int32_t>(row.integer(0));
        share.share = shard_share(table.shards, share.relays, static_cast<std::int32_t>(row.integer(1)));
    });
    if (!counted) return Failure(std::move(counted.error()));
    return share;
}

Result<std::vector<ShardLease>> held_shards(Handle& handle, std::string_view lane, std::string_view owner) {
    auto statement = handle.prepared(kHeld);
    if (!statement) return Failure(std::move(statement.error()));
    std::vector<ShardLease> held;
    auto read = each_row((*statement)->bind(1, lane).bind(2, owner), [&](const SqliteStatement& row) {
        held.push_back({static_cast<std::int32_t>(row.integer(0)), row.integer(1)});
    });
    if (!read) return Failure(std::move(read.error()));
    return held;
}

}  // namespace

Result<ShardShare> tend_shards(Handle& handle, const EventTable& table, std::string_view owner, Duration lease) {
    const std::string_view lane = table.lane;
    if (auto made = make_shards(handle, table, owner); !made) return Failure(std::move(made.error()));
    auto share = count_relays(handle, table, owner, lease);
    if (!share) return share;
    const std::string ahead = time_ahead(to_seconds(lease));
    auto renewed = run_shard_sql(
        handle, kRenew, [&](SqliteStatement& s) { s.bind(1, lane).bind(2, owner).bind(3, std::string_view(ahead)); });
    if (!renewed) return Failure(std::move(renewed.error()));
    const int missing = share->share - handle.changes();
    if (missing > 0) {
        auto taken = run_shard_sql(handle, kTake, [&](SqliteStatement& s) {
            s.bind(1, lane).bind(2, owner).bind(3, std::string_view(ahead)).bind(4, std::int64_t{missing});
        });
        if (!taken) return Failure(std::move(taken.error()));
    }
    auto held = held_shards(handle, lane, owner);
    if (!held) return Failure(std::move(held.error()));
    share->held = std::move(*held);
    return share;
}

Result<void> release_shards(Handle& handle, std::string_view lane, std::string_view owner,
                            std::span<const ShardLease> leases) {
    for (const ShardLease& lease : leases) {
        auto done = run_shard_sql(handle, kReleaseShard, [&](SqliteStatement& s) {
            s.bind(1, lane).bind(2, owner).bind(3, std::int64_t{lease.shard}).bind(4, lease.token);
        });
        if (!done) return done;
    }
    return {};
}

Result<void> leave_shards(Handle& handle, std::string_view lane, std::string_view owner) {
    for (const std::string_view sql : {kReleaseAll, kLeave}) {
        auto done = run_shard_sql(handle, sql, [&](SqliteStatement& s) { s.bind(1, lane).bind(2, owner); });
        if (!done) return done;
    }
    return {};
}

Result<bool> owns_shard(Handle& handle, std::string_view lane, std::string_view owner, const ShardLease& lease) {
    auto statement = handle.prepared(kOwns);
    if (!statement) return Failure(std::move(statement.error()));
    auto found =
        (*statement)->bind(1, lane).bind(2, owner).bind(3, std::int64_t{lease.shard}).bind(4, lease.token).step();
    (*statement)->reset();
    return found;
}

}  // namespace deliverd::store::sqlite
