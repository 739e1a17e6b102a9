#include <algorithm>

#include "lane/stages.h"

namespace deliverd::lane {

Duration RenewStage::retry_wait() const {
    return std::min(shared_.options.lease / 12, Duration(std::chrono::seconds(1)));
}

Step RenewStage::step() {
    Step step = renew();
    // While renewals fail, our own rows may look stuck: freeing them would have them sent twice.
    const bool may_rescue = shared_.options.rescue_interval > Duration::zero() && !renewals_fail_;
    if (!may_rescue || shared_.draining.load()) return step;
    if (shared_.clock.now() >= next_rescue_) rescue();
    step.wake_at = std::min(step.wake_at, next_rescue_);
    return step;
}

void RenewStage::rescue() {
    const LaneOptions& options = shared_.options;
    const Result<std::int64_t> rescued =
        shared_.timed("rescue", [&] { return shared_.outbox.rescue(options.worker_id, options.lease); });
    next_rescue_ = shared_.clock.now() + options.rescue_interval;
    if (!rescued) {
        shared_.database_failed("rescue", rescued.error(), 0);
    } else if (*rescued > 0) {
        shared_.log.warn("freed rows that were stuck with a worker", {{"lane", options.name}, {"rows", *rescued}});
        shared_.signals.take.poke();
    }
}

Step RenewStage::renew() {
    const Instant began = shared_.clock.now();
    if (began < next_try_) return {false, next_try_};
    const std::vector<std::int64_t> due = shared_.book.due_for_renewal(began);
    renewals_fail_ = false;
    if (due.empty()) return {false, shared_.book.next_renewal(began)};

    const Result<store::RenewAnswer> answer =
        shared_.timed("renew", [&] { return shared_.outbox.renew(shared_.options.worker_id, due); });
    const Instant ended = shared_.clock.now();
    if (!answer) {
        shared_.database_failed("renew", answer.error(), due.size());
        renewals_fail_ = true;
        next_try_ = ended + retry_wait();
        return {false, next_try_};
    }
    shared_.book.renewed(answer->renewed, answer->lost, began);
    shared_.signals.send.poke();
    // What someone had locked is still due: not at once again.
    next_try_ = ended + retry_wait();
    return {true, shared_.book.next_renewal(ended)};
}

}  // namespace deliverd::lane
