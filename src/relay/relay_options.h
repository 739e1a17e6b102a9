// The options of a lane that relays events in order.
#pragma once

#include "message/topic_template.h"
#include "pipeline/options.h"

namespace deliverd::relay {

/// `lease` is that of shards.
struct RelayOptions : pipeline::EngineOptions {
    RelayOptions() {
        batch_size = 500;
        parallelism = 1000;
        lease = std::chrono::seconds(6);
        retry = RetryPolicy::events();
        idle_poll = std::chrono::seconds(1);
    }

    TopicTemplate topic;             // Message::topic of each event
    bool block_behind_dead = false;  // as in store::EventTable
    bool strict_order = false;       // an aggregate's events in the order of their ids (horizon.h)
    bool listen = true;              // let writers wake the lane, if the store can
};

}  // namespace deliverd::relay
