// The log on standard error: for people on a terminal, otherwise one JSON object per line. Each line is written whole.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/log.h"

namespace deliverd {

enum class LogFormat { automatic, human, json };

/// Writes to standard error from `threshold` on; `automatic` is human on a terminal, JSON otherwise.
[[nodiscard]] std::unique_ptr<Log> make_stderr_log(LogLevel threshold, LogFormat format);

/// One JSON object and a newline: `ts`, `level`, `event`, then the fields in order. Bytes that are not UTF-8 become
/// U+FFFD; a number that is not finite becomes null.
[[nodiscard]] std::string json_log_line(WallTime time, LogLevel level, std::string_view event,
                                        std::span<const LogField> fields);

/// `10:30:00.123 INFO  event  name=value …` and a newline; control characters become spaces.
[[nodiscard]] std::string human_log_line(WallTime time, LogLevel level, std::string_view event,
                                         std::span<const LogField> fields, bool colour);

}  // namespace deliverd
