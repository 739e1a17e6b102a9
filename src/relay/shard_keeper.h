// Which shards a relay holds, which of them it may use, and when it must say again that it is alive. Pure code over
// instants.
//
// A shard is *active* from the tend that brought it until it is lost, or until it is one too many: then it is
// *leaving*, nothing new of it is read or sent, and it is given back when nothing of it is under way. Nothing is begun
// while the last tend that worked *began* longer ago than two thirds of the lease: the database counts from when it got
// the call, which is later, so a send is begun only when the shard is certainly still this relay's.
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
    void tend_soon(Instant now) { next_tend_ = now; }

    struct Change {
        std::vector<std::int32_t> lost;     // someone else's, or another token: forget what is in hand
        std::vector<std::int32_t> leaving;  // to be given back: begin nothing more
        bool gained = false;                // read from the beginning: rows of it lie anywhere
    };
    /// What a tend that began at `began` answered.
    Change tended(Instant began, const store::ShardShare& share);
    /// It ended in an error at `now`.
    void tend_failed(Instant now);

    /// A settle was told that this lease is over. True when it was held until now.
    bool lost(const store::ShardLease& lease, Instant now);
    /// Given back, as far as is known: a tend will tell if it was not.
    void released(const store::ShardLease& lease);

    /// Nothing may be begun: nobody can tell whether the shards are still this relay's.
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
    std::map<std::int32_t, std::int64_t> over_;  // the highest token of a shard that is known to be over
    std::int32_t relays_ = 0;
    Instant tended_{};  // began then; nothing is held before the first
    Instant next_tend_{};
};

}  // namespace deliverd::relay
