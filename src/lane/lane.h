// One lane: rows from an Outbox, through a Sink, and back as settlements.
//
//     claim ─▶ [claimed queue] ─▶ send ─▶ (sink) ─▶ [outcomes] ─▶ [settle queue] ─▶ settle
//
// Three threads (fetch, send, settle) joined by bounded queues, and a fourth that renews leases older than
// a third of their length. Everything they decide is in stages without threads (stages.h), which the
// simulator runs too.
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
#include "sink/sink.h"
#include "store/outbox.h"

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

class Lane final : public Runner {
public:
    /// All references outlive the lane. `random` and `clock` are used by the lane's threads only.
    Lane(LaneOptions options, store::Outbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
         Observer& observer, Log& log);
    ~Lane() override;  // stop() without patience

    void start() override;
    void drain() override;
    /// Unfinished rows are left to their leases; unsent ones are given back.
    void stop(Duration patience) override;
    void hurry() override;
    /// Rescues once where the lane does that, claims once, sends, settles; what was not sent is given back.
    LaneTotals run_once(Duration patience) override;
    [[nodiscard]] LaneTotals totals() const override;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace deliverd::lane
