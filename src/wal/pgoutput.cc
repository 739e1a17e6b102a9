#include "wal/pgoutput.h"

#include <fmt/format.h>

#include <string>

#include "wal/byte_reader.h"
#include "wal/stream_message.h"

namespace deliverd::wal {
namespace {

/// Why a message cannot be decoded; empty while it can.
using Problem = std::string_view;

constexpr Problem kTooShort = "it ends too early";

Begin read_begin(ByteReader& reader) {
    Begin begin;
    begin.commit_lsn = reader.integer<Lsn>();
    begin.committed_at = protocol_time(reader.integer<std::int64_t>());
    begin.transaction = reader.integer<std::uint32_t>();
    return begin;
}

Commit read_commit(ByteReader& reader) {
    Commit commit;
    static_cast<void>(reader.integer<std::uint8_t>());  // flags; none is defined
    commit.commit_lsn = reader.integer<Lsn>();
    commit.end_lsn = reader.integer<Lsn>();
    commit.committed_at = protocol_time(reader.integer<std::int64_t>());
    return commit;
}

Relation read_relation(ByteReader& reader, std::vector<RelationColumn>& columns) {
    Relation relation;
    relation.id = reader.integer<std::uint32_t>();
    relation.schema = reader.text();
    // The catalog's schema is sent as an empty name.
    if (relation.schema.empty()) relation.schema = "pg_catalog";
    relation.table = reader.text();
    static_cast<void>(reader.integer<std::uint8_t>());  // replica identity: inserts do not need one
    const auto count = reader.integer<std::uint16_t>();
    columns.clear();
    for (std::uint16_t i = 0; i < count && !reader.failed(); ++i) {
        static_cast<void>(reader.integer<std::uint8_t>());  // part of the key?
        RelationColumn column;
        column.name = reader.text();
        column.type = reader.integer<std::uint32_t>();
        static_cast<void>(reader.integer<std::uint32_t>());  // type modifier
        columns.push_back(column);
    }
    relation.columns = columns;
    return relation;
}

Problem read_insert(ByteReader& reader, std::vector<Cell>& cells, Insert& insert) {
    insert.relation = reader.integer<std::uint32_t>();
    const auto marker = reader.integer<char>();
    const auto count = reader.integer<std::uint16_t>();
    cells.clear();
    for (std::uint16_t i = 0; i < count && !reader.failed(); ++i) {
        Cell cell;
        switch (reader.integer<char>()) {
            case 'n':
                break;
            case 't':
                cell.kind = Cell::Kind::text;
                cell.bytes = reader.bytes(reader.integer<std::uint32_t>());
                break;
            case 'b':
                cell.kind = Cell::Kind::binary;
                cell.bytes = reader.bytes(reader.integer<std::uint32_t>());
                break;
            case 'u':
                // Only an update may leave out an unchanged large value: a new row has nothing to leave it unchanged
                // from, and an event without its payload must not go out.
                if (!reader.failed()) return "a value of a new row is marked as unchanged";
                break;
            default:
                if (!reader.failed()) return "a value has an unknown kind";
        }
        cells.push_back(cell);
    }
    if (!reader.failed() && marker != 'N') return "it has no new row";
    insert.row = cells;
    return {};
}

LogicalMessage read_logical_message(ByteReader& reader) {
    LogicalMessage message;
    message.transactional = (reader.integer<std::uint8_t>() & 1) != 0;
    message.lsn = reader.integer<Lsn>();
    message.prefix = reader.text();
    message.content = reader.bytes(reader.integer<std::uint32_t>());
    return message;
}

Failure malformed(std::string_view bytes, std::size_t at, Problem problem) {
    const std::string kind = bytes.empty() ? "an empty message"
                             : bytes.front() >= 'A' && bytes.front() <= 'Z'
                                 ? fmt::format("a message '{}'", bytes.front())
                                 : fmt::format("a message 0x{:02x}", static_cast<unsigned char>(bytes.front()));
    return permanent(std::string(kMalformed),
                     fmt::format("{} of the replication stream cannot be read: {} (byte {} of {}); deliverd needs "
                                 "PostgreSQL 14 or newer and pgoutput with proto_version 1",
                                 kind, problem, at, bytes.size()));
}

}  // namespace

Result<Change> Decoder::decode(std::string_view bytes) {
    if (bytes.empty()) return malformed(bytes, 0, kTooShort);
    ByteReader reader(bytes.substr(1));
    Change change;
    Problem problem;
    switch (bytes.front()) {
        case 'B':
            change = read_begin(reader);
            break;
        case 'C':
            change = read_commit(reader);
            break;
        case 'R':
            change = read_relation(reader, columns_);
            break;
        case 'I': {
            Insert insert;
            problem = read_insert(reader, cells_, insert);
            change = insert;
            break;
        }
        case 'M':
            change = read_logical_message(reader);
            break;
        case 'D':
        case 'O':
        case 'T':
        case 'U':
        case 'Y':
            return Other{bytes.front()};
        default:
            return malformed(bytes, 0, "its kind is unknown");
    }
    const std::size_t at = bytes.size() - reader.left();
    if (problem.empty() && reader.failed()) problem = kTooShort;
    if (problem.empty() && reader.left() > 0) problem = "more follows than belongs to it";
    if (!problem.empty()) return malformed(bytes, at, problem);
    return change;
}

}  // namespace deliverd::wal
