// Messages that were published and wait for their answers. No threads, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sink/sink.h"

namespace deliverd::sink {

struct Job {
    const Message* message;
    OutcomeReceiver* receiver;

    void report(Outcome outcome) const { receiver->on_outcome(*message, std::move(outcome)); }
};

struct Flight {
    Job job;
    Instant deadline;
    bool unclaimed = false;  // nobody took it; JetStream was asked why
};

/// A message is in it from before it is published until its outcome is reported: whoever takes it out reports.
class Flights {
public:
    static constexpr std::size_t kMaxMessages = 4096;
    static constexpr std::size_t kMaxBytes = 16UL * 1024 * 1024;  // of bodies; a larger one flies alone

    /// For `count` more.
    [[nodiscard]] bool has_room(std::size_t count = 1) const {
        return flights_.size() + count <= kMaxMessages && bytes_ < kMaxBytes;
    }
    [[nodiscard]] bool empty() const { return flights_.empty(); }

    /// Its id: never used again, and larger than those before. Deadlines must not fall.
    std::uint64_t add(const Job& job, Instant deadline);
    [[nodiscard]] Flight* find(std::uint64_t id);
    std::optional<Flight> take(std::uint64_t id);
    std::vector<Flight> take_expired(Instant now);
    std::vector<Flight> take_all();
    [[nodiscard]] std::optional<Instant> next_deadline() const;

private:
    std::map<std::uint64_t, Flight> flights_;  // oldest first
    std::size_t bytes_ = 0;
    std::uint64_t next_id_ = 1;
};

}  // namespace deliverd::sink
