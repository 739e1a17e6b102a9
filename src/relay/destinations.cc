#include "relay/destinations.h"

#include <algorithm>

namespace deliverd::relay {

Destinations::May Destinations::ask(std::string_view topic, Instant now) {
    if (paused_.empty()) return May::go;
    const auto found = paused_.find(topic);
    if (found == paused_.end()) return May::go;
    Pause& pause = found->second;
    if (now < pause.until) return pause.alone ? May::fail : May::wait;
    pause.until = now + kTrial;
    return May::go;
}

bool Destinations::refused(std::string_view topic, Instant now, Duration pause, const Outcome& why) {
    auto found = paused_.find(topic);
    if (found == paused_.end()) {
        if (paused_.size() >= kMostPaused) {
            const auto first =
                std::ranges::min_element(paused_, {}, [](const auto& entry) { return entry.second.until; });
            if (!first->second.alone) --not_alone_;
            paused_.erase(first);
        }
        found = paused_.emplace(topic, Pause{.since = now, .until = now, .alone = false, .why = {}}).first;
        ++not_alone_;
    }
    found->second.until = now + pause;
    found->second.why = why;
    return found->second.alone;
}

bool Destinations::attempted(std::string_view topic, Instant began, bool delivered) {
    if (paused_.empty()) return false;
    bool changed = false;
    if (const auto found = paused_.find(topic); found != paused_.end()) {
        if (!found->second.alone) --not_alone_;
        paused_.erase(found);
        changed = true;
    }
    if (!delivered || not_alone_ == 0) return changed;
    for (auto& [name, pause] : paused_) {
        if (pause.alone || began < pause.since) continue;
        pause.alone = true;
        --not_alone_;
        changed = true;
    }
    return changed;
}

Instant Destinations::first_end() const {
    Instant first = Instant::max();
    for (const auto& [name, pause] : paused_) first = std::min(first, pause.until);
    return first;
}

}  // namespace deliverd::relay
