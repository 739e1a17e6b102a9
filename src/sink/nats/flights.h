// Messages that were published and wait for their answers. No threads, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sink/thread_sink.h"

namespace deliverd::sink {

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
    /// A server that says nothing for this long has lost its connection: after it no refusal comes for a publish.
    static constexpr Duration kRefusalComesWithin = std::chrono::seconds(20);
    static constexpr std::size_t kMaxUnanswered = kMaxMessages;  // expired ones a refusal may still be about

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
    /// The connection is gone: nothing is said about what was published on it any more.
    std::vector<Flight> take_all();

    /// The server refused one publish to `subject` for want of permission. It says so once for each and never which one
    /// it means; what it refuses gets no answer. Takes out those it is certain about: all to that subject, as soon as
    /// there were as many refusals as publishes without an answer, those that expired lately among them.
    std::vector<Flight> take_refused(std::string_view subject, Instant now);
    [[nodiscard]] std::optional<Instant> next_deadline() const;

private:
    struct Unanswered {
        std::string subject;
        Instant forget_at;
    };

    void forget_unanswered(Instant now);

    std::map<std::uint64_t, Flight> flights_;                   // oldest first
    std::deque<Unanswered> unanswered_;                         // expired; a refusal may be about one of them
    Instant blind_until_{};                                     // there were more of those than are kept
    std::map<std::string, std::size_t, std::less<>> refusals_;  // by subject, of publishes that are in one of the two
    std::size_t bytes_ = 0;
    std::uint64_t next_id_ = 1;
};

}  // namespace deliverd::sink
