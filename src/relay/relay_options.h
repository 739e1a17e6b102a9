// What is set for a lane that relays events in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "message/retry_after.h"
#include "message/retry_policy.h"
#include "message/topic_template.h"

namespace deliverd::relay {

struct RelayOptions {
    std::string name;
    std::string owner;                          // unique among all processes on the table
    TopicTemplate topic;                        // Message::topic of each event
    std::int32_t batch_size = 500;              // rows a read, and at least as many a settle may have
    std::int32_t parallelism = 1000;            // messages at the sink at once
    std::size_t held_bytes = 32 * 1024 * 1024;  // nothing more is read while what is in hand is larger together
    Duration lease = std::chrono::seconds(6);   // of shards; tended at a third of it
    RetryPolicy retry = RetryPolicy::events();
    bool block_behind_dead = false;                     // as in store::EventTable
    bool strict_order = false;                          // an aggregate's events in the order of their ids (horizon.h)
    bool listen = true;                                 // be woken by writers where the store can
    Duration idle_poll = std::chrono::seconds(1);       // longest wait between looks at an empty table
    Duration busy_poll = std::chrono::milliseconds(2);  // shortest
    Duration settle_linger = std::chrono::milliseconds(5);  // a settle batch waits this long to fill
    Duration settle_patience = std::chrono::minutes(10);    // then a settle the database refuses is given up
    Duration retry_after_cap = kLongestRetryAfter;          // a receiver cannot ask for more
    bool throttle = false;                                  // RATE_LIMITED slows the whole lane down
};

}  // namespace deliverd::relay
