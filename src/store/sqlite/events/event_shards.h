// Which relay holds which shards of a lane: deliverd_shards and deliverd_relays. All inside the caller's transaction.
#pragma once

#include <span>
#include <string_view>

#include "store/events.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// EventOutbox::tend().
[[nodiscard]] Result<ShardShare> tend_shards(Handle& handle, const EventTable& table, std::string_view owner,
                                             Duration lease);
/// EventOutbox::release().
[[nodiscard]] Result<void> release_shards(Handle& handle, std::string_view lane, std::string_view owner,
                                          std::span<const ShardLease> leases);
/// EventOutbox::leave().
[[nodiscard]] Result<void> leave_shards(Handle& handle, std::string_view lane, std::string_view owner);

/// Whether the shard is the owner's with that token.
[[nodiscard]] Result<bool> owns_shard(Handle& handle, std::string_view lane, std::string_view owner,
                                      const ShardLease& lease);

}  // namespace deliverd::store::sqlite
