#include "lane/poll_pacer.h"

#include <algorithm>

#include "pipeline/pacing.h"

namespace deliverd::lane {

PollPacer::PollPacer(Duration busy_poll, Duration idle_poll)
    : busy_poll_(busy_poll), idle_poll_(std::max(busy_poll, idle_poll)), wait_(busy_poll) {}

Duration PollPacer::full_poll_interval() const {
    return std::min(full_poll_cost_ * kFullPollShare, kLongestWithoutFullPoll);
}

std::optional<store::Cursor> PollPacer::position(Instant now) const {
    if (!cursor_ || now - last_full_poll_ >= full_poll_interval()) return std::nullopt;
    return cursor_;
}

void PollPacer::polled(Instant began, Instant ended, bool from_beginning, std::size_t rows, std::size_t limit,
                       const std::optional<store::Cursor>& last) {
    failures_ = 0;
    if (from_beginning) {
        last_full_poll_ = ended;
        full_poll_cost_ = ended - began;
    }
    // A full poll that was not filled took everything that is due: the old position is still right.
    const bool all_taken_before_it = from_beginning && rows < limit && cursor_;
    if (last && !all_taken_before_it) cursor_ = last;

    // A full batch: more is due.
    if (rows >= limit) {
        wait_ = busy_poll_;
        next_poll_ = ended;
        return;
    }
    if (rows > 0) {
        wait_ = busy_poll_;
    } else if (from_beginning) {  // no other poll shows that nothing is due
        wait_ = std::min(wait_ * 2, idle_poll_);
    }
    next_poll_ = ended + wait_;
}

void PollPacer::failed(Instant began, Instant ended, bool from_beginning, Random& random) {
    if (from_beginning) {
        last_full_poll_ = ended;
        full_poll_cost_ = ended - began;
    }
    next_poll_ = ended + pipeline::backoff(++failures_, pipeline::kFirstPollRetry, pipeline::kLongestPollRetry, random);
}

}  // namespace deliverd::lane
