#include "lane/lane.h"

#include <utility>
#include <vector>

namespace deliverd::lane {

Lane::Lane(LaneOptions options, store::Outbox& outbox, sink::Sink& sink, const Clock& clock, Random& random,
           Observer& observer, Log& log)
    : Engine(sink, clock),
      shared_(std::move(options), outbox, sink, clock, observer, log, signals_),
      fetch_(shared_, random.next()),
      send_(shared_, random.next()),
      settle_(shared_, random.next()),
      renew_(shared_) {}

Lane::~Lane() {
    stop(Duration::zero());
}

void Lane::give_back() {
    const std::vector<std::int64_t> unsent = send_.take_unsent();
    if (unsent.empty()) return;
    shared_.book.remove(unsent);
    const Result<std::int64_t> released =
        shared_.timed("release", [&] { return shared_.outbox.release(shared_.options.worker_id, unsent); });
    if (!released) shared_.database_failed("release", released.error(), unsent.size());
    shared_.tally.add(released ? &LaneTotals::released : &LaneTotals::abandoned, unsent.size());
}

bool Lane::at_work() const {
    return shared_.book.size() > 0 && !shared_.draining && !shared_.paused(shared_.clock.now());
}

}  // namespace deliverd::lane
