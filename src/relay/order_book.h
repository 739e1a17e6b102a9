// Which rows a relay has in hand, and what may be sent next: the one place that keeps the order of an aggregate.
//
// Pure code: no clock, no threads, no I/O. What it promises, and why that holds:
//
//   - *One at a time.* At most one message of an aggregate is at the sink, always the first in hand. The next one goes
//     when that one was delivered; it need not be recorded yet, because after a crash both are sent again, in order. So
//     whatever the receiver takes for the first time, it takes in order, also from a relay that lost its shard and does
//     not know it yet. A sink that pipelines one aggregate would be faster for a single hot one, and would break its
//     order whenever a message in the middle is refused.
//   - *Failing.* After any other outcome nothing of the aggregate goes until the settlement is recorded: if a later
//   event
//     went out first and the process died, the next relay would try the failed one again and deliver it too late. What
//     else is in hand of the aggregate is dropped, and what polls bring of it is ignored. If a retry is recorded, the
//     database keeps the later rows back (a probe into a small partial index) and the aggregate need not be remembered:
//     its first row comes back when it is due. So memory does not grow with the number of failing aggregates, and a
//     restart or a takeover knows them at once. If it is recorded as dead, or if what was recorded is not known, the
//     rows that were dropped or ignored lie behind the reading position: a *gap*.
//   - *Gaps.* An aggregate with a gap takes no rows from the reading position. Its rows are asked for by name (follow),
//     page by page, until a page is not full; only then is nothing missing before what the position brings. A row that
//     failed before makes a gap too when it comes back, because the position passed what waited behind it. So does an
//     aggregate that has more in hand than one may have: the others must not wait behind it.
//   - *Polls overlap settlements.* A poll that began before a settlement was answered may have seen the table as it was
//     before; without this rule an event would go out twice without a crash, or a later one before a waiting one. Polls
//     come one after the other, so only the poll under way is in question: a row that was settled stays known, and an
//     aggregate that failed stays failing, until that poll has ended.
//   - *Due rows left out.* The database need not keep a row back behind a failed one that is due. Due rows come first
//   in
//     a batch. When there may be more of them than the batch has room for, an aggregate with nothing in hand may have
//     one of them: it gets a gap instead of being trusted.
//   - *Set aside.* An aggregate whose first row is bound for a paused topic (pipeline/destinations.h) must not fill the
//     hand, or nothing else would be read: 40 such aggregates of 440 once held up the other 400. It keeps at most that
//     row; what was behind it becomes a gap, which is followed when the row was sent. A limited number of them keep
//     their row; the others keep none and are read again by name. Those that were tried and refused make room for those
//     that keep none, or the same bad rows would be tried for ever. Only a row that failed before and comes before the
//     kept one replaces it: a dead event that was returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "store/events.h"

namespace deliverd::relay {

struct Aggregate;

/// A row in hand. Its address and its message's are stable until the book gives it up.
struct Held {
    enum class State {
        queued,    // to be sent
        at_sink,   // under way
        settling,  // ended; to be recorded
        fading,    // recorded while a poll was under way: still known until that poll has ended
    };
    store::EventRow row;
    store::ShardLease lease;
    State state = State::queued;
    bool failed = false;             // settling: not delivered
    Instant began{};                 // at the sink since
    std::optional<Instant> refused;  // put off: when it was first sent
    std::size_t bytes = 0;           // counted in OrderBook::bytes()
    Aggregate* aggregate = nullptr;  // null once the end of this row no longer matters to it
    Held* next = nullptr;            // queued: behind it in the aggregate
};

/// What is known of an aggregate; forgotten as soon as that is nothing. Only the book looks inside.
struct Aggregate {
    const std::string* name = nullptr;  // the key it is kept under
    std::int32_t shard = 0;
    Held* first = nullptr;  // queued rows, in order
    Held* last = nullptr;
    std::size_t queued = 0;
    std::size_t tried_again = 0;  // rows in hand that failed before, until they are recorded
    bool at_sink = false;
    bool failing = false;               // a failure is to be recorded, or was recorded during the poll under way
    bool gap = false;                   // rows may lie behind the reading position
    bool ready = false;                 // in ready_
    bool aside = false;                 // in aside_ or emptied_
    bool to_follow = false;             // in to_follow_
    bool followed = false;              // by the poll under way
    std::optional<store::RowId> after;  // with a gap: where the next page begins
    // Of the page that the poll under way brings.
    std::size_t page_rows = 0;
    std::optional<store::RowId> page_last;  // if there is any

    [[nodiscard]] bool nothing_in_hand() const { return first == nullptr && !at_sink && !failing && tried_again == 0; }
};

/// What became of a settlement.
enum class Recorded {
    ended,      // the row is no longer open, and the aggregate continues
    kept_back,  // it failed or is dead, and the database keeps the aggregate back
    unknown,    // it could not be recorded
};

struct OrderBookLimits {
    std::size_t of_one_aggregate = 0;  // rows in hand
    std::size_t follow_page = 0;       // rows of an aggregate that one poll asks for
    std::size_t gaps = 0;              // aggregates with a gap, until full()
    std::size_t aside = 0;             // aggregates that were set aside and keep their row
};

/// One thread at a time.
class OrderBook {
public:
    explicit OrderBook(OrderBookLimits limits) : limits_(limits) {}
    OrderBook(const OrderBook&) = delete;
    OrderBook& operator=(const OrderBook&) = delete;

    // --- polls -----------------------------------------------------------------------------------------------------

    /// A poll begins: which aggregates it should follow, at most `most`. end_poll() must follow.
    [[nodiscard]] std::vector<store::EventFollow> begin_poll(std::size_t most);

    enum class TakeResult {
        taken,    // `row` was moved from
        known,    // it is in hand
        ignored,  // its aggregate takes no rows now, or none of this origin
    };
    /// The rows of the poll under way, in their order. `trusted` false: there may be more due rows than were brought.
    TakeResult take(store::EventRow& row, store::ShardLease lease, bool trusted);

    /// The poll is over. `ok` false: it failed, or what it brought was not used.
    void end_poll(bool ok);
    [[nodiscard]] bool polling() const { return polling_; }

    // --- sending ---------------------------------------------------------------------------------------------------

    /// The next row that may go to the sink, now at it; null when there is none.
    Held* send_next(Instant now);
    [[nodiscard]] bool anything_to_send() const { return !ready_.empty(); }
    /// The row of this message, no longer at the sink; null when it was not there. A row whose shard was dropped in the
    /// meantime is gone with this call, and the answer is null.
    Held* at_sink(const Message& message);

    void delivered(Held& held);
    void failed(Held& held);
    /// It was not tried: first in its aggregate again, but behind an earlier row that came in the meantime (a dead
    /// event that was returned). The aggregate goes behind the others.
    void put_back(Held& held);
    /// It cannot be tried now: the aggregate waits for resume(). The row may be gone with this call.
    void set_aside(Held& held);
    [[nodiscard]] bool room_aside() const { return aside_.size() < limits_.aside; }
    /// What was set aside may be sent: all aggregates that kept their row, and `without_row` of those that did not.
    void resume(std::size_t without_row);
    [[nodiscard]] bool anything_aside() const { return !aside_.empty() || !emptied_.empty(); }

    // --- settlements -----------------------------------------------------------------------------------------------

    /// The row that waits to be recorded under this lease; null when it was dropped with its shard.
    Held* settling(const store::RowId& row_id, const store::ShardLease& lease);
    void settled(Held& held, Recorded recorded);

    // --- shards ----------------------------------------------------------------------------------------------------

    /// Another relay has the shard: forgets all of it. What is at the sink stays in memory until its outcome.
    void drop_shard(std::int32_t shard);
    /// The shard will be given back: forgets what was not sent.
    void drop_queued(std::int32_t shard);
    /// Nothing of the shard is at the sink or to be recorded.
    [[nodiscard]] bool at_rest(std::int32_t shard) const;
    /// Forgets everything that was not sent, at the end; answers how many rows that were.
    std::size_t drop_all_queued();

    [[nodiscard]] std::size_t rows() const { return held_.size() + orphans_.size(); }
    [[nodiscard]] std::size_t at_sink() const { return at_sink_.size(); }
    [[nodiscard]] std::size_t unfinished() const { return held_.size() - fading_.size() + orphans_.size(); }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] std::size_t failed_before() const { return failed_before_; }  // rows in hand that did
    [[nodiscard]] bool follow_wanted() const { return !to_follow_.empty(); }
    [[nodiscard]] bool full() const { return gaps_ >= limits_.gaps; }
    [[nodiscard]] std::size_t aggregates() const { return aggregates_.size(); }

private:
    using Rows = std::pmr::unordered_map<store::RowId, Held>;
    struct Resolution {  // of an aggregate's failure, when the poll under way has ended
        Aggregate* aggregate;
        Recorded recorded;
    };

    Aggregate& aggregate_of(const store::EventRow& row);
    void insert(Aggregate& aggregate, Held& held);
    void open_gap(Aggregate& aggregate, std::optional<store::RowId> after);
    void close_gap(Aggregate& aggregate);
    void want_follow(Aggregate& aggregate);
    void followed(Aggregate& aggregate);
    void make_ready(Aggregate& aggregate);
    void let_go(std::deque<Aggregate*>& waiting, std::size_t most);
    static void leave_sink(Held& held, Held::State next);
    static void queue_again(Aggregate& aggregate, Held& held);
    void drop_queue(Aggregate& aggregate);
    void resolve(Aggregate& aggregate, Recorded recorded);
    void forget_if_idle(Aggregate& aggregate);
    void erase(Held& held);
    void uncount(const Held& held);
    template <typename Matches>
    void forget_aggregates(Matches matches);

    const OrderBookLimits limits_;
    // Rows come and go by the thousand, from one thread to another: their nodes are kept and reused.
    std::pmr::unsynchronized_pool_resource memory_;
    Rows held_{&memory_};
    std::pmr::unordered_map<const Message*, Held*> at_sink_{&memory_};  // those of orphans_ included
    std::unordered_map<const Message*, Rows::node_type> orphans_;
    std::pmr::unordered_map<std::string, Aggregate> aggregates_{&memory_};
    std::deque<Aggregate*> ready_;      // their first row may go
    std::deque<Aggregate*> aside_;      // set aside, with their row
    std::deque<Aggregate*> emptied_;    // set aside, without
    std::deque<Aggregate*> to_follow_;  // with a gap, and little in hand
    bool polling_ = false;
    std::vector<Aggregate*> following_;  // by the poll under way
    std::vector<Held*> fading_;
    std::vector<Resolution> resolutions_;
    std::size_t bytes_ = 0;
    std::size_t gaps_ = 0;
    std::size_t failed_before_ = 0;
};

}  // namespace deliverd::relay
