#include "relay/horizon.h"

#include "base/assert.h"

namespace deliverd::relay {

void Horizon::looked(Instant began, Instant ended, const store::EventBatch& batch) {
    if (!batch.writers) {  // ids become visible in their order, or have none
        next_look_ = everything() ? std::nullopt : std::optional(ended);
        certain_ = kEverything;
        return marks_.clear();
    }
    const std::int64_t before = certain_;
    for (Mark& mark : marks_) {
        // By now, whoever drew an id up to there has a number below this one.
        if (!mark.next && began - mark.seen >= LookPlanner::kLateWindow) mark.next = batch.writers->next;
    }
    // Once all of them have ended, this look showed what they wrote.
    while (!marks_.empty() && marks_.front().next && *marks_.front().next <= batch.writers->oldest()) {
        ASSERT(marks_.front().end >= certain_);  // what is certain stays so
        certain_ = marks_.front().end;
        marks_.pop_front();
    }
    const bool time_for_another = marks_.empty() || ended - marks_.back().seen >= LookPlanner::kMarkInterval;
    if (batch.end && time_for_another && marks_.size() < kMostMarks) marks_.push_back({*batch.end, ended, {}});
    next_look_.reset();
    if (certain_ != before) {
        next_look_ = ended;
    } else if (!marks_.empty()) {
        next_look_ = marks_.front().next ? ended + kHeldPoll : marks_.front().seen + LookPlanner::kLateWindow;
    }
}

}  // namespace deliverd::relay
