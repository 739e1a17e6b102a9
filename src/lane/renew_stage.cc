#include <algorithm>

#include "lane/stages.h"

namespace deliverd::lane {

Instant RenewStage::step() {
    const Instant wake_at = renew();
    // While renewals fail, our own rows may look stuck: freeing them would have them sent twice.
    const bool may_rescue = shared_.options.rescue_interval > Duration::zero() && !renewals_fail_;
    if (!may_rescue || shared_.control.draining.load()) return wake_at;
    if (shared_.clock.now() >= next_rescue_) rescue();
    return std::min(wake_at, next_rescue_);
}

void RenewStage::rescue() {
    const LaneOptions& options = shared_.options;
    const auto rescued = shared_.reporter.call(shared_.clock, "rescue", 0,
                                               [&] { return shared_.outbox.rescue(options.worker_id, options.lease); });
    next_rescue_ = shared_.clock.now() + options.rescue_interval;
    if (!rescued || *rescued == 0) return;
    // Always worth a line: a worker died, or stood still for longer than its lease.
    shared_.reporter.log().warn("freed rows that were stuck with a worker",
                                {{"lane", options.name}, {"rows", *rescued}});
    shared_.control.signals.take.poke();
}

Instant RenewStage::renew() {
    const Instant began = shared_.clock.now();
    if (began < next_try_) return next_try_;
    const std::vector<std::int64_t> due = shared_.book.due_for_renewal(began);
    renewals_fail_ = false;
    if (due.empty()) return shared_.book.next_renewal(began);

    const auto answer = shared_.reporter.call(shared_.clock, "renew", due.size(),
                                              [&] { return shared_.outbox.renew(shared_.options.worker_id, due); });
    // After a failure, and for what someone has locked and so is still due: not at once again.
    next_try_ = shared_.clock.now() + std::min(shared_.options.lease / 12, Duration(std::chrono::seconds(1)));
    renewals_fail_ = !answer.has_value();
    if (!answer) return next_try_;
    shared_.book.renewed(answer->renewed, answer->lost, began);
    // Rows may wait for this renewal before they are sent.
    shared_.control.signals.send.poke();
    return Instant::min();
}

}  // namespace deliverd::lane
