#include "relay/shard_keeper.h"

#include <algorithm>

namespace deliverd::relay {

namespace {

constexpr int kTendsALease = 3;
constexpr int kQuickTendsALease = 12;  // while others have yet to give something up, and after an error
constexpr Duration kShortestBetweenTends = std::chrono::milliseconds(20);

}  // namespace

ShardKeeper::Change ShardKeeper::tended(Instant began, const store::ShardShare& share) {
    Change change;
    std::map<std::int32_t, std::int64_t> told;
    for (const store::ShardLease& lease : share.held) {
        // The answer may be older than a settle that was fenced.
        const auto over = over_.find(lease.shard);
        if (over == over_.end() || lease.token > over->second) told.emplace(lease.shard, lease.token);
    }
    for (auto shard = held_.begin(); shard != held_.end();) {
        const auto still = told.find(shard->first);
        if (still != told.end() && still->second == shard->second.token) {
            ++shard;
            continue;
        }
        change.lost.push_back(shard->first);
        shard = held_.erase(shard);
    }
    for (const auto& [shard, token] : told) {
        if (held_.emplace(shard, Shard{token}).second) change.gained = true;
    }
    tended_ = began;  // not when it was answered: the lease may have been renewed right at the beginning
    relays_ = share.relays;
    const auto fair = static_cast<std::size_t>(std::max(share.share, 0));
    share_out(fair, change);
    const Duration wait = lease_ / (held_.size() < fair ? kQuickTendsALease : kTendsALease);
    next_tend_ = began + std::max(wait, kShortestBetweenTends);
    return change;
}

/// The last ones leave when there are too many, and come back when there are too few.
void ShardKeeper::share_out(std::size_t share, Change& change) {
    std::size_t active = this->active().size();
    for (auto shard = held_.rbegin(); active > share; ++shard) {  // while there is an active one
        if (shard->second.leaving) continue;
        shard->second.leaving = true;
        change.leaving.push_back(shard->first);
        --active;
    }
    for (auto& [number, shard] : held_) {
        if (active >= share) break;
        if (!shard.leaving) continue;
        shard.leaving = false;
        change.gained = true;
        ++active;
    }
}

void ShardKeeper::tend_failed(Instant now) {
    next_tend_ = now + std::max(lease_ / kQuickTendsALease, kShortestBetweenTends);
}

bool ShardKeeper::lost(const store::ShardLease& lease, Instant now) {
    std::int64_t& over = over_[lease.shard];  // tokens begin at 1
    over = std::max(over, lease.token);
    const auto shard = held_.find(lease.shard);
    if (shard == held_.end() || shard->second.token > lease.token) return false;
    held_.erase(shard);
    next_tend_ = now;  // to see whose it is
    return true;
}

void ShardKeeper::released(const store::ShardLease& lease) {
    const auto shard = held_.find(lease.shard);
    if (shard != held_.end() && shard->second.token == lease.token) held_.erase(shard);
}

std::vector<store::ShardLease> ShardKeeper::active() const {
    std::vector<store::ShardLease> leases;
    for (const auto& [number, shard] : held_) {
        if (!shard.leaving) leases.push_back({number, shard.token});
    }
    return leases;
}

std::vector<store::ShardLease> ShardKeeper::leaving() const {
    std::vector<store::ShardLease> leases;
    for (const auto& [number, shard] : held_) {
        if (shard.leaving) leases.push_back({number, shard.token});
    }
    return leases;
}

bool ShardKeeper::any_leaving() const {
    return std::any_of(held_.begin(), held_.end(), [](const auto& entry) { return entry.second.leaving; });
}

std::optional<std::int64_t> ShardKeeper::active_token(std::int32_t shard) const {
    const auto found = held_.find(shard);
    if (found == held_.end() || found->second.leaving) return std::nullopt;
    return found->second.token;
}

}  // namespace deliverd::relay
