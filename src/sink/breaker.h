// A circuit breaker: while a destination keeps failing, nothing is sent for a pause; then one message probes it. Pure
// decisions; the caller passes the time. One thread at a time.
//
//     closed ──failures in a row──▶ open ──pause over──▶ half open: one probe ──good──▶ closed
//                                    ▲                            │
//                                    └────────bad, pause doubled──┘
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/assert.h"
#include "base/clock.h"

namespace deliverd::sink {

struct BreakerOptions {
    std::int32_t failures = 0;  // this many in a row open it; 0: never
    Duration pause = std::chrono::seconds(10);
    Duration longest_pause = std::chrono::minutes(5);
};

class Breaker {
public:
    /// How an attempt was permitted; passed back to ended() or cancelled().
    enum class Permit { normal, probe };
    enum class Change { none, opened, closed };
    static constexpr Duration kProbeWait = std::chrono::seconds(1);

    explicit Breaker(BreakerOptions options) : options_(options), pause_(options.pause) {}

    /// Asks to begin an attempt. None: not now, see wait().
    [[nodiscard]] std::optional<Permit> begin(Instant now) {
        if (!open_until_) return Permit::normal;
        // One at a time: more would add load to a receiver that may just be recovering.
        if (probing_ || now < *open_until_) return std::nullopt;
        probing_ = true;
        return Permit::probe;
    }

    /// Until the next begin() makes sense: the rest of the pause, or at most kProbeWait while the probe is under way.
    [[nodiscard]] Duration wait(Instant now) const {
        if (!open_until_) return Duration::zero();
        if (now < *open_until_) return *open_until_ - now;
        return probing_ ? std::min(options_.pause, kProbeWait) : Duration::zero();
    }

    /// The attempt ended. While the breaker is not closed only the probe counts: other attempts began before it opened.
    Change ended(Permit permit, bool good, Instant now) {
        if (permit == Permit::probe) {
            ASSERT(probing_);
            probing_ = false;
            if (!good) {
                // The pause of the configuration may be longer than the longest.
                pause_ = std::min(2 * pause_, std::max(options_.longest_pause, options_.pause));
                open_until_ = now + pause_;
                return Change::none;
            }
            open_until_.reset();
            failures_ = 0;
            pause_ = options_.pause;
            return Change::closed;
        }
        // While it is open, attempts end that began before: they are part of the failures that opened it.
        if (open_until_ || options_.failures <= 0) return Change::none;
        failures_ = good ? 0 : failures_ + 1;
        if (failures_ < options_.failures) return Change::none;
        open_until_ = now + pause_;
        return Change::opened;
    }

    /// The attempt was not made.
    void cancelled(Permit permit) {
        if (permit == Permit::probe) probing_ = false;
    }

    /// The length of the present pause, or of the next one.
    [[nodiscard]] Duration pause() const { return pause_; }

private:
    BreakerOptions options_;
    std::int32_t failures_ = 0;          // in a row, while closed
    std::optional<Instant> open_until_;  // set: not closed
    bool probing_ = false;
    Duration pause_;
};

}  // namespace deliverd::sink
