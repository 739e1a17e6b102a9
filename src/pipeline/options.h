// The options that every engine has. Each engine adds its own (lane/lane_options.h, relay/relay_options.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "message/retry_after.h"
#include "message/retry_policy.h"
#include "pipeline/settle_queue.h"

namespace deliverd::pipeline {

struct EngineOptions {
    std::string name;
    std::string worker_id;                      // unique among all processes that use the table
    std::int32_t batch_size = 100;              // rows per read
    std::int32_t parallelism = 16;              // messages at the sink at once
    std::size_t held_bytes = 32 * 1024 * 1024;  // no further read while the rows in memory have more
    Duration lease = std::chrono::seconds(60);  // of what the worker owns; renewed at a third of it
    RetryPolicy retry = RetryPolicy::leases();
    Duration idle_poll = std::chrono::milliseconds(500);    // longest wait between polls of an empty table
    Duration busy_poll = std::chrono::milliseconds(2);      // shortest
    Duration settle_linger = std::chrono::milliseconds(5);  // a settle batch waits this long to fill
    Duration settle_patience = std::chrono::minutes(10);    // then a settle that fails is given up
    Duration retry_after_cap = kLongestRetryAfter;          // a receiver cannot ask for a longer wait
    bool throttle = false;                                  // RATE_LIMITED slows the whole lane down (throttle.h)

    /// A settle has at most `batches` batches; after `refusals` in a row the queue is refused().
    [[nodiscard]] SettleQueueOptions settles(std::size_t batches, std::int32_t refusals) const {
        const auto batch = static_cast<std::size_t>(batch_size);
        return {batch, batches * batch, settle_linger, settle_patience, refusals};
    }
};

}  // namespace deliverd::pipeline
