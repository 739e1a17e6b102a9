#include "message/retry_policy.h"

#include <algorithm>
#include <cmath>

namespace deliverd {
namespace {

/// No policy waits longer than this, whatever its numbers; so every wait fits a Duration.
constexpr double kLongestWaitSeconds = 366.0 * 24 * 3600;

double bounded(double seconds) {
    if (std::isnan(seconds)) return kLongestWaitSeconds;
    return std::clamp(seconds, 0.0, kLongestWaitSeconds);
}

/// The formula with both jitters drawn: each in [-1, 1], -1 the shortest, 1 the longest.
Duration wait_with(const RetryPolicy& policy, std::int32_t failures, double absolute_draw, double relative_draw) {
    const double exponent = static_cast<double>(std::max(failures, 1)) - 1 + policy.first_exponent;
    // 0 · infinity is not a number, and a base of 0 means no wait.
    const double grown = policy.base_seconds == 0 ? 0 : policy.base_seconds * std::pow(policy.factor, exponent);
    const double raw = grown + std::abs(policy.jitter_seconds) * absolute_draw;
    double seconds = std::min(bounded(raw), bounded(policy.cap_seconds));
    seconds = bounded(seconds * (1 + std::abs(policy.jitter) * relative_draw));
    if (policy.whole_seconds) seconds = std::floor(seconds);
    return from_seconds(std::max(seconds, bounded(policy.min_seconds)));
}

}  // namespace

Duration RetryPolicy::wait_after(std::int32_t failures, Random& random) const {
    const double absolute_draw = jitter_seconds == 0 ? 0 : random.between(-1, 1);
    const double relative_draw = jitter == 0 ? 0 : random.between(-1, 1);
    return wait_with(*this, failures, absolute_draw, relative_draw);
}

Duration RetryPolicy::shortest_wait(std::int32_t failures) const {
    return wait_with(*this, failures, -1, -1);
}

Duration RetryPolicy::longest_wait(std::int32_t failures) const {
    return wait_with(*this, failures, 1, 1);
}

RetryPolicy RetryPolicy::orders(std::int32_t max_retries) {
    RetryPolicy policy;
    policy.base_seconds = 2;
    policy.cap_seconds = 256;
    policy.jitter = 0.1;
    policy.dead_at_failures = max_retries + 1;
    return policy;
}

RetryPolicy RetryPolicy::events() {
    RetryPolicy policy;
    policy.base_seconds = 1;
    policy.cap_seconds = 300;
    policy.jitter = 0.2;
    policy.dead_at_failures = 10;
    return policy;
}

RetryPolicy RetryPolicy::leases(std::int32_t max_retries) {
    RetryPolicy policy;
    policy.base_seconds = 60;
    policy.first_exponent = 1;
    policy.cap_seconds = 3600;
    policy.jitter = 0.3;
    policy.whole_seconds = true;
    policy.min_seconds = 1;
    policy.dead_at_failures = max_retries;
    return policy;
}

RetryPolicy RetryPolicy::spool() {
    RetryPolicy policy;
    policy.base_seconds = 60;
    policy.cap_seconds = 3600;
    policy.jitter_seconds = 30;
    policy.dead_at_failures = 5;
    return policy;
}

}  // namespace deliverd
