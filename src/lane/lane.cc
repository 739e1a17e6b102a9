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
    send_.abandon();
    settle_.abandon();
    const std::vector<std::int64_t> unsent = send_.take_unsent();
    if (unsent.empty()) return;
    shared_.book.remove(unsent);
    const auto released = shared_.call("release", unsent.size(),
                                       [&] { return shared_.outbox.release(shared_.options.worker_id, unsent); });
    shared_.reporter.add(released ? &LaneTotals::released : &LaneTotals::abandoned, unsent.size());
}

bool Lane::at_work() const {
    return shared_.book.size() > 0 && !control_.draining && !shared_.limit.paused(clock_.now());
}

}  // namespace deliverd::lane
