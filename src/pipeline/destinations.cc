#include "pipeline/destinations.h"

#include <algorithm>
#include <utility>

namespace deliverd::pipeline {

Destinations::May Destinations::ask(std::string_view topic, Instant now) {
    const auto found = paused_.find(topic);
    if (found == paused_.end()) return May::go;
    Pause& pause = found->second;
    if (now >= pause.until) {
        pause.since = pause.refused_at;
        pause.until = now + kTrial;
        // A few at a time: if the topic is still away, each of them costs a send and a refusal.
        pause.trials_left = std::max<std::size_t>(trials_ / paused_.size(), 1);
    }
    if (pause.trials_left == 0) return pause.alone ? May::wait_or_fail : May::wait;
    --pause.trials_left;
    return May::go;
}

Destinations::Pause& Destinations::pause_of(std::string_view topic, Instant now) {
    const auto found = paused_.find(topic);
    if (found != paused_.end()) return found->second;
    if (paused_.size() >= kMostPaused) {
        // Forgetting it early only means that its events are tried a little too soon.
        paused_.erase(std::ranges::min_element(paused_, {}, [](const auto& entry) { return entry.second.until; }));
    }
    return paused_.emplace(topic, Pause{.refused_at = now, .since = now, .until = now}).first->second;
}

Destinations::Refusal Destinations::refused(std::string_view topic, Instant first_began, Instant began, Instant now,
                                            Duration pause, const Outcome& why) {
    // A receiver that asks for less takes some and refuses others; no part of it is away.
    const auto delivered = delivered_.find(topic);
    if (delivered != delivered_.end() && first_began <= delivered->second && why.code != kRateLimited) {
        const auto on_trial = paused_.find(topic);
        if (on_trial != paused_.end()) on_trial->second.until = now;  // says nothing of the others: they are next
        return Refusal::counts;
    }
    Pause& paused = pause_of(topic, now);
    paused.refused_at = now;
    paused.until = now + pause;
    paused.trials_left = 0;
    paused.why = why;
    if (began <= paused.since) return Refusal::waits;  // sent before the topic was paused, or tried long ago
    // Something else was delivered since: the receiver is there, and the trouble is this topic's.
    const bool was_alone = std::exchange(paused.alone, paused.since < last_delivered_);
    if (!paused.alone) return Refusal::waits;
    return was_alone ? Refusal::counts : Refusal::counts_alone;
}

bool Destinations::attempted(std::string_view topic, Instant began, bool delivered) {
    if (delivered) was_delivered(topic, began);
    const auto found = paused_.find(topic);
    if (found == paused_.end()) return false;
    paused_.erase(found);
    return true;
}

void Destinations::was_delivered(std::string_view topic, Instant began) {
    last_delivered_ = std::max(last_delivered_, began);
    auto found = delivered_.find(topic);
    if (found == delivered_.end()) {
        // Without them a partial outage is seen one delivery later. Keeping their order would cost more.
        if (delivered_.size() >= kMostDelivered) delivered_.clear();
        found = delivered_.emplace(topic, began).first;
    }
    found->second = std::max(found->second, began);
}

Instant Destinations::first_end() const {
    Instant first = Instant::max();
    for (const auto& [name, pause] : paused_) first = std::min(first, pause.until);
    return first;
}

}  // namespace deliverd::pipeline
