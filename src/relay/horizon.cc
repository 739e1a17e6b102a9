#include "relay/horizon.h"

#include "base/assert.h"

namespace deliverd::relay {

void Horizon::polled(Instant began, Instant ended, const store::EventBatch& batch) {
    if (!batch.writers) {  // ids become visible in their order, or have none
        next_poll_ = everything() ? std::nullopt : std::optional(ended);
        certain_ = kEverything;
        return marks_.clear();
    }
    const std::int64_t before = certain_;
    for (Mark& mark : marks_) {
        // By now, whoever drew an id up to there has a number below this one.
        if (!mark.next && began - mark.seen >= PollPlanner::kLateWindow) mark.next = batch.writers->next;
    }
    // Once all of them have ended, this poll showed what they wrote.
    while (!marks_.empty() && marks_.front().next && *marks_.front().next <= batch.writers->oldest()) {
        ASSERT(marks_.front().end >= certain_);  // what is certain stays so
        certain_ = marks_.front().end;
        marks_.pop_front();
    }
    const bool time_for_another = marks_.empty() || ended - marks_.back().seen >= PollPlanner::kMarkInterval;
    if (batch.end && time_for_another && marks_.size() < kMostMarks) marks_.push_back({*batch.end, ended, {}});
    next_poll_.reset();
    if (certain_ != before) {
        next_poll_ = ended;
    } else if (!marks_.empty()) {
        next_poll_ = marks_.front().next ? ended + kHeldPoll : marks_.front().seen + PollPlanner::kLateWindow;
    }
}

}  // namespace deliverd::relay
