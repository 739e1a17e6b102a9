#include "relay/poll_planner.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "pipeline/pacing.h"

namespace deliverd::relay {

namespace {

std::optional<store::RowId> id_of(const std::optional<Position>& position) {
    return position ? std::optional(position->row_id) : std::nullopt;
}

/// None is the beginning.
std::optional<Position> earlier(const std::optional<Position>& one, const std::optional<Position>& other) {
    if (!one || !other) return std::nullopt;
    return one->before(*other) ? one : other;
}

}  // namespace

PollPlanner::PollPlanner(Duration busy_poll, Duration idle_poll)
    : busy_poll_(busy_poll), idle_poll_(std::max(busy_poll, idle_poll)), wait_(busy_poll) {}

/// Never two pages without a poll that goes forward in between.
bool PollPlanner::sweep_is_due(Instant now) const {
    return highest_.has_value() && !unordered_ && !poll_.up_to && now >= next_sweep_;
}

PollPlanner::Poll PollPlanner::plan(Instant now) {
    valid_ = true;
    const bool sweep = sweep_is_due(now);
    poll_ = Poll{};
    if (more_ && drawn_ == end_) poll_.end_above = end_;
    if (back_) {
        begin_behind(back_->to);
        return poll_;
    }
    if (sweep) {
        poll_.sweep = true;
        if (!sweep_from_) sweep_up_to_ = highest_;
        begin_behind(sweep_from_);
        // Otherwise the position is near the end, and what is new comes with the sweep.
        if (sweep_from_ || continue_) poll_.up_to = id_of(sweep_up_to_);
        return poll_;
    }
    if (continue_) {  // a pass of several polls
        begin_behind(continue_);
        return poll_;
    }
    pass_began_ = now;
    begin_behind(unordered_ ? std::nullopt : near_the_end(now));
    return poll_;
}

/// What transactions that the last poll did not see cannot have written: they drew their first id kLateWindow before it
/// at the earliest.
std::optional<Position> PollPlanner::before_new_writers() const {
    for (auto mark = marks_.rbegin(); mark != marks_.rend(); ++mark) {
        if (writers_asked_ - mark->at >= kLateWindow) return mark->highest;
    }
    return std::nullopt;
}

void PollPlanner::begin_behind(std::optional<Position> position) {
    poll_.after = id_of(position);
    poll_.sees_rows_again = highest_ && (!position || position->before(*highest_));
    poll_from_ = std::move(position);
}

std::optional<Position> PollPlanner::near_the_end(Instant now) const {
    std::optional<Position> from = safe_;
    for (const auto& [transaction, watched] : watched_) {
        if (now - watched.seen > kWatchedClosely) continue;
        from = earlier(from, watched.from);
    }
    return from;
}

bool PollPlanner::believes(const std::optional<store::OpenWriters>& writers, const std::optional<Position>& last,
                           std::optional<std::int64_t> end, Instant began, Instant ended) {
    if (!valid_) return false;
    if (!writers) {  // rows appear in order, or have none
        drawn_ = std::numeric_limits<std::int64_t>::max();
        return true;
    }
    if (began - end_known_ >= kLateWindow) drawn_ = end_;
    if (end) {
        end_ = *end;
        end_known_ = ended;
    }
    // The pages of a sweep bring what was written before it began, in order.
    if (poll_.up_to) return true;
    for (auto entry = watched_.begin(); entry != watched_.end();) {
        if (writers->has(entry->first)) {
            entry->second.end = end_;
            ++entry;
            continue;
        }
        keep_ended(entry->second);  // its rows are visible from now on, wherever they are
        entry = watched_.erase(entry);
    }
    const bool covered = ended_ && covers(*ended_);
    const bool written_beside = ended_ && last && last->sequence <= ended_->end;
    if (covered || (ended_ && !written_beside)) {
        // A poll that began early enough may have had no room for what that transaction wrote: it is repeated until it
        // has.
        back_ = Back{covered ? poll_from_ : ended_->from};
        ended_.reset();
        if (!covered) return false;
    }
    const std::optional<Position> from = before_new_writers();
    for (const std::uint64_t transaction : writers->transactions) {
        watched_.try_emplace(transaction, Watched{from, began, end_});
    }
    writers_asked_ = began;
    return true;
}

void PollPlanner::fell_asleep(Instant now) {
    asleep_since_ = now;
    asks_unnotified_ = true;
    poll_again(now);
}

void PollPlanner::saw_writers(const store::OpenWriters& writers, Instant began) {
    if (asks_unnotified_ && began >= asleep_since_) {
        asks_unnotified_ = false;
        unnotified_ = writers.transactions;
    } else {
        std::erase_if(unnotified_, [&](std::uint64_t transaction) { return !writers.has(transaction); });
    }
    if (began - asleep_since_ >= kLongestUnnotified) unnotified_.clear();
}

/// Whether the poll under way shows all that this transaction wrote.
bool PollPlanner::covers(const Watched& watched) const {
    return !poll_from_ || (watched.from && !watched.from->before(*poll_from_));
}

/// The first one to end has the lowest `end`, because the table only grows.
void PollPlanner::keep_ended(const Watched& watched) {
    if (ended_) {
        ended_->from = earlier(ended_->from, watched.from);
    } else {
        ended_ = watched;
    }
}

Instant PollPlanner::next_poll() const {
    return due_times_.empty() ? next_poll_ : std::min(next_poll_, due_times_.top());
}

void PollPlanner::polled(const PollResult& found) {
    failures_ = 0;
    while (!due_times_.empty() && due_times_.top() <= found.began) due_times_.pop();
    if (found.last && found.last->sequence == 0) unordered_ = true;
    // After start_over() what was found says nothing about the new position.
    if (valid_ && found.asked) {
        if (poll_.sweep) {
            advance_sweep(found);
        } else if (!back_) {
            forward_cost_ = found.ended - found.began;
        }
        const bool no_step = found.full && !found.last;  // there was no room for even one
        if (!poll_.up_to && !no_step) advance(found);
    }
    pace(found);
}

void PollPlanner::advance(const PollResult& found) {
    const bool more = found.full;
    if (more && !unordered_ && highest_ && found.last->before(*highest_)) {
        back_ = Back{found.last};  // nothing between may be skipped
        sweep_from_.reset();       // … and is swept with it
        return;
    }
    back_.reset();
    more_ = more;
    if (found.last && (!highest_ || highest_->before(*found.last))) highest_ = found.last;
    const bool old = found.youngest_seconds == 0 || found.youngest_seconds >= kBacklogAgeSeconds;
    const bool backlog = more && old && found.last->sequence <= drawn_ && !poll_.sweep;
    // A poll that began further back, was full and found only what was known: the reading continues behind that.
    const bool go_on = more && !unordered_ && (backlog || !found.anything_new);
    continue_ = go_on ? found.last : std::nullopt;
    if (poll_.sweep) pass_began_ = found.began;
    make_safe(found, backlog);
    if (highest_ && (marks_.empty() || found.ended - marks_.back().at >= kMarkInterval)) {
        marks_.push_back({found.ended, *highest_});
    }
}

void PollPlanner::make_safe(const PollResult& found, bool backlog) {
    if (backlog) {
        ASSERT(unordered_ || !safe_ || !found.last->before(*safe_));  // the position only moves forward
        safe_ = found.last;
        return forget_marks(found.began);
    }
    // The pass saw everything up to the mark, kLateWindow after something was first seen there.
    forget_marks(pass_began_);
    if (marks_.empty() || pass_began_ - marks_.front().at < kLateWindow) return;
    const Position& safe = marks_.front().highest;
    if (!safe_ || safe_->before(safe)) safe_ = safe;
}

/// Those that are older than another that was kLateWindow ago then.
void PollPlanner::forget_marks(Instant began) {
    while (marks_.size() > 1 && began - marks_[1].at >= kLateWindow) marks_.pop_front();
}

void PollPlanner::advance_sweep(const PollResult& found) {
    const Duration cost = found.ended - found.began;
    const Duration extra = poll_.up_to ? cost : std::max(cost - forward_cost_, Duration::zero());
    pay_for_sweep(extra, found.ended);
    const bool more = found.full && found.last && found.last->before(*sweep_up_to_);
    sweep_from_ = more ? found.last : std::nullopt;
    if (!more && poll_.up_to) next_sweep_ = std::max(next_sweep_, found.ended + kBetweenSweeps);
}

/// One page that happened to be slow says little: the cheaper of two counts.
void PollPlanner::pay_for_sweep(Duration cost, Instant ended) {
    next_sweep_ = ended + std::min(cost, std::exchange(sweep_cost_, cost)) * (kSweepShare - 1);
}

void PollPlanner::pace(const PollResult& found) {
    if (poll_.up_to) {  // it replaced a poll that goes forward
        if (found.anything_new) wait_ = busy_poll_;
        next_poll_ = found.ended;
        return;
    }
    const bool rows_left = found.full;
    const bool busy = found.anything_new || (rows_left && !poll_.sweep && !unordered_);
    wait_ = busy ? busy_poll_ : std::min(wait_ * 2, idle_poll_);
    // Without an order each poll begins anew, and a full one that brought nothing new brings the same again.
    const bool more_behind = rows_left && (!unordered_ || found.anything_new);
    const bool at_once = more_behind || (found.more_to_ask && found.anything_new);
    next_poll_ = at_once ? found.ended : std::max(found.began + wait_, found.ended + wait_ / 2);
    if (!unnotified_.empty()) next_poll_ = std::min(next_poll_, found.ended + kWhileUnnotified);
    if (back_) next_poll_ = found.ended;
    if (sweep_from_) next_poll_ = std::min(next_poll_, std::max(next_sweep_, found.ended));
}

void PollPlanner::failed(Instant began, Instant ended, Random& random) {
    if (poll_.sweep) {
        pay_for_sweep(ended - began, ended);
        next_sweep_ = std::max(next_sweep_, ended + kBetweenSweeps);
    }
    // Nothing else brings the next poll forward: the database may need the time.
    next_poll_ = ended + pipeline::backoff(++failures_, pipeline::kFirstPollRetry, pipeline::kLongestPollRetry, random);
    while (!due_times_.empty() && due_times_.top() <= next_poll_) due_times_.pop();
}

void PollPlanner::start_over() {
    valid_ = false;
    highest_.reset();
    safe_.reset();
    continue_.reset();
    more_ = true;
    marks_.clear();
    sweep_from_.reset();
    back_.reset();
    wait_ = busy_poll_;
    if (failures_ == 0) next_poll_ = Instant{};
}

void PollPlanner::wake(Instant now) {
    if (failures_ > 0) return;
    wait_ = busy_poll_;
    next_poll_ = std::min(next_poll_, now);
}

void PollPlanner::due_at(Instant at) {
    if (due_times_.size() < kMostDueTimes) due_times_.push(at);
}

}  // namespace deliverd::relay
