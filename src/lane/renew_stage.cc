#include <algorithm>

#include "lane/stages.h"

namespace deliverd::lane {

Step RenewStage::step() {
    const Instant began = shared_.clock.now();
    if (began < next_try_) return {false, next_try_};
    const std::vector<std::int64_t> due = shared_.book.due_for_renewal(began);
    if (due.empty()) return {false, shared_.book.next_renewal(began)};

    const Result<std::vector<std::int64_t>> renewed =
        shared_.timed("renew", [&] { return shared_.outbox.renew(shared_.options.worker_id, due); });
    const Instant ended = shared_.clock.now();
    if (!renewed) {
        shared_.database_failed("renew", renewed.error(), due.size());
        next_try_ = ended + std::min(shared_.options.lease / 12, Duration(std::chrono::seconds(1)));
        return {false, next_try_};
    }
    shared_.book.renewed(due, *renewed, began);
    shared_.send_signal.poke();
    return {true, shared_.book.next_renewal(ended)};
}

}  // namespace deliverd::lane
