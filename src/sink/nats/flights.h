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
    bool unclaimed = false;  // nobody took it, and JetStream was asked why
};

/// Holds each message from before it is published until its outcome is reported: the code that takes it out reports it.
class Flights {
public:
    static constexpr std::size_t kMaxMessages = 4096;
    static constexpr std::size_t kMaxBytes = 16UL * 1024 * 1024;  // of bodies; a larger one goes alone
    /// After this long without a word from the server the connection is lost: no later refusal is about a publish.
    static constexpr Duration kRefusalComesWithin = std::chrono::seconds(20);
    static constexpr std::size_t kMaxUnanswered = kMaxMessages;  // expired ones that a refusal may still mean

    /// Whether `count` more may be added.
    [[nodiscard]] bool has_room(std::size_t count = 1) const {
        return flights_.size() + count <= kMaxMessages && bytes_ < kMaxBytes;
    }
    [[nodiscard]] bool empty() const { return flights_.empty(); }

    /// Returns its id: never used again, larger than those before. `deadline` must not be before an earlier one.
    std::uint64_t add(const Job& job, Instant deadline);
    [[nodiscard]] Flight* find(std::uint64_t id);
    std::optional<Flight> take(std::uint64_t id);
    std::vector<Flight> take_expired(Instant now);
    /// When the connection is gone: nothing more will be heard about what was published on it.
    std::vector<Flight> take_all();

    /// The server refused one publish to `subject` for lack of permission. It reports each refusal once, without saying
    /// which message it means, and sends no answer. Takes out all messages to that subject as soon as there were as
    /// many refusals as publishes without an answer, recently expired ones included: only then are all of them refused.
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
    Instant blind_until_{};                                     // more had expired than are kept
    std::map<std::string, std::size_t, std::less<>> refusals_;  // by subject, of publishes that are in one of the two
    std::size_t bytes_ = 0;
    std::uint64_t next_id_ = 1;
};

}  // namespace deliverd::sink
