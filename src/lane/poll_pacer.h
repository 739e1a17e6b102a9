// When a lane polls its table again, and from which position. Pure code over instants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "base/random.h"
#include "store/row_queue.h"

namespace deliverd::lane {

/// *When?* At once after a full batch; otherwise after a wait that doubles from `busy_poll` to `idle_poll` while
/// nothing is found. After an error as pipeline::backoff() says.
///
/// *From where?* A transaction left open elsewhere keeps the index entries of settled rows alive, and a poll from the
/// beginning walks over all of them. So a poll normally starts behind the last row taken, and from the beginning only
/// as often as that costs at most one part in kFullPollShare of the time, and at least once per
/// kLongestWithoutFullPoll: that poll finds the rows that became visible late, were given back, or whose lease ran out.
class PollPacer {
public:
    static constexpr Duration kLongestWithoutFullPoll = std::chrono::seconds(1);
    static constexpr int kFullPollShare = 20;

    PollPacer(Duration busy_poll, Duration idle_poll);

    [[nodiscard]] Instant next_poll() const { return next_poll_; }
    /// The position to poll behind; none for a poll from the beginning.
    [[nodiscard]] std::optional<store::Cursor> position(Instant now) const;

    /// A poll that began at `began` with position `from` and ended at `ended` found `rows` of `limit`.
    void polled(Instant began, Instant ended, bool from_beginning, std::size_t rows, std::size_t limit,
                const std::optional<store::Cursor>& last);
    /// A poll that ended in an error. One from the beginning that took long is not repeated at once: with a transaction
    /// left open, the very case the position is for, it would time out again.
    void failed(Instant began, Instant ended, bool from_beginning, Random& random);

private:
    [[nodiscard]] Duration full_poll_interval() const;

    Duration busy_poll_;
    Duration idle_poll_;
    Duration wait_;
    std::int32_t failures_ = 0;  // in a row
    Instant next_poll_{};
    std::optional<store::Cursor> cursor_;
    Instant last_full_poll_{};
    Duration full_poll_cost_{};
};

}  // namespace deliverd::lane
