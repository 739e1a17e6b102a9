#include "message/retry_policy.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace deliverd {
namespace {

/// No policy waits longer than this, whatever its numbers; so every wait fits a Duration.
constexpr double kLongestWaitSeconds = 366.0 * 24 * 3600;

double bounded(double seconds) {
    if (std::isnan(seconds)) return kLongestWaitSeconds;
    return std::clamp(seconds, 0.0, kLongestWaitSeconds);
}

}  // namespace

Duration RetryPolicy::wait_at(std::int32_t failures, double absolute_draw, double relative_draw) const {
    ASSERT(std::abs(absolute_draw) <= 1 && std::abs(relative_draw) <= 1);
    const double exponent = static_cast<double>(std::max(failures, 1)) - 1 + first_exponent;
    // 0 · infinity is not a number, and a base of 0 means no wait.
    const double grown = base_seconds == 0 ? 0 : base_seconds * std::pow(factor, exponent);
    const double raw = grown + std::abs(jitter_seconds) * absolute_draw;
    double seconds = std::min(bounded(raw), bounded(cap_seconds));
    seconds = bounded(seconds * (1 + std::abs(jitter) * relative_draw));
    if (whole_seconds) seconds = std::floor(seconds);
    return from_seconds(std::max(seconds, bounded(min_seconds)));
}

Duration RetryPolicy::wait_after(std::int32_t failures, Random& random) const {
    const double absolute_draw = jitter_seconds == 0 ? 0 : random.between(-1, 1);
    const double relative_draw = jitter == 0 ? 0 : random.between(-1, 1);
    return wait_at(failures, absolute_draw, relative_draw);
}

RetryPolicy RetryPolicy::orders(std::int32_t max_retries) {
    return {.base_seconds = 2, .cap_seconds = 256, .jitter = 0.1, .dead_at_failures = max_retries + 1};
}

RetryPolicy RetryPolicy::events() {
    return {.base_seconds = 1, .cap_seconds = 300, .jitter = 0.2, .dead_at_failures = 10};
}

RetryPolicy RetryPolicy::leases(std::int32_t max_retries) {
    return {.base_seconds = 60,
            .first_exponent = 1,
            .cap_seconds = 3600,
            .jitter = 0.3,
            .whole_seconds = true,
            .min_seconds = 1,
            .dead_at_failures = max_retries};
}

RetryPolicy RetryPolicy::spool() {
    return {.base_seconds = 60, .cap_seconds = 3600, .jitter_seconds = 30, .dead_at_failures = 5};
}

}  // namespace deliverd
