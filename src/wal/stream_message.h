// The outer layer of the replication stream: what stands in a CopyData message from the server, and the one message
// that a reader sends back. Pure code over bytes.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/clock.h"
#include "deliverd/result.h"
#include "wal/lsn.h"

namespace deliverd::wal {

/// A piece of the log as the output plugin writes it (wal/pgoutput.h reads it).
struct LogData {
    Lsn start = 0;  // 0 for what has no position of its own, such as the description of a table
    Lsn server_end = 0;
    std::string_view payload;  // a view of the bytes that were read
};

/// Sent when there is nothing to send, and shortly before the server gives up on a silent reader.
struct Keepalive {
    Lsn server_end = 0;
    bool reply_wanted = false;  // at once, or the server may end the connection
};

using StreamMessage = std::variant<LogData, Keepalive>;

/// Code of errors about bytes that are no replication stream as PostgreSQL documents it. Permanent: the same bytes
/// would come again.
inline constexpr std::string_view kMalformed = "wal_malformed";

[[nodiscard]] Result<StreamMessage> read_stream_message(std::string_view bytes);

/// What a reader tells the server. `received` keeps the connection alive and is what pg_stat_replication shows;
/// `confirmed` lets the server forget the log before it, and must not be ahead of what was delivered: the server never
/// sends it again.
[[nodiscard]] std::string status_update(Lsn received, Lsn confirmed, WallTime now);

/// A time of the protocol, in microseconds since 2000-01-01 UTC.
[[nodiscard]] WallTime protocol_time(std::int64_t micros);

}  // namespace deliverd::wal
