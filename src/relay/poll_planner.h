// When a relay polls its table again, and from where. Pure code over instants and positions.
//
// *From where?* Polls go forward: behind the last row of the poll before. Two things can then lie behind the position:
//
//   - Writers commit out of the order of their ids. Near the end of the table, polls therefore begin further back, at a
//     *safe* position: everything up to there was seen by a poll that began kLateWindow after something was first seen
//     there. A row that became visible since then is found together with, and so before, whatever its writer's next
//     transaction wrote to the same aggregate. Rows in hand are recognised. Only where the rows are old (a backlog: a
//     whole batch, all written longer than kBacklogAgeSeconds ago) does a poll begin right behind the last one. A row's
//     age is that of its transaction: that the ids are not younger than kLateWindow is known from where the table ended
//     then.
//   - Transactions that stay open for longer. A *sweep* begins at the beginning of the table and finds their rows: with
//     each poll where the position is near the end and a poll from the beginning costs about the same; otherwise in
//     pages up to where the position was when the sweep began (what lies before that was all written before the first
//     page was read, so that an aggregate's rows are found in order). Sweeps take at most one part in kSweepShare of
//     the time.
//
// Neither is enough for the order of an aggregate. An id is given out before its row is visible: a writer may take
// longer than kLateWindow to commit one event and then write the next, which lies before the position while the first
// one lies behind it, though the writer did all in order. So a poll also reports which transactions are open (one
// snapshot for both), and those that were open when the position passed are *watched*. When one of them has ended, what
// a poll brings is believed only
//
//   - if the poll began before anything that transaction can have written, or
//   - if the ids of all rows it brings were drawn while the transaction was open: then no writer had waited for it.
//
// Otherwise the poll is thrown away and the reading goes *back* to where that transaction can have written. A poll that
// began early enough may have had no room for what the transaction wrote: it is repeated until it has. A transaction
// may have drawn its first id up to kLateWindow before a poll could see it; so it can have written behind where the
// position was that long before the first poll that did not see it.
//
// The simpler rule, to go back whenever a watched transaction has ended, would throw away polls of a backlog while
// writers are busy; near the end of the table both cost the same (docs/benchmarks.md). To hold the position back while
// a transaction is open would read the same rows again and again.
//
// Tables whose ids are uuids have no order: a new row can be anywhere, and each poll that ends begins anew.
//
// *When?* At once after a batch that was full; otherwise after a wait that doubles from `busy_poll` to `idle_poll`
// while nothing is found, counted from the poll's beginning, but half of it at least from its end; earlier when a retry
// comes due. After an error as pipeline::backoff() says.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "store/events.h"

namespace deliverd::relay {

/// The place of a row in the order of the reading.
struct Position {
    std::int64_t sequence = 0;
    store::RowId row_id;

    static Position of(const store::EventRow& row) { return {row.sequence, row.row_id}; }
    [[nodiscard]] bool before(const Position& other) const {
        return sequence != other.sequence ? sequence < other.sequence : row_id < other.row_id;
    }
};

/// One thread at a time.
class PollPlanner {
public:
    static constexpr Duration kLateWindow = std::chrono::milliseconds(100);
    static constexpr Duration kMarkInterval = kLateWindow / 10;
    static constexpr double kBacklogAgeSeconds = 1;
    static constexpr Duration kBetweenSweeps = std::chrono::seconds(1);  // of a table with a backlog
    static constexpr int kSweepShare = 20;
    static constexpr Duration kSleepFrom = std::chrono::milliseconds(50);
    static constexpr std::size_t kMostDueTimes = 10'000;
    static constexpr Duration kWhileUnnotified = std::chrono::milliseconds(20);
    /// The usual polls may as well find what a transaction wrote that stays open for longer.
    static constexpr Duration kLongestUnnotified = std::chrono::seconds(60);
    /// While a transaction is younger than this, polls begin before what it can have written. For an older one the
    /// reading goes back once, when it has ended, instead of walking over the same rows again and again.
    static constexpr Duration kWatchedClosely = std::chrono::seconds(1);

    PollPlanner(Duration busy_poll, Duration idle_poll);

    struct Poll {
        std::optional<store::RowId> after;
        std::optional<store::RowId> up_to;
        bool sweep = false;
        bool sees_rows_again = false;           // begins behind the position: rows in hand come too, and need room
        std::optional<std::int64_t> end_above;  // in what may be a backlog: report the end of the table above this
    };
    [[nodiscard]] Poll plan(Instant now);
    [[nodiscard]] Instant next_poll() const;

    /// Whether the forward rows of the poll under way may be taken. `last` is the last of them; `end` is the table's,
    /// if the poll reported it. False: they must be thrown away, and PollResult::asked is false.
    [[nodiscard]] bool believes(const std::optional<store::OpenWriters>& writers, const std::optional<Position>& last,
                                std::optional<std::int64_t> end, Instant began, Instant ended);

    /// What a poll found.
    struct PollResult {
        Instant began;
        Instant ended;
        bool asked = true;             // for forward rows
        std::optional<Position> last;  // of the forward rows that may be passed
        bool full = false;             // there may be more behind the last one
        double youngest_seconds = 0;   // the age of the youngest forward row
        bool anything_new = false;     // a row of any origin was taken
        bool more_to_ask = false;      // due or followed rows are left
    };
    void polled(const PollResult& found);
    void failed(Instant began, Instant ended, Random& random);

    /// Reads everything from the beginning: a poll under way no longer moves the position.
    void start_over();
    /// There is something to be found: the next poll comes at once.
    void wake(Instant now);
    /// Polls once more, at `at` at the latest; the table counts as quiet as before.
    void poll_again(Instant at) { next_poll_ = std::min(next_poll_, at); }
    /// A row becomes due then.
    void due_at(Instant at);

    /// The table is quiet: a notification may wake the relay instead.
    [[nodiscard]] bool quiet() const { return wait_ >= std::min(kSleepFrom, idle_poll_); }
    /// Writers notify the relay from now on. One that wrote before does not notify when it commits: polls continue
    /// every kWhileUnnotified until all transactions that the next poll sees open have ended.
    void fell_asleep(Instant now);
    /// A poll saw these open transactions, whatever became of its rows.
    void saw_writers(const store::OpenWriters& writers, Instant began);

private:
    struct Watched {
        std::optional<Position> from;  // it wrote nothing up to there; none: it may have written anywhere
        Instant seen;                  // when the poll began that first saw it
        std::int64_t end;              // ids up to there were drawn when it was open
    };
    struct Mark {
        Instant at;
        Position highest;
    };
    [[nodiscard]] bool sweep_is_due(Instant now) const;
    [[nodiscard]] std::optional<Position> near_the_end(Instant now) const;
    [[nodiscard]] std::optional<Position> before_new_writers() const;
    void forget_marks(Instant began);
    void begin_behind(std::optional<Position> position);
    [[nodiscard]] bool covers(const Watched& watched) const;
    void keep_ended(const Watched& watched);
    void advance(const PollResult& found);
    void make_safe(const PollResult& found, bool backlog);
    void advance_sweep(const PollResult& found);
    void pay_for_sweep(Duration cost, Instant ended);
    void pace(const PollResult& found);

    const Duration busy_poll_;
    const Duration idle_poll_;

    struct Back {
        std::optional<Position> to;  // none: the beginning
    };

    // The poll under way.
    Poll poll_;
    std::optional<Position> poll_from_;  // poll_.after
    bool valid_ = false;                 // no start_over() since it began

    std::optional<Position> highest_;   // seen by going forward
    std::optional<Position> safe_;      // none: the beginning
    std::optional<Position> continue_;  // within a pass from safe_ that needs several polls
    Instant pass_began_{};
    bool more_ = true;        // the last poll that went forward was full
    bool unordered_ = false;  // ids are uuids
    std::deque<Mark> marks_;  // oldest first

    // Of the transactions that were open when highest_ was seen, and those since, which began behind it.
    std::map<std::uint64_t, Watched> watched_;  // not more than the server has at once
    // Those that have ended, all as one, while polls bring what was written during them: a long backlog has any number
    // of them, and going back for the first goes back for all.
    std::optional<Watched> ended_;
    Instant writers_asked_{};                                      // when the last poll began whose writers were added
    std::int64_t end_ = std::numeric_limits<std::int64_t>::min();  // of the table, as far as known …
    Instant end_known_{};                                          // … since then
    std::int64_t drawn_ = end_;                                    // ids up to there were drawn kLateWindow ago
    std::optional<Back> back_;  // where the next poll begins, until one has come to highest_ again

    std::optional<Position> sweep_from_;  // within a sweep of several pages
    std::optional<Position> sweep_up_to_;
    Instant next_sweep_{};
    Duration sweep_cost_ = Duration::max();  // of the last page, beyond that of a poll that is due anyway
    Duration forward_cost_{};                // of the last poll that was no sweep

    Instant asleep_since_{};
    bool asks_unnotified_ = false;           // the next poll shows which they are
    std::vector<std::uint64_t> unnotified_;  // open, and wrote before that

    Duration wait_;
    std::int32_t failures_ = 0;  // in a row
    Instant next_poll_{};
    std::priority_queue<Instant, std::vector<Instant>, std::greater<>> due_times_;
};

}  // namespace deliverd::relay
