#include "pipeline/throttle.h"

#include <algorithm>

namespace deliverd::pipeline {

std::size_t Throttle::permits(Instant now, std::size_t wanted) const {
    if (now < next_permit(now)) return 0;
    // One at a time, 1/rate apart: a burst after a pause would bring the next complaint.
    return rate_ ? std::min<std::size_t>(wanted, 1) : wanted;
}

Instant Throttle::next_permit(Instant now) const {
    const Instant next = rate_ ? std::max(paused_until_, next_send_) : paused_until_;
    return std::max(next, now);
}

void Throttle::on_sent(Instant now, std::size_t messages) {
    if (messages == 0) return;
    const std::int64_t number = now.time_since_epoch() / kSlot;
    Slot& slot = slots_.at(static_cast<std::size_t>(number) % kSlots);
    // The slot held a tenth of an earlier second.
    if (slot.number != number) slot = {number, 0};
    slot.sent += messages;
    // The next tick after 1/rate: a wait cut to whole nanoseconds would be a little too short.
    if (rate_) next_send_ = now + from_seconds(static_cast<double>(messages) / *rate_) + Duration(1);
}

double Throttle::sent_in_the_last_second(Instant now) const {
    const std::int64_t newest = now.time_since_epoch() / kSlot;
    std::size_t sent = 0;
    for (const Slot& slot : slots_) {
        if (slot.number > newest - static_cast<std::int64_t>(kSlots)) sent += slot.sent;
    }
    return static_cast<double>(sent);
}

void Throttle::on_rate_limited(Instant began, Instant now, std::optional<Duration> retry_after) {
    if (retry_after) paused_until_ = std::max(paused_until_, now + std::min(*retry_after, longest_pause_));
    // Sends that were under way at a complaint are answered by complaints too. Together they lower the rate once.
    if (rate_ && began <= last_decrease_) return;
    if (!retry_after) paused_until_ = std::max(paused_until_, now + kPauseWithoutRetryAfter);
    const double recent = sent_in_the_last_second(now);
    if (!rate_) {
        // From the rate at the first complaint: with a fixed step of 2, a lane of 1,000 per second needed four minutes.
        increase_ = std::max(kIncreaseShare * recent, kLeastIncreasePerSecond);
        lift_at_ = std::max(kLiftFactor * recent, kLeastLiftPerSecond);
    }
    rate_ = std::max(kFloorPerSecond, rate_.value_or(recent) / 2);
    last_decrease_ = now;
}

void Throttle::on_success(Instant began) {
    if (!rate_ || began <= last_decrease_) return;
    // A second of successes at this rate adds `increase_`.
    *rate_ += increase_ / *rate_;
    if (*rate_ >= lift_at_) rate_.reset();
}

}  // namespace deliverd::pipeline
