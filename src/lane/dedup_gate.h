// Lets one of several equal messages through at a time, and none after one was delivered, within one lane.
//
// The claim finds equals whose `sent` is committed. Two equals claimed together, or one claimed while the other's
// settle is still on its way, it does not. So the first one leads and the others wait for how it ends: delivered,
// they are duplicates, also those that come a little later; failed, the next one leads.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/outbox.h"

namespace deliverd::lane {

/// One thread at a time. Holds no more waiting rows than the lane does.
class DedupGate {
public:
    /// `remember`: how many delivered keys are kept. As many rows as a lane may hold, twice, is enough: whatever
    /// was delivered before that is settled, and the claim finds it.
    explicit DedupGate(std::size_t remember) : remember_(remember) {}

    enum class Verdict {
        lead,       // send it, and call leader_ended() afterwards
        wait,       // `row` was taken and waits
        duplicate,  // an equal one was delivered: row.duplicate_receipt says as what
    };
    Verdict admit(store::Claimed& row);

    struct Followers {
        std::vector<store::Claimed> duplicates;  // the leader was delivered: settle these as duplicates
        std::vector<store::Claimed> next;        // it failed: this one (at most) leads in its place
    };
    Followers leader_ended(const std::string& dedup_key, bool delivered, const std::optional<std::string>& receipt);

    /// Everything that waits; nobody does afterwards.
    std::vector<store::Claimed> take_all();
    [[nodiscard]] std::size_t waiting() const { return waiting_; }

private:
    void remember(const std::string& dedup_key, const std::optional<std::string>& receipt);

    const std::size_t remember_;
    std::unordered_map<std::string, std::deque<store::Claimed>> behind_;
    std::size_t waiting_ = 0;
    std::unordered_map<std::string, std::optional<std::string>> delivered_;  // key → receipt
    std::deque<std::string> delivered_order_;                                // oldest first
};

}  // namespace deliverd::lane
