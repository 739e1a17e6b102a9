// The messages of one channel that wait for their confirm, by the server's tag. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "sink/thread_sink.h"

namespace deliverd::sink {

/// Not thread-safe. Every job that add() takes comes out once: by settle(), expire() or take_all().
class ConfirmWindow {
public:
    /// Called with each settled job; `returned`: the server found no queue for it.
    using Settle = std::function<void(const Job& job, bool returned)>;

    /// Gives it the next tag, as the server does: 1, 2, 3, … on each new channel.
    void add(const Job& job, Instant deadline);

    /// Notes a basic.return for the first message with that id that was not returned yet. False when there is none.
    bool mark_returned(std::string_view message_id);

    /// basic.ack or basic.nack for `tag`, or for all up to it (for all, where it is 0). False for a tag that was never
    /// used: the server is out of step. Skips a tag whose job came out by expire().
    bool settle(std::uint64_t tag, bool multiple, const Settle& settle);

    /// Takes out the jobs whose deadline has passed but keeps their tags: a late confirm must not settle another job.
    void expire(Instant now, const std::function<void(const Job&)>& expired);

    /// Takes out all jobs, in the order they went in.
    void take_all(const std::function<void(const Job&)>& taken);

    /// Number of jobs that wait.
    [[nodiscard]] std::size_t live() const { return live_; }
    /// Number of tags without an answer, those of expired jobs included.
    [[nodiscard]] std::size_t tags() const { return entries_.size(); }
    [[nodiscard]] std::optional<Instant> next_deadline() const;

private:
    struct Entry {
        Job job;  // message is null once it is out
        Instant deadline;
        bool returned = false;
    };

    void settle_one(Entry& entry, const Settle& settle);
    void drop_settled();

    std::deque<Entry> entries_;
    std::uint64_t first_tag_ = 1;       // of entries_.front()
    std::uint64_t expired_before_ = 1;  // no job with a tag below waits
    std::uint64_t return_hint_ = 1;     // where to search first: returns come in the order of the messages
    std::size_t live_ = 0;
};

}  // namespace deliverd::sink
