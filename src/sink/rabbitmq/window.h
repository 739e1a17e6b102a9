// The messages of one channel that wait for their confirm, by the tag the server counts them with. No I/O.
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

/// Not thread-safe. Every job that goes in by add() comes out once: by settle(), expire() or take_all().
class ConfirmWindow {
public:
    /// What to do with a job that is settled; `returned`: the server found no queue for it.
    using Settle = std::function<void(const Job& job, bool returned)>;

    /// As the server counts on its side: 1, 2, 3, … on each new channel.
    void add(const Job& job, Instant deadline);

    /// Notes a basic.return: it is for the first message with that id that was not returned yet. False when there is
    /// none.
    bool mark_returned(std::string_view message_id);

    /// basic.ack or basic.nack for `tag`, or for all up to it (all there are, where it is 0). False for a tag that
    /// was never used: the server is out of step. A tag whose job came out by expire() is passed over.
    bool settle(std::uint64_t tag, bool multiple, const Settle& settle);

    /// Takes out, but keeps the tags of, the jobs whose deadline has passed: a late confirm is theirs and nobody
    /// else's.
    void expire(Instant now, const std::function<void(const Job&)>& expired);

    /// Takes out all jobs, in the order they went in.
    void take_all(const std::function<void(const Job&)>& taken);

    /// Jobs that wait.
    [[nodiscard]] std::size_t live() const { return live_; }
    /// Tags the server has not answered, those of expired jobs too.
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
    std::uint64_t return_hint_ = 1;     // returns come in the order of the messages: where to look first
    std::size_t live_ = 0;
};

}  // namespace deliverd::sink
