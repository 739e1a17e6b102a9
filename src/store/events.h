// The port through which a relay reads an event table in order and records how each event ended.
//
// Work is owned by *shards*: an aggregate belongs to one of N parts of the table, and a relay that holds a shard's
// lease is the only one that sends what is in it. Rows are read without being claimed and written once, when settled.
//
// Guarantees every implementation gives (store/conformance/events.h checks them):
//   - a shard has at most one owner at a time; the database's clock decides when a lease has run out; the token grows
//     with every change of owner;
//   - a settlement takes effect only while its shard's lease is the owner's with that token, and the row is open and
//     has as many failures as when it was read. The check and the write are one transaction in which the shard cannot
//     change hands. A lease that ran out and that no other relay took still settles;
//   - read() gives open rows only, those of one aggregate in id order, and none that waits behind an earlier one of its
//     aggregate that failed and is not due yet, nor (with block_behind_dead) behind a dead one.
//
// Threads, blocking and failure: as in store/row_queue.h.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/message.h"
#include "store/row_queue.h"

namespace deliverd::store {

enum class AfterPublish { mark, remove };

/// What the columns of an event table are called. An empty name: the table has no such column.
struct EventColumns {
    std::string id = "id";  // integer or uuid; rows are read in its order
    std::string aggregate_id = "aggregate_id";
    std::string aggregate_type{};  // optional; for topics
    std::string event_type = "event_type";
    std::string payload = "payload";
    std::string event_id = "event_id";          // optional: without it the id itself is the message id
    std::string metadata = "metadata";          // optional: a JSON object
    std::string created_at = "created_at";      // optional
    std::string published = "published";        // optional, boolean: without it rows are deleted once published
    std::string published_at = "published_at";  // optional
    // All four or none: without them failures are kept in deliverd.event_failures.
    std::string retry_count = "retry_count";
    std::string next_attempt_at = "next_attempt_at";
    std::string last_error = "last_error";
    std::string dead_at = "dead_at";

    /// id, aggregatetype, aggregateid, type, payload.
    static EventColumns debezium() {
        return {.aggregate_id = "aggregateid",
                .aggregate_type = "aggregatetype",
                .event_type = "type",
                .event_id = "",
                .metadata = "",
                .created_at = "",
                .published = "",
                .published_at = "",
                .retry_count = "",
                .next_attempt_at = "",
                .last_error = "",
                .dead_at = ""};
    }
};

/// All of them, with the names that they have in deliverd's own table and in the configuration.
inline constexpr std::array<std::pair<std::string_view, std::string EventColumns::*>, 14> kEventColumns{{
    {"id", &EventColumns::id},
    {"aggregate_id", &EventColumns::aggregate_id},
    {"aggregate_type", &EventColumns::aggregate_type},
    {"event_type", &EventColumns::event_type},
    {"payload", &EventColumns::payload},
    {"event_id", &EventColumns::event_id},
    {"metadata", &EventColumns::metadata},
    {"created_at", &EventColumns::created_at},
    {"published", &EventColumns::published},
    {"published_at", &EventColumns::published_at},
    {"retry_count", &EventColumns::retry_count},
    {"next_attempt_at", &EventColumns::next_attempt_at},
    {"last_error", &EventColumns::last_error},
    {"dead_at", &EventColumns::dead_at},
}};

struct EventTable {
    std::string lane;              // shards, relays and failures are kept under this name
    std::string table = "outbox";  // in the store's schema, or "schema.table"
    EventColumns columns{};
    AfterPublish after_publish = AfterPublish::mark;
    bool block_behind_dead = false;  // on_dead: block
    std::int32_t shards = 64;
};

/// A row's id as text: a number or a uuid.
using RowId = std::string;

/// The number, if the id is one.
[[nodiscard]] inline std::optional<std::int64_t> sequence_of(std::string_view row_id) {
    std::int64_t number = 0;
    const char* begin = row_id.data();
    const char* end = begin + row_id.size();
    const auto [stop, fault] = std::from_chars(begin, end, number);
    if (fault != std::errc() || stop != end) return std::nullopt;
    return number;
}

enum class EventOrigin {
    forward,  // behind the position
    due,      // failed before, and its retry is due
    follow,   // of an aggregate that catches up
};

struct EventRow {
    RowId row_id;
    std::int64_t sequence = 0;  // the number, for order within an aggregate; 0 where ids are uuids
    std::int32_t shard = 0;
    EventOrigin origin = EventOrigin::forward;
    double age_seconds = 0;  // since created_at; 0 where there is none
    /// id (the number, or 0), message_id, key = aggregate id, type, body = the payload's text untouched,
    /// content_type application/json, created_at, aggregate_type, headers = the metadata's entries, failures.
    Message message;
};

struct EventFollow {
    std::string aggregate_id;
    std::optional<RowId> after;  // none: from its first open row
};

struct EventRead {
    std::vector<std::int32_t> shards{};  // only rows of these
    std::optional<RowId> after{};        // forward: behind this row; none: from the beginning
    std::optional<RowId> up_to{};        // forward: not behind this row
    std::int32_t limit = 0;              // forward rows; 0: none are read
    std::int32_t due_limit = 0;          // due rows
    std::vector<EventFollow> follow{};   // each of an aggregate in `shards`
    std::int32_t follow_limit = 0;       // rows of each
    /// Each of the three parts (due, follow, forward) ends with the row that brings its payloads and metadata to this
    /// many bytes, as text or as messages in memory. So each part that has rows has at least one.
    std::int64_t byte_limit = std::numeric_limits<std::int64_t>::max();
    /// Also answer the highest id, if it is above this one, and the writers, even with limit 0.
    std::optional<std::int64_t> end_above{};
};

/// The writing transactions that had not ended at the time of a read. The read did not show what they wrote, and their
/// ids may be below those that it did show. A transaction has a number only once it has written: one that is just
/// drawing its first id is not among them yet.
struct OpenWriters {
    std::vector<std::uint64_t> transactions;  // in order of their numbers, which are never used again
    std::uint64_t next = 0;                   // above all numbers given out so far

    [[nodiscard]] bool has(std::uint64_t transaction) const {
        return std::binary_search(transactions.begin(), transactions.end(), transaction);
    }
    /// All transactions with a lower number have ended, and the read shows what they wrote.
    [[nodiscard]] std::uint64_t oldest() const { return transactions.empty() ? next : transactions.front(); }
};

struct EventBatch {
    std::vector<EventRow> rows;  // due ones first, then follow, then forward; each part in id order
    /// EventRead::byte_limit was reached: there may be more rows of this part.
    bool due_cut = false;
    bool follow_cut = false;  // of any of the aggregates
    bool forward_cut = false;
    /// As of the same moment as the rows. None if ids become visible in their order, if they have no order, and if
    /// neither forward rows nor the end was asked for.
    std::optional<OpenWriters> writers{};
    /// The highest id of the table at that moment, of whatever shard and state. None if it is not above
    /// EventRead::end_above, and if there are no writers.
    std::optional<std::int64_t> end{};
};

struct ShardLease {
    std::int32_t shard = 0;
    std::int64_t token = 0;
    friend bool operator==(const ShardLease&, const ShardLease&) = default;
};

struct EventSettlement {
    RowId row_id;
    std::string aggregate_id;
    ShardLease lease;
    Settlement settlement;  // its id is the row's number, or 0
    bool met_lock = false;  // an earlier settle answered `locked`: this one waits for no row's lock at all
};

enum class EventSettled {
    applied,
    fenced,    // the shard is no longer the owner's: nothing changed
    conflict,  // the row is gone, no longer open or has another count: nothing changed
    locked,    // someone holds a lock on the row: nothing changed, try again
};

/// What a relay holds of a lane, and its fair share.
struct ShardShare {
    std::vector<ShardLease> held;  // in order of the shards
    std::int32_t relays = 0;       // alive, this one included
    /// This relay's part of the shards: N/relays, and one more for the first N%relays in the order of their names.
    std::int32_t share = 0;
};

/// Destroying it ends its waiting, within a second.
class EventListener {
public:
    virtual ~EventListener() = default;
};

/// One finding that `deliverd doctor` reports.
struct Finding {
    std::string check;
    bool ok = false;
    std::string message;  // what was found, and what to do about it
};

class EventOutbox {
public:
    virtual ~EventOutbox() = default;

    /// Plain reading: locks nothing, changes nothing.
    virtual Result<EventBatch> read(const EventRead& request) = 0;

    /// One answer per settlement, in the same order; one transaction. Failures are in outbox_audit. Successes are not:
    /// the row itself records when, and a second row per event would cost a third of the throughput. Waits only a
    /// moment for a row that someone else has locked, and then settles the others without it.
    virtual Result<std::vector<EventSettled>> settle(std::string_view owner,
                                                     std::span<const EventSettlement> settlements) = 0;

    /// A heartbeat: renews this relay and its shards for another `lease`. Takes shards that nobody holds, or whose
    /// lease has run out, up to the share. Forgets relays that have been dead for long. Never waits for a lock longer
    /// than the store's lock timeout.
    /// If the lane had another number of shards until now: while another relay is alive, `codes::kOtherShards`
    /// (retryable), and nothing changes, because two numbers at once would give an aggregate to two relays. When no
    /// other relay is alive, the lane gets this number; tokens continue to grow, so that what was begun before is
    /// fenced.
    virtual Result<ShardShare> tend(std::string_view owner, Duration lease) = 0;

    /// Gives back the shards that are still the owner's with that token. The next tend() of any relay can take them.
    virtual Result<void> release(std::string_view owner, std::span<const ShardLease> leases) = 0;

    /// Gives back all shards of the relay and forgets it.
    virtual Result<void> leave(std::string_view owner) = 0;

    /// Says whether writers should wake this relay. Does nothing if the store has no notifications.
    virtual Result<void> set_asleep(std::string_view owner, bool asleep) = 0;

    /// Calls `on_event` from a thread of its own whenever a writer committed while a relay slept, and after each
    /// reconnect (something may have been missed). Null if the store has no notifications.
    virtual std::unique_ptr<EventListener> listen(std::function<void()> on_event) = 0;

    /// How old the oldest open row is that is not waiting for its retry; 0 when there is none.
    virtual Result<double> lag_seconds() = 0;

    /// Rows by state. Reads the whole table.
    virtual Result<RowCounts> counts() = 0;

    virtual Result<void> ping(Duration deadline) = 0;

    /// Deletes at most `limit` rows published longer ago than `age`, in a transaction of its own that never waits for a
    /// row lock; answers how many. If the table is partitioned by range and a whole partition is older, with nothing
    /// open in it, drops the partition instead and counts its rows.
    virtual Result<std::int64_t> remove_published(Duration age, std::int32_t limit) = 0;

    /// Is the table there, with these columns and the privileges the relay needs? What to do, if not.
    virtual Result<std::vector<Finding>> inspect() = 0;
};

}  // namespace deliverd::store
