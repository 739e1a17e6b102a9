// Values of a row as an event has them: what pgoutput writes in its text format, made into what a SELECT of the relay
// that polls gives. The formats are those of the statement set_up_stream (sql/stream.sql).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace deliverd::wal {

/// A value's text: of a bytea its bytes, of a character(n) without the blanks that fill it up, of anything else as it
/// is. A view of `text` or of `scratch`.
[[nodiscard]] std::string_view value_text(std::string_view text, std::uint32_t type, std::string& scratch);

/// A timestamp in the session's format as RFC 3339 in UTC with microseconds; one without a time zone counts as UTC. A
/// time before 1970 or after 9999, infinities included, becomes the nearest one within. Empty if it is no time. A view
/// of `scratch`.
[[nodiscard]] std::string_view time_text(std::string_view text, std::string& scratch);

/// RFC 3339 in UTC with microseconds, kept within 1970 and 9999.
[[nodiscard]] std::string event_time(WallTime time);

}  // namespace deliverd::wal
