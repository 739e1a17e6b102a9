#include <algorithm>

#include "lane/stages.h"

namespace deliverd::lane {

Duration RenewStage::retry_wait() const {
    return std::min(shared_.options.lease / 12, Duration(std::chrono::seconds(1)));
}

Step RenewStage::step() {
    const Instant began = shared_.clock.now();
    if (began < next_try_) return {false, next_try_};
    const std::vector<std::int64_t> due = shared_.book.due_for_renewal(began);
    if (due.empty()) return {false, shared_.book.next_renewal(began)};

    const Result<store::RenewAnswer> answer =
        shared_.timed("renew", [&] { return shared_.outbox.renew(shared_.options.worker_id, due); });
    const Instant ended = shared_.clock.now();
    if (!answer) {
        shared_.database_failed("renew", answer.error(), due.size());
        next_try_ = ended + retry_wait();
        return {false, next_try_};
    }
    shared_.book.renewed(answer->renewed, answer->lost, began);
    shared_.send_signal.poke();
    // What someone had locked is still due: not at once again.
    next_try_ = ended + retry_wait();
    return {true, shared_.book.next_renewal(ended)};
}

}  // namespace deliverd::lane
