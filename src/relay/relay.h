// One ordered lane: events from an EventOutbox, through a Sink, and back as settlements, those of one aggregate in the
// order they were written.
//
//     tend shards ─▶ read ─▶ (order book: one of an aggregate at the sink) ─▶ send ─▶ outcomes ─▶ settle
//
// Everything that is decided is in RelayCore (relay_core.h), which has no threads and does no I/O; the threads here
// carry what it wants done to the ports and bring back the answers. The simulator drives the same core.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "lane/observer.h"
#include "lane/runner.h"
#include "message/http_answer.h"
#include "message/retry_policy.h"
#include "message/topic_template.h"
#include "sink/sink.h"
#include "store/events.h"

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

class Relay final : public lane::Runner {
public:
    /// All references outlive the relay. `random` and `clock` are used by the relay's threads only.
    Relay(RelayOptions options, store::EventOutbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
          lane::Observer& observer, Log& log);
    ~Relay() override;  // stop() without patience

    void start() override;
    void drain() override;
    /// Also gives its shards back, so that others need not wait for the leases to run out.
    void stop(Duration patience) override;
    void hurry() override;
    /// Takes its share of the shards, relays one batch, leaves. With strict_order it waits a few seconds at most for
    /// the transactions that it must wait for.
    lane::LaneTotals run_once(Duration patience) override;
    [[nodiscard]] lane::LaneTotals totals() const override;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace deliverd::relay
