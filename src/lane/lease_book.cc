#include "lane/lease_book.h"

#include <algorithm>

namespace deliverd::lane {

LeaseBook::LeaseBook(Duration lease) : lease_(lease) {}

bool LeaseBook::add(std::int64_t id, Instant since, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto [place, added] = held_.try_emplace(id, Entry{since, bytes, false});
    if (added) {
        bytes_ += bytes;
    } else {
        place->second.since = since;
        place->second.lost = false;
    }
    return added;
}

void LeaseBook::remove(std::span<const std::int64_t> ids) {
    const std::lock_guard lock(mutex_);
    for (const std::int64_t id : ids) {
        const auto entry = held_.find(id);
        if (entry == held_.end()) continue;
        bytes_ -= entry->second.bytes;
        held_.erase(entry);
    }
}

std::vector<std::int64_t> LeaseBook::due_for_renewal(Instant now) const {
    std::vector<std::int64_t> due;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [id, entry] : held_) {
            if (!entry.lost && now - entry.since >= lease_ / 3) due.push_back(id);
        }
    }
    std::sort(due.begin(), due.end());
    return due;
}

Instant LeaseBook::next_renewal(Instant now) const {
    Instant next = now + lease_ / 3;
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : held_) {
        if (!entry.lost) next = std::min(next, entry.since + lease_ / 3);
    }
    return next;
}

void LeaseBook::renewed(std::span<const std::int64_t> renewed, std::span<const std::int64_t> lost, Instant since) {
    const std::lock_guard lock(mutex_);
    // A row may have been settled, and even claimed again, while the renewal was under way.
    const auto older_entry = [&](std::int64_t id) -> Entry* {
        const auto entry = held_.find(id);
        return entry == held_.end() || entry->second.since > since ? nullptr : &entry->second;
    };
    for (const std::int64_t id : renewed) {
        if (Entry* entry = older_entry(id)) entry->since = since;
    }
    for (const std::int64_t id : lost) {
        if (Entry* entry = older_entry(id)) entry->lost = true;
    }
}

Hold LeaseBook::look(std::int64_t id, Instant now) const {
    const std::lock_guard lock(mutex_);
    const auto entry = held_.find(id);
    if (entry == held_.end() || entry->second.lost) return Hold::lost;
    return now - entry->second.since < lease_ * 2 / 3 ? Hold::fresh : Hold::stale;
}

std::size_t LeaseBook::bytes() const {
    const std::lock_guard lock(mutex_);
    return bytes_;
}

std::size_t LeaseBook::size() const {
    const std::lock_guard lock(mutex_);
    return held_.size();
}

}  // namespace deliverd::lane
