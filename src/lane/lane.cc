#include "lane/lane.h"

#include <utility>
#include <vector>

namespace deliverd::lane {

Lane::Lane(LaneOptions options, store::RowQueue& outbox, sink::Sink& sink, const Clock& clock, Random& random,
           Observer& observer, Log& log)
    : Engine(sink, clock),
      shared_(std::move(options), outbox, sink, clock, observer, log, control_),
      fetch_(shared_, random.next()),
      send_(shared_, random.next()),
      settle_(shared_, random.next()),
      renew_(shared_) {}

Lane::~Lane() {
    stop(Duration::zero());
}

void Lane::leave() {
    // First what is under way, so that take_unsent() finds only rows of which no attempt was made.
    send_.abandon();
    settle_.abandon();
    const std::vector<std::int64_t> unsent = send_.take_unsent();
    if (unsent.empty()) return;
    shared_.book.remove(unsent);
    // Given back, they are due at once; left to their leases they would wait, those of orders ten minutes.
    const auto released = shared_.reporter.call(shared_.clock, "release", unsent.size(), [&] {
        return shared_.outbox.release(shared_.options.worker_id, unsent);
    });
    shared_.reporter.add(released ? &LaneTotals::released : &LaneTotals::abandoned, unsent.size());
}

bool Lane::at_work() const {
    // A receiver that asks for a pause ends the batch: run_once() does not wait for it.
    return shared_.book.size() > 0 && !control_.draining && !shared_.limit.paused(clock_.now());
}

}  // namespace deliverd::lane
