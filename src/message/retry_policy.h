// When to retry and when to give up, from the number of failures and a Random. Pure code.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/random.h"

namespace deliverd {

/// Every policy in deliverd is one set of these numbers.
///
/// With n failures so far (the present one included, n >= 1) the wait is
///
///     raw  = base_seconds * factor^(n - 1 + first_exponent)  [+ uniform(±jitter_seconds)]
///     wait = min(raw, cap_seconds)                            [* (1 ± jitter)]
///
/// rounded down to whole seconds with `whole_seconds`, and at least min_seconds.
struct RetryPolicy {
    double base_seconds = 1;
    double factor = 2;
    std::int32_t first_exponent = 0;  // 1 for the lease protocol, whose first wait is base * factor
    double cap_seconds = 300;
    double jitter = 0;          // fraction, applied after the cap
    double jitter_seconds = 0;  // absolute, applied before the cap
    bool whole_seconds = false;
    double min_seconds = 0;
    std::int32_t dead_at_failures = 10;  // the failure with this number is the last

    /// The wait after the n-th failure. Finite for every n and all numbers.
    [[nodiscard]] Duration wait_after(std::int32_t failures, Random& random) const;
    /// The same with both jitters drawn: each in [-1, 1], -1 for the shortest wait, 1 for the longest.
    [[nodiscard]] Duration wait_at(std::int32_t failures, double absolute_draw, double relative_draw) const;
    [[nodiscard]] bool gives_up_at(std::int32_t failures) const { return failures >= dead_at_failures; }

    static RetryPolicy orders(std::int32_t max_retries = 8);  // 2, 4, … 256 s ±10 %; dead at failure max+1
    static RetryPolicy events();                              // 1, 2, … 300 s ±20 %; dead at failure 10
    static RetryPolicy leases(std::int32_t max_retries = 5);  // 120, 240, … 3600 s ±30 %, whole seconds
    static RetryPolicy spool();                               // 60, 120, … s ±30 s, at most 1 h; five attempts
};

}  // namespace deliverd
