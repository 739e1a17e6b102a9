// strict_order: up to which id everything is *certain*, that is, no row with such an id can still appear.
//
// Pure code over instants and the results of polls. It uses the end of the table, not rows: which transaction wrote
// a row does not say who drew a lower id. Ids are drawn in order, so every writer that can still add a row up to the
// highest id E that a poll saw had drawn its id when that poll ended. All of them have ended after two steps:
//
//   - A writer draws its id a moment before its transaction gets a number. A poll that begins kLateWindow later finds
//     that all of them have numbers: these are below its OpenWriters::next.
//   - A poll, that one or a later one, to which all transactions below that number have ended shows what they wrote.
//
// From then on E is certain, whatever shards a relay holds. Rows up to there are read and sent in order like any
// backlog, at full speed; those behind it are not even read, so what waits takes no memory.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "relay/poll_planner.h"
#include "store/events.h"

namespace deliverd::relay {

/// One thread at a time.
class Horizon {
public:
    static constexpr std::size_t kMostMarks = 64;                    // one more waits until the first is certain
    static constexpr Duration kHeldPoll = PollPlanner::kLateWindow;  // between polls while it waits for a transaction

    /// A poll that asked for the end above known() found this. In a store without open writers everything is certain.
    void polled(Instant began, Instant ended, const store::EventBatch& batch);

    /// All up to this id is certain.
    [[nodiscard]] std::int64_t certain() const { return certain_; }
    [[nodiscard]] bool nothing() const { return certain_ == kNothing; }
    [[nodiscard]] bool everything() const { return certain_ == kEverything; }
    /// Polls need to report only higher ids.
    [[nodiscard]] std::int64_t known() const { return marks_.empty() ? certain_ : marks_.back().end; }
    /// Something is not certain yet.
    [[nodiscard]] bool waiting() const { return !marks_.empty(); }
    /// When a poll can make more certain; none: when there is something new.
    [[nodiscard]] std::optional<Instant> next_poll() const { return next_poll_; }

private:
    static constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t kEverything = std::numeric_limits<std::int64_t>::max();
    struct Mark {
        std::int64_t end = 0;
        Instant seen;
        std::optional<std::uint64_t> next;  // certain when all transactions below it have ended; none: not known yet
    };

    std::int64_t certain_ = kNothing;
    std::deque<Mark> marks_;  // oldest first
    std::optional<Instant> next_poll_;
};

}  // namespace deliverd::relay
