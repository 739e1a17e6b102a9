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

void LeaseBook::renewed(std::span<const std::int64_t> asked, std::span<const std::int64_t> renewed, Instant since) {
    std::vector<std::int64_t> ours(renewed.begin(), renewed.end());
    std::sort(ours.begin(), ours.end());
    const std::lock_guard lock(mutex_);
    for (const std::int64_t id : asked) {
        const auto entry = held_.find(id);
        // A row may have been settled, and even claimed again, while the renewal was under way.
        if (entry == held_.end() || entry->second.since > since) continue;
        if (std::binary_search(ours.begin(), ours.end(), id)) {
            entry->second.since = since;
        } else {
            entry->second.lost = true;
        }
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
