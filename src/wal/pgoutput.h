// Reads what PostgreSQL's output plugin `pgoutput` (protocol version 1, with logical messages) puts into the
// replication stream. Pure code over bytes: it keeps nothing from one message to the next, so a transaction of any size
// needs the memory of its largest row. Which table a number stands for is the caller's to remember.
//
// A transaction arrives whole, after its commit and in the order of commits:
//
//     Begin, then Relation and Insert and LogicalMessage in any order, then Commit
//
// A Relation describes a table before its first row, and again after it was altered. A logical message that is not
// transactional stands outside, at its own place in the log. A transaction that was rolled back never arrives; what a
// subtransaction wrote arrives with its parent.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"
#include "wal/lsn.h"

namespace deliverd::wal {

// Views in these are of the bytes that were decoded, or of the decoder: valid until its next decode().

struct Begin {
    Lsn commit_lsn = 0;  // where its Commit will be
    WallTime committed_at{};
    std::uint32_t transaction = 0;
};

struct Commit {
    Lsn commit_lsn = 0;
    Lsn end_lsn = 0;  // behind the whole transaction: what to confirm once all of it was delivered
    WallTime committed_at{};
};

struct RelationColumn {
    std::string_view name;
    std::uint32_t type = 0;  // its oid
};

struct Relation {
    std::uint32_t id = 0;  // the table's oid
    std::string_view schema;
    std::string_view table;
    std::span<const RelationColumn> columns;  // those of the publication, in the order of the cells of a row
};

struct Cell {
    enum class Kind { null, text, binary };
    Kind kind = Kind::null;
    std::string_view bytes;
};

struct Insert {
    std::uint32_t relation = 0;
    std::span<const Cell> row;
};

struct LogicalMessage {
    bool transactional = false;
    Lsn lsn = 0;
    std::string_view prefix;
    std::string_view content;
};

/// Something that an outbox does not need: an update, a delete, a truncation, a type, an origin.
struct Other {
    char kind = 0;
};

using Change = std::variant<Begin, Commit, Relation, Insert, LogicalMessage, Other>;

/// One thread at a time.
class Decoder {
public:
    /// The payload of one LogData (wal/stream_message.h). Failure: `wal_malformed`, permanent; the message names the
    /// kind of message and the byte.
    [[nodiscard]] Result<Change> decode(std::string_view bytes);

private:
    // Kept for their memory: a row costs no allocation.
    std::vector<Cell> cells_;
    std::vector<RelationColumn> columns_;
};

}  // namespace deliverd::wal
