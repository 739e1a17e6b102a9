#include "sink/nats/flights.h"

#include <algorithm>

#include "base/assert.h"

namespace deliverd::sink {

std::uint64_t Flights::add(const Job& job, Instant deadline) {
    const auto id = next_id_++;
    ASSERT(flights_.empty() || flights_.rbegin()->second.deadline <= deadline);
    // Ids and deadlines grow together, so that the first flight is always the next to expire.
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
    while (!flights_.empty() && flights_.begin()->second.deadline <= now) {
        out.push_back(*take(flights_.begin()->first));
        if (out.back().unclaimed) continue;  // it had an answer: no refusal can mean it
        if (unanswered_.size() < kMaxUnanswered) {
            unanswered_.push_back({out.back().job.message->topic, now + kRefusalComesWithin});
        } else {
            // A refusal of one of these looks like the refusal of a flight: until then, no refusal counts.
            blind_until_ = now + kRefusalComesWithin;
        }
    }
    forget_unanswered(now);
    return out;
}

std::vector<Flight> Flights::take_all() {
    std::vector<Flight> out;
    out.reserve(flights_.size());
    for (const auto& [id, flight] : flights_) out.push_back(flight);
    flights_.clear();
    bytes_ = 0;
    // What the next connection reports is about its own publishes.
    unanswered_.clear();
    refusals_.clear();
    blind_until_ = {};
    return out;
}

void Flights::forget_unanswered(Instant now) {
    while (!unanswered_.empty() && unanswered_.front().forget_at <= now) {
        refusals_.erase(unanswered_.front().subject);  // one of them may have been about it
        unanswered_.pop_front();
    }
}

std::vector<Flight> Flights::take_refused(std::string_view subject, Instant now) {
    forget_unanswered(now);
    if (now < blind_until_) return {};
    std::vector<std::uint64_t> suspects;
    for (const auto& [id, flight] : flights_) {
        if (!flight.unclaimed && flight.job.message->topic == subject) suspects.push_back(id);
    }
    const auto is_it = [&](const Unanswered& one) { return one.subject == subject; };
    const auto expired = static_cast<std::size_t>(std::ranges::count_if(unanswered_, is_it));
    if (suspects.size() + expired == 0) return {};
    // With fewer refusals than candidates some of them were taken, and which is unknown: those must not become dead.
    const auto refusals = ++refusals_[std::string(subject)];
    if (refusals < suspects.size() + expired) return {};
    refusals_.erase(refusals_.find(subject));
    std::erase_if(unanswered_, is_it);
    std::vector<Flight> out;
    for (const auto id : suspects) out.push_back(*take(id));
    return out;
}

std::optional<Instant> Flights::next_deadline() const {
    if (flights_.empty()) return std::nullopt;
    return flights_.begin()->second.deadline;
}

}  // namespace deliverd::sink
