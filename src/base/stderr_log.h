// The log on standard error: for people on a terminal, otherwise one JSON object per line. Each line is written whole.
#pragma once

#include <memory>

#include "base/log.h"

namespace deliverd {

enum class LogFormat { automatic, human, json };

/// Writes to standard error from `threshold` on; `automatic` is human on a terminal, JSON otherwise.
[[nodiscard]] std::unique_ptr<Log> make_stderr_log(LogLevel threshold, LogFormat format);

}  // namespace deliverd
