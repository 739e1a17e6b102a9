#include "lane/lease_book.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"

namespace deliverd::lane {

bool LeaseBook::add(store::Claimed& row, Instant since) {
    const std::size_t bytes = row.message.body.size();
    const MutexLock lock(mutex_);
    const auto [place, added] = held_.try_emplace(row.message.id, Entry{since, bytes, false, false, std::nullopt});
    bytes_ += bytes;
    if (added) return true;
    Entry& entry = place->second;
    // A renewal may have begun after this claim. Both took effect, so the lease is as young as the later one.
    entry.since = std::max(entry.since, since);
    // The claim just proved that it is ours.
    entry.lost = false;
    if (entry.newer) bytes_ -= entry.newer->message.body.size();
    entry.newer = std::move(row);
    return false;
}

std::optional<store::Claimed> LeaseBook::take_newer(std::int64_t id) {
    const MutexLock lock(mutex_);
    const auto entry = held_.find(id);
    if (entry == held_.end() || !entry->second.newer) return std::nullopt;
    std::optional<store::Claimed> newer = std::exchange(entry->second.newer, std::nullopt);
    bytes_ -= std::exchange(entry->second.bytes, newer->message.body.size());
    return newer;
}

bool LeaseBook::end(std::int64_t id, std::optional<std::int32_t> ended_failures, Instant now) {
    const MutexLock lock(mutex_);
    const auto place = held_.find(id);
    if (place == held_.end()) return false;
    Entry& entry = place->second;
    // The count fences settlements: a copy with the count that was just settled is settled as well.
    if (!entry.newer || entry.newer->message.failures == ended_failures) {
        drop(place);
        return false;
    }
    bytes_ -= std::exchange(entry.bytes, entry.newer->message.body.size());
    claimed_again_.push_back(std::move(*entry.newer));
    entry.newer.reset();
    entry.since = now;
    // A settlement under way at the claim may have ended it; nobody knows before a renewal.
    entry.in_doubt = true;
    return true;
}

std::vector<store::Claimed> LeaseBook::take_claimed_again(std::size_t most) {
    const MutexLock lock(mutex_);
    const auto end = claimed_again_.begin() + static_cast<std::ptrdiff_t>(std::min(most, claimed_again_.size()));
    std::vector<store::Claimed> taken(std::make_move_iterator(claimed_again_.begin()), std::make_move_iterator(end));
    claimed_again_.erase(claimed_again_.begin(), end);
    return taken;
}

void LeaseBook::drop(std::unordered_map<std::int64_t, Entry>::iterator entry) {
    const std::size_t bytes =
        entry->second.bytes + (entry->second.newer ? entry->second.newer->message.body.size() : 0);
    ASSERT(bytes_ >= bytes);
    bytes_ -= bytes;
    held_.erase(entry);
}

void LeaseBook::remove(std::span<const std::int64_t> ids) {
    const MutexLock lock(mutex_);
    for (const std::int64_t id : ids) {
        if (const auto entry = held_.find(id); entry != held_.end()) drop(entry);
    }
}

bool LeaseBook::is_due(const Entry& entry, Instant now) const {
    return !entry.lost && (entry.in_doubt || now - entry.since >= lease_ / 3);
}

std::vector<std::int64_t> LeaseBook::due_for_renewal(Instant now) const {
    std::vector<std::int64_t> due;
    {
        const MutexLock lock(mutex_);
        for (const auto& [id, entry] : held_) {
            if (is_due(entry, now)) due.push_back(id);
        }
    }
    std::sort(due.begin(), due.end());
    return due;
}

Instant LeaseBook::next_renewal(Instant now) const {
    Instant next = now + lease_ / 3;
    const MutexLock lock(mutex_);
    for (const auto& [id, entry] : held_) {
        // A lost row stays until the lane is done with it, but there is nothing to renew.
        if (!entry.lost) next = std::min(next, entry.in_doubt ? now : entry.since + lease_ / 3);
    }
    return next;
}

void LeaseBook::renewed(std::span<const std::int64_t> renewed, std::span<const std::int64_t> lost, Instant since) {
    const MutexLock lock(mutex_);
    // A row may have been settled, and even claimed again, during the renewal.
    const auto older_entry = [&](std::int64_t id) REQUIRES(mutex_) -> Entry* {
        const auto entry = held_.find(id);
        return entry == held_.end() || entry->second.since > since ? nullptr : &entry->second;
    };
    for (const std::int64_t id : renewed) {
        Entry* entry = older_entry(id);
        if (entry == nullptr) continue;
        entry->since = since;
        entry->in_doubt = false;
    }
    for (const std::int64_t id : lost) {
        if (Entry* entry = older_entry(id)) entry->lost = true;
    }
}

Hold LeaseBook::look(std::int64_t id, Instant now) const {
    const MutexLock lock(mutex_);
    const auto entry = held_.find(id);
    if (entry == held_.end() || entry->second.lost) return Hold::lost;
    const bool near_its_end = now - entry->second.since >= lease_ * 2 / 3;
    return near_its_end || entry->second.in_doubt ? Hold::stale : Hold::fresh;
}

std::size_t LeaseBook::bytes() const {
    const MutexLock lock(mutex_);
    return bytes_;
}

std::size_t LeaseBook::size() const {
    const MutexLock lock(mutex_);
    return held_.size();
}

}  // namespace deliverd::lane
