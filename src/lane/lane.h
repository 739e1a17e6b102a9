// One lane: rows from an Outbox, through a Sink, and back as settlements.
//
//     claim ─▶ [claimed queue] ─▶ send ─▶ (sink) ─▶ [outcomes] ─▶ [settle queue] ─▶ settle
//
// Three threads (fetch, send, settle) joined by bounded queues, and a fourth that renews leases older than
// a third of their length. Everything they decide is in stages without threads (stages.h), which the
// simulator runs too; the threads and their end are the engine's (pipeline/engine.h).
#pragma once

#include <cstddef>

#include "base/random.h"
#include "lane/lane_options.h"
#include "lane/stages.h"
#include "pipeline/engine.h"

namespace deliverd::lane {

class Lane final : public pipeline::Engine {
public:
    /// All references outlive the lane. `random` and `clock` are used by the lane's threads only.
    Lane(LaneOptions options, store::Outbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
         Observer& observer, Log& log);
    ~Lane() override;  // stop() without patience: unfinished rows are left to their leases, unsent ones are given back
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    void drain() override { shared_.draining = true; }
    [[nodiscard]] LaneTotals totals() const override { return shared_.tally.read(); }

private:
    Instant take() override { return wake_at(fetch_.step()); }
    Instant send() override { return wake_at(send_.step()); }
    Instant settle() override { return wake_at(settle_.step()); }
    Instant keep() override { return wake_at(renew_.step()); }
    [[nodiscard]] bool sends_ended() const override { return shared_.sends_ended.load(); }
    [[nodiscard]] std::size_t at_sink() const override { return shared_.at_sink.load(); }
    void cut_off() override { shared_.cut_off = true; }
    [[nodiscard]] bool all_outcomes_read() const override { return send_.drained(); }
    [[nodiscard]] bool all_settled() const override { return settle_.drained(); }
    void abandon_sends() override { send_.abandon(); }
    void abandon_settles() override { settle_.abandon(); }
    void give_back() override;
    void prepare_once() override { renew_.step(); }  // so that rows someone left stuck are found by the claim
    void take_once() override { fetch_.step(); }
    [[nodiscard]] bool at_work() const override;

    static Instant wake_at(const Step& step) { return step.progressed ? Instant::min() : step.wake_at; }

    Shared shared_;
    FetchStage fetch_;
    SendStage send_;
    SettleStage settle_;
    RenewStage renew_;
};

}  // namespace deliverd::lane
