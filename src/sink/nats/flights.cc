#include "sink/nats/flights.h"

namespace deliverd::sink {

std::uint64_t Flights::add(const Job& job, Instant deadline) {
    const auto id = next_id_++;
    flights_.emplace_hint(flights_.end(), id, Flight{job, deadline});
    bytes_ += job.message->body.size();
    return id;
}

Flight* Flights::find(std::uint64_t id) {
    const auto found = flights_.find(id);
    return found == flights_.end() ? nullptr : &found->second;
}

std::optional<Flight> Flights::take(std::uint64_t id) {
    const auto node = flights_.extract(id);
    if (node.empty()) return std::nullopt;
    bytes_ -= node.mapped().job.message->body.size();
    return node.mapped();
}

std::vector<Flight> Flights::take_expired(Instant now) {
    std::vector<Flight> out;
    while (!flights_.empty() && flights_.begin()->second.deadline <= now) out.push_back(*take(flights_.begin()->first));
    return out;
}

std::vector<Flight> Flights::take_all() {
    return take_expired(Instant::max());
}

std::optional<Instant> Flights::next_deadline() const {
    if (flights_.empty()) return std::nullopt;
    return flights_.begin()->second.deadline;
}

}  // namespace deliverd::sink
