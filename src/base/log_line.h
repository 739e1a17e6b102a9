// The form of a log line. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"

namespace deliverd {

/// One JSON object and a newline: `ts`, `level`, `event`, then the fields in order. Bytes that are not UTF-8 become
/// U+FFFD; a number that is not finite becomes null.
[[nodiscard]] std::string json_log_line(WallTime time, LogLevel level, std::string_view event,
                                        std::span<const LogField> fields);

/// `10:30:00.123 INFO  event  name=value …` and a newline; control characters become spaces.
[[nodiscard]] std::string human_log_line(WallTime time, LogLevel level, std::string_view event,
                                         std::span<const LogField> fields, bool colour);

}  // namespace deliverd
