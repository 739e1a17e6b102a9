// Which shards a relay holds, which of them it may use, and when it must renew them. Pure code over instants.
//
// Events are owned by shard, not by row: claiming a row is a write, reading it is not. A relay leases a few shard rows,
// reads with plain SELECTs and writes each event once. The order of an aggregate follows: one relay at a time sends its
// events. A lease has a token, and a settle checks owner and token under a lock on the lease's row, in its own
// transaction: a relay that lost a shard changes nothing, even when the takeover happens at that moment.
//
// A shard is *active* from the tend that brought it until it is lost, or until it is one too many. Then it is
// *leaving*: nothing new of it is read or sent, and it is given back when nothing of it is under way. Nothing begins
// when the last tend that worked *began* longer ago than two thirds of the lease. The database counts from when it got
// the call, which is later; so a send begins only when the shard is certainly still this relay's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "store/events.h"

namespace deliverd::relay {

/// One thread at a time.
class ShardKeeper {
public:
    explicit ShardKeeper(Duration lease) : lease_(lease) {}

    [[nodiscard]] Instant next_tend() const { return next_tend_; }

    struct Change {
        std::vector<std::int32_t> lost;     // another relay has them, or the token changed: forget what is in hand
        std::vector<std::int32_t> leaving;  // to be given back: begin nothing more
        /// Read from the beginning: the rows of a new shard lie behind the position, and nothing else keeps one of its
        /// newer events from being sent before an older one.
        bool gained = false;
    };
    /// A tend that began at `began` was answered.
    Change tended(Instant began, const store::ShardShare& share);
    /// A tend ended in an error at `now`.
    void tend_failed(Instant now);

    /// A settle found that this lease is over. True when it was held until now.
    bool lost(const store::ShardLease& lease, Instant now);
    /// Given back, as far as is known: a tend shows it if it was not.
    void released(const store::ShardLease& lease);

    /// Nothing may begin: the shards may be another relay's by now.
    [[nodiscard]] bool stale(Instant now) const { return now - tended_ > lease_ * 2 / 3; }

    [[nodiscard]] std::vector<store::ShardLease> active() const;
    [[nodiscard]] std::vector<store::ShardLease> leaving() const;
    /// The token of an active shard.
    [[nodiscard]] std::optional<std::int64_t> active_token(std::int32_t shard) const;
    [[nodiscard]] bool any_leaving() const;
    [[nodiscard]] std::size_t held() const { return held_.size(); }
    [[nodiscard]] std::int32_t relays() const { return relays_; }

private:
    struct Shard {
        std::int64_t token = 0;
        bool leaving = false;
    };
    void share_out(std::size_t share, Change& change);

    const Duration lease_;
    std::map<std::int32_t, Shard> held_;
    std::map<std::int32_t, std::int64_t> over_;  // by shard, the highest token that is known to be over
    std::int32_t relays_ = 0;
    Instant tended_{};  // began then; nothing is held before the first
    Instant next_tend_{};
};

}  // namespace deliverd::relay
