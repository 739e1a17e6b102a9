#include "wal/progress.h"

#include <algorithm>

#include "base/assert.h"

namespace deliverd::wal {

Progress::Ticket Progress::begin() {
    ASSERT(!open_);
    open_ = true;
    entries_.push_back({.ticket = next_});
    return next_++;
}

void Progress::handed_out(std::uint64_t events) {
    ASSERT(open_);
    entries_.back().unsettled += events;
    unsettled_ += events;
}

void Progress::committed(Lsn end) {
    ASSERT(open_);
    open_ = false;
    // One that is settled already needs no entry: the one before it reaches as far once it is settled itself.
    if (entries_.back().unsettled == 0) entries_.pop_back();
    safe_ = std::max(safe_, end);
    if (!entries_.empty()) entries_.back().end = safe_;
    drop_settled();
}

void Progress::passed(Lsn end) {
    if (open_ || end <= safe_) return;
    safe_ = end;
    if (!entries_.empty()) entries_.back().end = safe_;
    drop_settled();
}

void Progress::settled(Ticket ticket, std::uint64_t events) {
    if (events == 0) return;
    const auto entry = std::ranges::lower_bound(entries_, ticket, {}, &Entry::ticket);
    ASSERT(entry != entries_.end() && entry->ticket == ticket && entry->unsettled >= events);
    entry->unsettled -= events;
    unsettled_ -= events;
    const bool is_open = open_ && ticket == entries_.back().ticket;
    if (entry->unsettled > 0 || is_open) return;
    ++idle_;
    drop_settled();
    if (idle_ > entries_.size() - idle_ + kSlack) compact();
}

void Progress::drop_settled() {
    while (!entries_.empty() && entries_.front().unsettled == 0 && !(open_ && entries_.size() == 1)) {
        ASSERT(idle_ > 0 && entries_.front().end >= confirmed_);
        confirmed_ = entries_.front().end;
        entries_.pop_front();
        --idle_;
    }
    if (entries_.empty()) confirmed_ = safe_;
}

/// The first entry is not settled, so each settled one has one before it that can reach as far.
void Progress::compact() {
    std::deque<Entry> kept;
    for (const Entry& entry : entries_) {
        const bool is_open = open_ && entry.ticket == entries_.back().ticket;
        if (entry.unsettled > 0 || is_open) {
            kept.push_back(entry);
        } else {
            kept.back().end = entry.end;
        }
    }
    entries_ = std::move(kept);
    idle_ = 0;
}

}  // namespace deliverd::wal
