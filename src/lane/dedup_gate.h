// Within one lane, lets one of several equal messages through at a time, and none after one was delivered.
//
// The claim finds equal messages whose `sent` is committed. It does not find two that are claimed together, nor one
// that is claimed while the settle of the other is on its way. So the first one leads and the others wait for its end:
// if it is delivered, they are duplicates, and so are those that come a little later; if it fails, the next one leads.
// Two processes that each hold one of two equal rows still send both: these are different messages with different ids.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "store/row_queue.h"

namespace deliverd::lane {

/// One thread at a time. Holds at most the rows that the lane holds.
class DedupGate {
public:
    /// `remember`: delivered keys that are kept. Twice the rows that a lane may hold is enough: what was delivered
    /// before those is settled, and the claim finds it.
    explicit DedupGate(std::size_t remember) : remember_(remember) {}

    enum class Verdict {
        lead,       // send it, and call leader_ended() afterwards
        wait,       // `row` was taken and waits
        duplicate,  // an equal one was delivered, under row.duplicate_receipt
    };
    Verdict admit(store::Claimed& row);

    struct Followers {
        std::vector<store::Claimed> duplicates;  // the leader was delivered: settle these as duplicates
        std::vector<store::Claimed> next;        // the leader failed: this one, if any, leads in its place
    };
    Followers leader_ended(const std::string& dedup_key, bool delivered, const std::optional<std::string>& receipt);

    /// Takes everything that waits.
    std::vector<store::Claimed> take_all();

private:
    void remember(const std::string& dedup_key, const std::optional<std::string>& receipt);

    const std::size_t remember_;
    std::unordered_map<std::string, std::deque<store::Claimed>> behind_;
    std::unordered_map<std::string, std::optional<std::string>> delivered_;  // key → receipt
    std::deque<std::string> delivered_order_;                                // oldest first
};

}  // namespace deliverd::lane
