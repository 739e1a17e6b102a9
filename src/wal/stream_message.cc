#include "wal/stream_message.h"

#include <fmt/format.h>

#include <chrono>

#include "wal/byte_reader.h"

namespace deliverd::wal {
namespace {

constexpr WallTime kProtocolEpoch{std::chrono::sys_days{std::chrono::year{2000} / 1 / 1}};

void append_integer(std::string& out, std::uint64_t value) {
    for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}

Failure malformed(std::string_view what, std::size_t size) {
    return permanent(std::string(kMalformed),
                     fmt::format("the replication stream cannot be read: {} of {} bytes; is the server PostgreSQL, and "
                                 "nothing between that changes its bytes?",
                                 what, size));
}

}  // namespace

WallTime protocol_time(std::int64_t micros) {
    // The sum of two numbers from outside may not fit. Unsigned arithmetic wraps around, where signed would be
    // undefined.
    const auto since_1970 = static_cast<std::uint64_t>(kProtocolEpoch.time_since_epoch().count());
    return WallTime(WallTime::duration(static_cast<std::int64_t>(since_1970 + static_cast<std::uint64_t>(micros))));
}

Result<StreamMessage> read_stream_message(std::string_view bytes) {
    if (bytes.empty()) return malformed("an empty message", 0);
    ByteReader reader(bytes.substr(1));
    if (bytes.front() == 'w') {
        LogData data;
        data.start = reader.integer<Lsn>();
        data.server_end = reader.integer<Lsn>();
        static_cast<void>(reader.integer<std::uint64_t>());  // the server's clock
        if (reader.failed()) return malformed("log data ('w')", bytes.size());
        data.payload = reader.bytes(reader.left());
        return data;
    }
    if (bytes.front() == 'k') {
        Keepalive keepalive;
        keepalive.server_end = reader.integer<Lsn>();
        static_cast<void>(reader.integer<std::uint64_t>());
        keepalive.reply_wanted = reader.integer<std::uint8_t>() != 0;
        if (reader.failed() || reader.left() > 0) return malformed("a keepalive ('k')", bytes.size());
        return keepalive;
    }
    return malformed(fmt::format("a message of the unknown kind 0x{:02x}", static_cast<unsigned char>(bytes.front())),
                     bytes.size());
}

std::string status_update(Lsn received, Lsn confirmed, WallTime now) {
    std::string out = "r";
    append_integer(out, received);
    append_integer(out, confirmed);  // flushed: what a slot goes forward to
    append_integer(out, confirmed);  // applied
    append_integer(out, static_cast<std::uint64_t>((now - kProtocolEpoch).count()));
    out += '\0';  // no answer is wanted
    return out;
}

}  // namespace deliverd::wal
