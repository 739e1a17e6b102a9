// A circuit breaker: when a destination keeps failing, leave it alone for a while, then ask with one message. Decides
// only; the time is given. One thread at a time.
//
//     closed ──failures in a row──▶ open ──pause over──▶ half open: one probe ──good──▶ closed
//                                    ▲                            │
//                                    └────────bad, pause doubled──┘
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"

namespace deliverd::sink {

struct BreakerOptions {
    std::int32_t failures = 0;  // in a row that open it; 0: never
    Duration pause = std::chrono::seconds(10);
    Duration longest_pause = std::chrono::minutes(5);
};

class Breaker {
public:
    /// What an attempt was let through as; given back to ended() or cancelled().
    enum class Permit { normal, probe };
    enum class Change { none, opened, closed };
    static constexpr Duration kProbeWait = std::chrono::seconds(1);

    explicit Breaker(BreakerOptions options) : options_(options), pause_(options.pause) {}

    /// None: not now, see wait().
    [[nodiscard]] std::optional<Permit> begin(Instant now);
    /// Until it is worth asking again: the rest of the pause, or kProbeWait at most while the probe is under way.
    [[nodiscard]] Duration wait(Instant now) const;

    /// The attempt ended. While it is not closed only the probe counts: what else comes in began before.
    Change ended(Permit permit, bool good, Instant now);
    /// The attempt was not made after all.
    void cancelled(Permit permit);

    /// Of the present or next time it is open.
    [[nodiscard]] Duration pause() const { return pause_; }

private:
    BreakerOptions options_;
    std::int32_t failures_ = 0;          // in a row, while closed
    std::optional<Instant> open_until_;  // set: not closed
    bool probing_ = false;
    Duration pause_;
};

}  // namespace deliverd::sink
