// strict_order: up to which id everything is *certain*: no row with such an id can still appear.
//
// Pure code over instants and what looks tell. Ids are drawn in their order, so whoever can still bring a row up to the
// highest id E that a look saw had drawn its id when that look ended. It takes two steps until all of them are gone:
//
//   - A writer draws its id a moment before its transaction gets a number. A look that begins kLateWindow later finds
//     the numbers of all of them given out: they lie below its OpenWriters::next.
//   - A look, that one or a later one, to which all those below that number have ended shows whatever they wrote.
//
// From then on E is certain. Rows up to there are read and sent in order like any others; those behind it are not even
// read. It does not matter whose shards they are in: what is certain stays so, whatever a relay holds.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "relay/look_planner.h"
#include "store/events.h"

namespace deliverd::relay {

/// One thread at a time.
class Horizon {
public:
    static constexpr std::size_t kMostMarks = 64;                    // then the next one waits until one is certain
    static constexpr Duration kHeldPoll = LookPlanner::kLateWindow;  // between looks while a transaction is waited for

    /// What a look told that asked for the end above known(). A store that tells no writers has nothing uncertain.
    void looked(Instant began, Instant ended, const store::EventBatch& batch);

    /// All up to this id is certain.
    [[nodiscard]] std::int64_t certain() const { return certain_; }
    [[nodiscard]] bool nothing() const { return certain_ == kNothing; }
    [[nodiscard]] bool everything() const { return certain_ == kEverything; }
    /// A higher id is news.
    [[nodiscard]] std::int64_t known() const { return marks_.empty() ? certain_ : marks_.back().end; }
    /// Something is not certain yet.
    [[nodiscard]] bool waiting() const { return !marks_.empty(); }
    /// When a look can bring something on; none: when there is something new.
    [[nodiscard]] std::optional<Instant> next_look() const { return next_look_; }

private:
    static constexpr std::int64_t kNothing = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t kEverything = std::numeric_limits<std::int64_t>::max();
    struct Mark {
        std::int64_t end = 0;
        Instant seen;
        std::optional<std::uint64_t> next;  // certain when all transactions below it have ended; none: to be asked
    };

    std::int64_t certain_ = kNothing;
    std::deque<Mark> marks_;  // oldest first
    std::optional<Instant> next_look_;
};

}  // namespace deliverd::relay
