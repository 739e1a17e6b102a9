// Turns the replication stream into the events of one lane: rows inserted into its outbox table, and logical messages
// with its prefix. Pure code: bytes in, items out. Nothing is buffered: an event is handed on when it is decoded, so a
// transaction of any size needs the memory of its largest event.
//
// Items arrive in the order of the log:
//
//     TransactionBegin, any number of StreamedEvent and MalformedMessage, TransactionEnd
//
// A logical message that is not transactional stands alone between transactions: its item has `stands_alone`, and is a
// transaction of its own.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"
#include "store/event_row.h"
#include "store/events.h"
#include "wal/lsn.h"
#include "wal/message_content.h"
#include "wal/pgoutput.h"
#include "wal/stream_message.h"

namespace deliverd::wal {

/// Code of read()'s failure where the table lacks a column that events need. Permanent: correct the lane's `columns`,
/// the table, or the publication's list of columns.
inline constexpr std::string_view kColumnMissing = "wal_column_missing";

struct StreamReaderOptions {
    /// The names under which rows of the outbox arrive: the table itself, and its partitions where the publication does
    /// not publish through the root (PublicationState::arrives_as).
    std::vector<store::TablePlace> tables;
    store::EventColumns columns{};
    std::string message_prefix;     // of the lane's logical messages; empty: it reads none
    std::string system_identifier;  // the server's: a part of the ids that follow from a position
};

/// A transaction begins. It may turn out to have no events of this lane.
struct TransactionBegin {
    std::uint32_t transaction = 0;
    Lsn commit_lsn = 0;
    WallTime committed_at{};
};

/// Where an item stands in the stream.
struct StreamPlace {
    std::uint32_t transaction = 0;  // 0 where it stands alone
    Lsn commit_lsn = 0;             // of the transaction's commit record; 0 where it stands alone
    Lsn lsn = 0;                    // of the item itself
    std::uint64_t ordinal = 0;      // among the items of its transaction, from 0
    /// A transaction of its own, which ends at `lsn`: what to confirm once it is settled.
    bool stands_alone = false;
};

/// An event. The views are valid until the reader's next read(), and no longer than the bytes that were read.
struct StreamedEvent {
    StreamPlace place;
    std::string_view row_id;  // empty for a logical message, which has no row
    std::string_view aggregate_id;
    std::string_view event_type;
    std::string_view payload;     // untouched; of a logical message the JSON value as it is written there
    std::string_view metadata;    // a JSON object; empty if there is none
    std::string_view message_id;  // the event id; without one the row's id, or one that follows from the position
    std::string_view created_at;  // RFC 3339 in UTC with microseconds; empty if there is none
    std::string_view aggregate_type;

    [[nodiscard]] bool has_row() const { return !row_id.empty(); }
};

/// A copy of the event as the relay works on it, with the same rules as a row that was read from the table. Shard, age
/// and failures are 0.
[[nodiscard]] store::EventRow event_row(const StreamedEvent& event);

/// A logical message of the lane whose content is no event: it can only become a dead letter.
struct MalformedMessage {
    StreamPlace place;
    std::string_view content;     // valid as the views of an event
    std::string_view message_id;  // follows from the position, so that a repeat has the same one
    std::string reason;           // one line
};

struct TransactionEnd {
    Lsn end_lsn = 0;  // what to confirm once everything up to here is settled
    WallTime committed_at{};
    std::uint64_t items = 0;  // of this lane, in this transaction
};

/// Nothing of this lane lies between the last item and `lsn`: it may be confirmed once all items so far are settled.
struct StreamPosition {
    Lsn lsn = 0;
};

/// monostate: nothing for this lane, and no position.
using StreamItem =
    std::variant<std::monostate, TransactionBegin, StreamedEvent, MalformedMessage, TransactionEnd, StreamPosition>;

/// One thread at a time. One for each connection: the server describes a table once per connection.
class StreamReader {
public:
    explicit StreamReader(StreamReaderOptions options);

    /// Failure: `wal_malformed` and kColumnMissing, both permanent; the stream cannot be read on.
    [[nodiscard]] Result<StreamItem> read(const StreamMessage& message);

private:
    /// Of a column among the cells of a row.
    struct Column {
        std::size_t at = 0;
        std::uint32_t type = 0;
    };
    using OptionalColumn = std::optional<Column>;
    struct Table {
        Column id, aggregate_id, event_type, payload;
        OptionalColumn aggregate_type, event_id, metadata, created_at;
        std::size_t width = 0;  // cells of a row
    };

    Result<void> describe(const Relation& relation);
    Result<StreamItem> read_change(const Change& change, Lsn lsn);
    Result<StreamItem> read_row(const Insert& insert, Lsn lsn);
    StreamItem read_message(const LogicalMessage& message);
    StreamPlace place_of_next(Lsn lsn);

    const StreamReaderOptions options_;
    Decoder decoder_;
    std::map<std::uint32_t, std::optional<Table>> tables_;  // by oid; none: another table
    std::optional<Begin> open_;
    std::uint64_t ordinal_ = 0;  // of the next item in the open transaction
    // What an item's views refer to where the bytes do not have it as it is. Kept for their memory.
    std::array<std::string, 8> scratch_;
    MessageContent content_;
};

}  // namespace deliverd::wal
