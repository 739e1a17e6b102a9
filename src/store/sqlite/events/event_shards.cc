#include "store/sqlite/events/event_shards.h"

#include <string>
#include <utility>

#include "base/try.h"
#include "client/sql_values.h"
#include "store/event_row.h"
#include "store/sqlite/events/statements.h"

namespace deliverd::store::sqlite {
namespace {

/// Gives the lane this number of shards, unless it has that number or another relay that is alive has another number.
Result<void> make_shards(Handle& handle, const EventTable& table, std::string_view owner) {
    StoredShards stored;
    TRY(handle.each(
        events::sql::stored_shards,
        [&](const SqliteStatement& row) { row.read(stored.count, stored.last, stored.others); }, table.lane, owner));
    if (stored.fits(table.shards)) return {};
    if (stored.others > 0) return other_shards(table.lane, table.shards, stored);
    // All lose their owners, because to another number of shards an aggregate is in another shard.
    TRY(handle.run(events::sql::free_all_shards, table.lane));
    TRY(handle.run(events::sql::make_shards, table.lane, table.shards));
    return handle.run(events::sql::drop_other_shards, table.lane, table.shards);
}

/// The owner's heartbeat among the relays; answers its share, without the shards.
Result<ShardShare> count_relays(Handle& handle, const EventTable& table, std::string_view owner, Duration lease) {
    TRY(handle.run(events::sql::forget_relays, table.lane, client::time_ago(kForgetAfterLeases * to_seconds(lease))));
    TRY(handle.run(events::sql::heartbeat, table.lane, owner, client::time_ahead(lease)));
    ShardShare share;
    std::int32_t rank = 0;
    TRY(handle.each(
        events::sql::count_relays, [&](const SqliteStatement& row) { row.read(share.relays, rank); }, table.lane,
        owner));
    share.share = shard_share(table.shards, share.relays, rank);
    return share;
}

}  // namespace

Result<ShardShare> tend_shards(Handle& handle, const EventTable& table, std::string_view owner, Duration lease) {
    TRY(make_shards(handle, table, owner));
    TRY_ASSIGN(auto share, count_relays(handle, table, owner, lease));
    const std::string ahead = client::time_ahead(lease);
    TRY_ASSIGN(const auto renewed, handle.change(events::sql::renew_shards, table.lane, owner, ahead));
    // Shards above the share are kept here: which of them to hand over, and when, is for the relay to decide.
    const std::int64_t missing = share.share - renewed;
    if (missing > 0) TRY(handle.run(events::sql::take_shards, table.lane, owner, ahead, missing));
    TRY_ASSIGN(share.held, handle.all(
                               events::sql::held_shards,
                               [](const SqliteStatement& row) {
                                   return ShardLease{row.get<std::int32_t>(0), row.get<std::int64_t>(1)};
                               },
                               table.lane, owner));
    return share;
}

Result<void> release_shards(Handle& handle, std::string_view lane, std::string_view owner,
                            std::span<const ShardLease> leases) {
    for (const ShardLease& lease : leases) {
        TRY(handle.run(events::sql::release_shard, lane, owner, lease.shard, lease.token));
    }
    return {};
}

Result<void> leave_shards(Handle& handle, std::string_view lane, std::string_view owner) {
    TRY(handle.run(events::sql::release_all_shards, lane, owner));
    return handle.run(events::sql::leave, lane, owner);
}

/// A lease that ran out and that no other relay took is still the owner's, so nothing compares times here.
Result<bool> owns_shard(Handle& handle, std::string_view lane, std::string_view owner, const ShardLease& lease) {
    TRY_ASSIGN(const auto found, handle.value<bool>(events::sql::owns_shard, lane, owner, lease.shard, lease.token));
    return found.has_value();
}

}  // namespace deliverd::store::sqlite
