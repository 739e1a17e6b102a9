// How a log record looks: the pure half of log.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"

namespace deliverd {

/// One JSON object and a newline: `ts`, `level`, `event`, then the fields in their order. Bytes that are not
/// UTF-8 are replaced, a number that is not finite is null.
[[nodiscard]] std::string json_log_line(WallTime time, LogLevel level, std::string_view event,
                                        std::span<const LogField> fields);

/// `10:30:00.123 INFO  event  name=value …` and a newline; control characters become spaces.
[[nodiscard]] std::string human_log_line(WallTime time, LogLevel level, std::string_view event,
                                         std::span<const LogField> fields, bool colour);

}  // namespace deliverd
