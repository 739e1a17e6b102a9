// How far everything in the stream is settled: the position that a reader may confirm to the server. Pure code.
//
// Transactions arrive one after another, and their events are settled in any order. The server forgets the log before
// a confirmed position and never sends it again, so a position is safe only when all events of all transactions before
// it are settled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "wal/lsn.h"

namespace deliverd::wal {

/// One thread at a time.
class Progress {
public:
    /// Names a transaction of the stream, here only. They are given out in order.
    using Ticket = std::uint64_t;

    /// `confirmed` is where the stream starts.
    explicit Progress(Lsn confirmed) : confirmed_(confirmed), safe_(confirmed) {}

    /// A transaction begins; none may be open (asserted).
    Ticket begin();
    /// Events of the open transaction (asserted) that somebody will settle.
    void handed_out(std::uint64_t events = 1);
    /// The open transaction (asserted) ends at `end`.
    void committed(Lsn end);
    /// Nothing of interest lies before `end`: a keepalive. Ignored within a transaction, whose events lie there, and
    /// where `end` is not ahead.
    void passed(Lsn end);
    /// Events of a transaction that were handed out (asserted) are settled.
    void settled(Ticket ticket, std::uint64_t events = 1);

    /// The highest position before which everything is settled. Never decreases.
    [[nodiscard]] Lsn confirmed() const { return confirmed_; }
    [[nodiscard]] bool in_transaction() const { return open_; }
    /// Events that are handed out and not settled.
    [[nodiscard]] std::uint64_t unsettled() const { return unsettled_; }
    /// Transactions in memory: at most twice those with unsettled events, and kSlack more.
    [[nodiscard]] std::size_t transactions() const { return entries_.size(); }

    static constexpr std::size_t kSlack = 64;

private:
    struct Entry {
        Ticket ticket = 0;
        Lsn end = 0;  // everything up to here is settled once this entry and all before it are
        std::uint64_t unsettled = 0;
    };

    void drop_settled();
    void compact();

    // In order of the tickets. The last one is the open transaction, if one is open.
    std::deque<Entry> entries_;
    std::size_t idle_ = 0;  // entries that are committed and settled, behind one that is not
    Ticket next_ = 1;
    Lsn confirmed_;
    Lsn safe_;  // the end of all that was committed or passed
    std::uint64_t unsettled_ = 0;
    bool open_ = false;
};

}  // namespace deliverd::wal
