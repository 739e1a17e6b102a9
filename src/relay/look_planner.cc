#include "relay/look_planner.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "pipeline/pacing.h"

namespace deliverd::relay {

namespace {

std::optional<store::RowId> id_of(const std::optional<Position>& position) {
    return position ? std::optional(position->row_id) : std::nullopt;
}

}  // namespace

LookPlanner::LookPlanner(Duration busy_poll, Duration idle_poll)
    : busy_poll_(busy_poll), idle_poll_(std::max(busy_poll, idle_poll)), wait_(busy_poll) {}

/// Never two pages without a look that goes forward in between.
bool LookPlanner::sweep_is_due(Instant now) const {
    return highest_.has_value() && !unordered_ && !look_.up_to && now >= next_sweep_;
}

LookPlanner::Look LookPlanner::plan(Instant now) {
    valid_ = true;
    const bool sweep = sweep_is_due(now);
    look_ = Look{};
    if (more_ && !unordered_ && drawn_ == end_) look_.end_above = end_;
    look_back_ = back_.has_value();
    if (back_) {
        begin_behind(back_->to);
        return look_;
    }
    if (sweep) {
        look_.sweep = true;
        if (!sweep_from_) sweep_up_to_ = highest_;
        begin_behind(sweep_from_);
        look_.sees_rows_again = true;
        // From the beginning, near the end: what is new comes with it.
        if (sweep_from_ || backlog_ || continue_) look_.up_to = id_of(sweep_up_to_);
        return look_;
    }
    if (continue_ && !unordered_) {
        begin_behind(continue_);
        look_.sees_rows_again = false;
        return look_;
    }
    pass_began_ = now;
    begin_behind(unordered_ ? std::nullopt : near_the_end(now));
    return look_;
}

/// What transactions that the last look did not see cannot have written: they drew their first id kLateWindow before it
/// at the earliest.
std::optional<Position> LookPlanner::before_new_writers() const {
    if (!writers_asked_) return std::nullopt;
    for (auto mark = marks_.rbegin(); mark != marks_.rend(); ++mark) {
        if (*writers_asked_ - mark->at >= kLateWindow) return mark->highest;
    }
    return std::nullopt;
}

void LookPlanner::begin_behind(std::optional<Position> position) {
    look_.after = id_of(position);
    look_.sees_rows_again = highest_ && (!position || position->before(*highest_));
    look_from_ = std::move(position);
}

std::optional<Position> LookPlanner::near_the_end(Instant now) const {
    const std::optional<Position>* from = &safe_;
    const auto consider = [&](const Watched& watched) {
        if (!*from || now - watched.seen > kWatchedClosely) return;
        if (!watched.from || watched.from->before(**from)) from = &watched.from;
    };
    for (const auto& [transaction, watched] : watched_) consider(watched);
    if (ended_) consider(*ended_);
    return *from;
}

bool LookPlanner::believes(const std::optional<store::OpenWriters>& writers, const std::optional<Position>& last,
                           std::optional<std::int64_t> end, Instant began, Instant ended) {
    if (!valid_) return false;
    if (!writers) {  // rows appear in order
        drawn_ = std::numeric_limits<std::int64_t>::max();
        return true;
    }
    if (began - end_known_ >= kLateWindow) drawn_ = end_;
    if (end) {
        end_ = *end;
        end_known_ = ended;
    }
    // The pages of a sweep bring what was written before it began, in order.
    if (look_.up_to) return true;
    for (auto entry = watched_.begin(); entry != watched_.end();) {
        if (writers->has(entry->first)) {
            entry->second.end = end_;
            ++entry;
            continue;
        }
        keep_ended(entry->second);
        entry = watched_.erase(entry);
    }
    const bool covered = ended_ && covers(*ended_);
    const bool written_beside = ended_ && last && last->sequence <= ended_->end;
    if (covered || (ended_ && !written_beside)) {
        // A look that began there may have had no room for what that transaction wrote: it is repeated until it has.
        go_back_to(covered ? look_from_ : ended_->from);
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

void LookPlanner::fell_asleep(Instant now) {
    asleep_since_ = now;
    asks_unnotified_ = true;
    look_again(now);
}

void LookPlanner::saw_writers(const store::OpenWriters& writers, Instant began) {
    if (asks_unnotified_ && began >= asleep_since_) {
        asks_unnotified_ = false;
        unnotified_ = writers.transactions;
    } else {
        std::erase_if(unnotified_, [&](std::uint64_t transaction) { return !writers.has(transaction); });
    }
    if (began - asleep_since_ >= kLongestUnnotified) unnotified_.clear();
}

/// Whether the look under way shows all that this transaction wrote.
bool LookPlanner::covers(const Watched& watched) const {
    return !look_from_ || (watched.from && !watched.from->before(*look_from_));
}

void LookPlanner::go_back_to(const std::optional<Position>& position) {
    if (back_ && (!back_->to || (position && !position->before(*back_->to)))) return;
    back_ = Back{position};
}

void LookPlanner::keep_ended(const Watched& watched) {
    if (!ended_) {
        ended_ = watched;
        return;
    }
    if (!watched.from || (ended_->from && watched.from->before(*ended_->from))) ended_->from = watched.from;
    ended_->seen = std::max(ended_->seen, watched.seen);
    ended_->end = std::min(ended_->end, watched.end);
}

Instant LookPlanner::next_look() const {
    return due_times_.empty() ? next_look_ : std::min(next_look_, due_times_.top());
}

void LookPlanner::looked(const LookResult& found) {
    failures_ = 0;
    while (!due_times_.empty() && due_times_.top() <= found.began) due_times_.pop();
    if (found.last && found.last->sequence == 0) unordered_ = true;
    if (std::exchange(valid_, false) && found.asked) {
        if (look_.sweep) {
            advance_sweep(found);
        } else if (!look_back_) {
            forward_cost_ = found.ended - found.began;
        }
        const bool no_step = found.full && !found.last;  // there was no room for even one
        if (!look_.up_to && !no_step) advance(found);
    }
    pace(found);
}

void LookPlanner::advance(const LookResult& found) {
    const bool more = found.full;
    if (more && !unordered_ && highest_ && found.last->before(*highest_)) {
        back_ = Back{found.last};  // nothing between may be skipped
        sweep_from_.reset();       // … and is swept with it
        return;
    }
    back_.reset();
    more_ = more;
    if (found.last && (!highest_ || highest_->before(*found.last))) highest_ = found.last;
    if (!look_.sweep) {
        const bool old = found.youngest_seconds == 0 || found.youngest_seconds >= kBacklogAgeSeconds;
        backlog_ = more && old && found.last->sequence <= drawn_;
        // After a look that went back and found only what was known, the reading continues behind that.
        const bool go_on = more && (backlog_ || unordered_ || !found.anything_new);
        continue_ = go_on ? found.last : std::nullopt;
    } else {
        pass_began_ = found.began;
        if (more && !found.anything_new) continue_ = found.last;
    }
    make_safe(found);
    if (highest_ && (marks_.empty() || found.ended - marks_.back().at >= kMarkInterval)) {
        marks_.push_back({found.ended, *highest_});
    }
}

void LookPlanner::make_safe(const LookResult& found) {
    if (!look_.sweep && backlog_) {
        ASSERT(unordered_ || !safe_ || !found.last->before(*safe_));  // the position only moves forward
        safe_ = found.last;
        return forget_marks(found.began);
    }
    forget_marks(pass_began_);
    if (marks_.empty() || pass_began_ - marks_.front().at < kLateWindow) return;
    Position safe = marks_.front().highest;
    if (found.full && found.last->before(safe)) safe = *found.last;
    if (!safe_ || safe_->before(safe)) safe_ = std::move(safe);
}

/// Those that are older than another that was kLateWindow ago then.
void LookPlanner::forget_marks(Instant began) {
    while (marks_.size() > 1 && began - marks_[1].at >= kLateWindow) marks_.pop_front();
}

void LookPlanner::advance_sweep(const LookResult& found) {
    const Duration cost = found.ended - found.began;
    const Duration extra = look_.up_to ? cost : std::max(cost - forward_cost_, Duration::zero());
    pay_for_sweep(extra, found.ended);
    const bool more = found.full && found.last && sweep_up_to_ && found.last->before(*sweep_up_to_);
    sweep_from_ = more ? found.last : std::nullopt;
    if (!more && look_.up_to) next_sweep_ = std::max(next_sweep_, found.ended + kBetweenSweeps);
}

/// One page that happened to be slow says little: the cheaper of two counts.
void LookPlanner::pay_for_sweep(Duration cost, Instant ended) {
    next_sweep_ = ended + std::min(cost, std::exchange(sweep_cost_, cost)) * (kSweepShare - 1);
}

void LookPlanner::pace(const LookResult& found) {
    if (look_.up_to) {  // it replaced a look that goes forward
        if (found.anything_new) wait_ = busy_poll_;
        next_look_ = found.ended;
        return;
    }
    const bool rows_left = found.full;
    const bool busy = found.anything_new || (rows_left && !look_.sweep && !unordered_);
    wait_ = busy ? busy_poll_ : std::min(wait_ * 2, idle_poll_);
    // Without an order each look begins anew, and a full one that brought nothing new brings the same again.
    const bool more_behind = rows_left && (!unordered_ || found.anything_new);
    const bool at_once = more_behind || (found.more_to_ask && found.anything_new);
    next_look_ = at_once ? found.ended : std::max(found.began + wait_, found.ended + wait_ / 2);
    if (!unnotified_.empty()) next_look_ = std::min(next_look_, found.ended + kWhileUnnotified);
    if (back_) next_look_ = found.ended;
    if (sweep_from_) next_look_ = std::min(next_look_, std::max(next_sweep_, found.ended));
}

void LookPlanner::failed(Instant began, Instant ended, Random& random) {
    valid_ = false;
    if (look_.sweep) {
        pay_for_sweep(ended - began, ended);
        next_sweep_ = std::max(next_sweep_, ended + kBetweenSweeps);
    }
    next_look_ = ended + pipeline::backoff(++failures_, pipeline::kFirstLookRetry, pipeline::kLongestLookRetry, random);
    while (!due_times_.empty() && due_times_.top() <= next_look_) due_times_.pop();
}

void LookPlanner::start_over() {
    valid_ = false;
    highest_.reset();
    safe_.reset();
    continue_.reset();
    more_ = true;
    backlog_ = true;
    marks_.clear();
    sweep_from_.reset();
    sweep_up_to_.reset();
    back_.reset();
    wait_ = busy_poll_;
    if (failures_ == 0) next_look_ = Instant{};
}

void LookPlanner::wake(Instant now) {
    if (failures_ > 0) return;
    wait_ = busy_poll_;
    next_look_ = std::min(next_look_, now);
}

void LookPlanner::due_at(Instant at) {
    if (due_times_.size() < kMostDueTimes) due_times_.push(at);
}

}  // namespace deliverd::relay
