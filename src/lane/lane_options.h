// What is set for a lane that claims rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "message/retry_after.h"
#include "message/retry_policy.h"

namespace deliverd::lane {

struct LaneOptions {
    std::string name;
    std::string worker_id;                      // unique among all processes on the table
    std::int32_t batch_size = 100;              // rows a claim, and at most a settle
    std::int32_t parallelism = 16;              // messages at the sink at once
    std::size_t held_bytes = 32 * 1024 * 1024;  // no further claim while the rows held are larger together
    Duration lease = std::chrono::seconds(60);
    RetryPolicy retry = RetryPolicy::leases();
    Duration idle_poll = std::chrono::milliseconds(500);    // longest wait between looks at an empty table
    Duration busy_poll = std::chrono::milliseconds(2);      // shortest
    Duration settle_linger = std::chrono::milliseconds(5);  // a settle batch waits this long to fill
    Duration settle_patience = std::chrono::minutes(10);    // then a settle the database refuses is left to its lease
    Duration retry_after_cap = kLongestRetryAfter;          // a receiver cannot ask for more
    bool throttle = false;                                  // RATE_LIMITED slows the whole lane down (throttle.h)
    Duration rescue_interval{};                             // how often Outbox::rescue(lease) is called; 0: never
};

}  // namespace deliverd::lane
