// When an engine may send: what a receiver that asked for less, or that cannot be reached, allows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>

#include "base/clock.h"
#include "message/message.h"
#include "pipeline/reporter.h"
#include "pipeline/throttle.h"

namespace deliverd::pipeline {

/// The sender's; paused_until() may be read by any thread.
class SendLimit {
public:
    /// `throttled`: RATE_LIMITED slows all sends down. Caps each Retry-After at `longest_pause`.
    SendLimit(bool throttled, Duration longest_pause, Reporter& reporter) : reporter_(reporter) {
        if (throttled) throttle_.emplace(longest_pause);
    }

    [[nodiscard]] Instant paused_until() const { return Instant(paused_until_.load()); }
    [[nodiscard]] bool paused(Instant now) const { return now < paused_until(); }
    void pause_until(Instant end) { paused_until_ = std::max(paused_until_.load(), end.time_since_epoch()); }

    /// How many of `wanted` may go now.
    [[nodiscard]] std::size_t permits(Instant now, std::size_t wanted) const {
        if (paused(now)) return 0;
        return throttle_ ? throttle_->permits(now, wanted) : wanted;
    }
    /// When the next one may; `now` when it already may.
    [[nodiscard]] Instant next_permit(Instant now) const {
        return std::max(throttle_ ? throttle_->next_permit(now) : now, paused_until());
    }
    /// `messages` went out, no more than permits() said.
    void on_sent(Instant now, std::size_t messages) {
        if (throttle_) throttle_->on_sent(now, messages);
    }
    /// An attempt that began at `began` ended so.
    void on_outcome(Instant now, const Outcome& outcome, Instant began) {
        if (!throttle_) return;
        const std::optional<double> before = throttle_->rate();
        if (outcome.code == kRateLimited) {
            throttle_->on_rate_limited(began, now, outcome.retry_after);
            pause_until(throttle_->paused_until());
        } else if (outcome.kind == OutcomeKind::delivered) {
            throttle_->on_success(began);
        }
        reporter_.send_rate(before, throttle_->rate());
    }

private:
    Reporter& reporter_;
    std::optional<Throttle> throttle_;
    std::atomic<Duration> paused_until_{};  // since an Instant's epoch
};

}  // namespace deliverd::pipeline
