#include "lane/dedup_gate.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"

namespace deliverd::lane {

DedupGate::Verdict DedupGate::admit(store::Claimed& row) {
    const std::string& key = row.message.dedup_key;
    if (key.empty()) return Verdict::lead;
    // Its settle may be on the way still, so the claim could not know.
    if (const auto known = delivered_.find(key); known != delivered_.end()) {
        row.duplicate = true;
        row.duplicate_receipt = known->second;
        return Verdict::duplicate;
    }
    const auto [place, first] = behind_.try_emplace(key);
    if (first) return Verdict::lead;
    place->second.push_back(std::move(row));
    return Verdict::wait;
}

DedupGate::Followers DedupGate::leader_ended(const std::string& dedup_key, bool delivered,
                                             const std::optional<std::string>& receipt) {
    Followers followers;
    const auto place = behind_.find(dedup_key);
    if (place == behind_.end()) return followers;
    std::deque<store::Claimed>& waiting = place->second;
    if (delivered) {
        std::move(waiting.begin(), waiting.end(), std::back_inserter(followers.duplicates));
        behind_.erase(place);
        remember(dedup_key, receipt);
    } else if (waiting.empty()) {
        behind_.erase(place);
    } else {
        // One at a time: once it is delivered, the others are duplicates.
        followers.next.push_back(std::move(waiting.front()));
        waiting.pop_front();
    }
    return followers;
}

void DedupGate::remember(const std::string& dedup_key, const std::optional<std::string>& receipt) {
    if (!delivered_.emplace(dedup_key, receipt).second) return;
    delivered_order_.push_back(dedup_key);
    if (delivered_order_.size() <= remember_) return;
    ASSERT(delivered_.size() == delivered_order_.size());
    // The oldest was settled long ago, and the claim finds it.
    delivered_.erase(delivered_order_.front());
    delivered_order_.pop_front();
}

std::vector<store::Claimed> DedupGate::take_all() {
    std::vector<store::Claimed> all;
    for (auto& [key, waiting] : behind_) {
        std::move(waiting.begin(), waiting.end(), std::back_inserter(all));
        // The keys stay: their leaders may still end.
        waiting.clear();
    }
    return all;
}

}  // namespace deliverd::lane
