#include "lane/dedup_gate.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace deliverd::lane {

bool DedupGate::admit(store::Claimed& row) {
    if (row.message.dedup_key.empty()) return true;
    const auto [place, first] = behind_.try_emplace(row.message.dedup_key);
    if (first) return true;
    place->second.push_back(std::move(row));
    ++waiting_;
    return false;
}

DedupGate::Followers DedupGate::leader_ended(const std::string& dedup_key, bool delivered) {
    Followers followers;
    const auto place = behind_.find(dedup_key);
    if (place == behind_.end()) return followers;
    std::deque<store::Claimed>& waiting = place->second;
    if (delivered) {
        std::move(waiting.begin(), waiting.end(), std::back_inserter(followers.duplicates));
        waiting_ -= waiting.size();
        behind_.erase(place);
    } else if (waiting.empty()) {
        behind_.erase(place);
    } else {
        followers.next.push_back(std::move(waiting.front()));
        waiting.pop_front();
        --waiting_;
    }
    return followers;
}

std::vector<store::Claimed> DedupGate::take_all() {
    std::vector<store::Claimed> all;
    for (auto& [key, waiting] : behind_) std::move(waiting.begin(), waiting.end(), std::back_inserter(all));
    behind_.clear();
    waiting_ = 0;
    return all;
}

}  // namespace deliverd::lane
