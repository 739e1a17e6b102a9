// Lets one of several equal messages through at a time, within one lane.
//
// The claim finds equals that were *sent*; two equals claimed together would both be sent. So the first one
// leads and the others wait for how it ends: delivered, they are duplicates; failed, the next one leads.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/outbox.h"

namespace deliverd::lane {

/// One thread at a time. Holds no more rows than the lane does.
class DedupGate {
public:
    /// True: send it, and call leader_ended() afterwards. False: `row` was taken and waits.
    bool admit(store::Claimed& row);

    struct Followers {
        std::vector<store::Claimed> duplicates;  // the leader was delivered: settle these as duplicates
        std::vector<store::Claimed> next;        // it failed: this one (at most) leads in its place
    };
    Followers leader_ended(const std::string& dedup_key, bool delivered);

    /// Everything that waits; the gate is empty afterwards.
    std::vector<store::Claimed> take_all();
    [[nodiscard]] std::size_t waiting() const { return waiting_; }

private:
    std::unordered_map<std::string, std::deque<store::Claimed>> behind_;
    std::size_t waiting_ = 0;
};

}  // namespace deliverd::lane
