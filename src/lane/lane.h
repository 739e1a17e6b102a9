// One lane: rows from a RowQueue, through a Sink, and back as settlements.
//
//     claim ─▶ [claimed queue] ─▶ send ─▶ (sink) ─▶ [outcomes] ─▶ [settle queue] ─▶ settle
//
// Three threads (fetch, send, settle) joined by bounded queues, so that memory is bounded by configuration, and a
// fourth that renews leases older than a third of their length. Everything they decide is in stages without threads
// (stages.h), which the simulator runs too; the threads and their end are the engine's (pipeline/engine.h).
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
    Lane(LaneOptions options, store::RowQueue& outbox, sink::Sink& sink, const Clock& clock, Random& random,
         Observer& observer, Log& log);
    ~Lane() override;  // stop() without patience: unfinished rows are left to their leases, unsent ones are given back
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    [[nodiscard]] LaneTotals totals() const override { return shared_.reporter.totals(); }

private:
    Instant take() override { return fetch_.step(); }
    Instant send() override { return send_.step(); }
    Instant settle() override { return settle_.step(); }
    Instant keep() override { return renew_.step(); }
    [[nodiscard]] std::size_t at_sink() const override { return shared_.at_sink.load(); }
    [[nodiscard]] bool all_outcomes_read() const override { return send_.drained(); }
    [[nodiscard]] bool all_settled() const override { return settle_.drained(); }
    void leave() override;
    void prepare_once() override { renew_.step(); }  // so that rows someone left stuck are found by the claim
    void take_once() override { fetch_.step(); }
    [[nodiscard]] bool at_work() const override;

    Shared shared_;
    FetchStage fetch_;
    SendStage send_;
    SettleStage settle_;
    RenewStage renew_;
};

}  // namespace deliverd::lane
