#include "relay/look_planner.h"

#include <algorithm>
#include <utility>

namespace deliverd::relay {

namespace {

std::optional<store::RowId> id_of(const std::optional<Position>& position) {
    return position ? std::optional(position->row_id) : std::nullopt;
}

}  // namespace

LookPlanner::LookPlanner(Duration busy_poll, Duration idle_poll)
    : busy_poll_(busy_poll), idle_poll_(std::max(busy_poll, idle_poll)), wait_(busy_poll) {}

bool LookPlanner::sweep_is_due(Instant now) const {
    return highest_.has_value() && !unordered_ && now >= next_sweep_;
}

LookPlanner::Look LookPlanner::plan(Instant now) {
    valid_ = true;
    look_ = Look{};
    while (marks_.size() > 1 && now - marks_[1].at >= kLateWindow) marks_.pop_front();
    if (sweep_is_due(now)) {
        look_.sweep = true;
        look_.sees_rows_again = true;
        if (!sweep_from_) sweep_up_to_ = highest_;
        look_.after = id_of(sweep_from_);
        // From the beginning, near the end: what is new comes with it.
        if (sweep_from_ || backlog_ || continue_) look_.up_to = id_of(sweep_up_to_);
        return look_;
    }
    if (continue_ || backlog_ || unordered_) {
        look_.after = id_of(continue_);
        look_.sees_rows_again = unordered_ && !continue_;
        return look_;
    }
    const bool old_enough = !marks_.empty() && now - marks_.front().at >= kLateWindow;
    if (old_enough) look_.after = marks_.front().highest.row_id;
    look_.sees_rows_again = true;
    return look_;
}

Instant LookPlanner::next_look() const {
    return due_times_.empty() ? next_look_ : std::min(next_look_, due_times_.top());
}

void LookPlanner::looked(const Found& found) {
    error_wait_ = Duration::zero();
    while (!due_times_.empty() && due_times_.top() <= found.began) due_times_.pop();
    if (found.last && found.last->sequence == 0) unordered_ = true;
    if (std::exchange(valid_, false) && found.asked) {
        if (look_.sweep) {
            advance_sweep(found);
        } else {
            forward_cost_ = found.ended - found.began;
        }
        if (!look_.up_to) advance(found);
    }
    pace(found);
}

void LookPlanner::advance(const Found& found) {
    if (found.last && (!highest_ || highest_->before(*found.last))) highest_ = found.last;
    const bool more = found.full && !found.cut;
    if (!look_.sweep) {
        backlog_ = more && (found.youngest_seconds == 0 || found.youngest_seconds >= kBacklogAgeSeconds);
        // A look that went back and found only what was known goes on behind that.
        const bool go_on = more && (backlog_ || unordered_ || !found.anything_new);
        continue_ = go_on ? found.last : std::nullopt;
    }
    if (highest_ && (marks_.empty() || found.ended - marks_.back().at >= kMarkInterval)) {
        marks_.push_back({found.ended, *highest_});
    }
}

void LookPlanner::advance_sweep(const Found& found) {
    const Duration cost = found.ended - found.began;
    const Duration extra = look_.up_to ? cost : std::max(cost - forward_cost_, Duration::zero());
    next_sweep_ = found.ended + extra * (kSweepShare - 1);
    const bool more = found.full && !found.cut && found.last && sweep_up_to_ && found.last->before(*sweep_up_to_);
    sweep_from_ = more ? found.last : std::nullopt;
    if (!more && look_.up_to) next_sweep_ = std::max(next_sweep_, found.ended + kBetweenSweeps);
}

void LookPlanner::pace(const Found& found) {
    const bool rows_left = found.full && !found.cut && !look_.up_to;
    const bool busy = found.anything_new || (rows_left && !look_.sweep);
    wait_ = busy ? busy_poll_ : std::min(wait_ * 2, idle_poll_);
    const bool at_once = rows_left || (found.more_to_ask && found.anything_new);
    next_look_ = at_once ? found.ended : found.ended + wait_;
    if (sweep_from_) next_look_ = std::min(next_look_, std::max(next_sweep_, found.ended));
}

void LookPlanner::failed(Instant began, Instant ended, Random& random) {
    valid_ = false;
    if (look_.sweep) next_sweep_ = ended + std::max((ended - began) * kSweepShare, kBetweenSweeps);
    error_wait_ = error_wait_ == Duration::zero() ? Duration(std::chrono::milliseconds(50))
                                                  : std::min(error_wait_ * 2, kLongestErrorWait);
    next_look_ = ended + from_seconds(to_seconds(error_wait_) * random.between(0.75, 1.0));
    while (!due_times_.empty() && due_times_.top() <= next_look_) due_times_.pop();
}

void LookPlanner::start_over() {
    valid_ = false;
    highest_.reset();
    continue_.reset();
    backlog_ = true;
    marks_.clear();
    sweep_from_.reset();
    sweep_up_to_.reset();
    wait_ = busy_poll_;
    if (error_wait_ == Duration::zero()) next_look_ = Instant{};
}

void LookPlanner::wake(Instant now) {
    if (error_wait_ != Duration::zero()) return;
    wait_ = busy_poll_;
    next_look_ = std::min(next_look_, now);
}

void LookPlanner::due_at(Instant at) {
    if (due_times_.size() < kMostDueTimes) due_times_.push(at);
}

}  // namespace deliverd::relay
