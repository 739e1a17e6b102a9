// Dates as HTTP headers write them (RFC 9110, 5.6.7).
#pragma once

#include <optional>
#include <string_view>

#include "base/clock.h"

namespace deliverd {

/// Reads the three forms there are: `Sun, 06 Nov 1994 08:49:37 GMT`, the RFC 850 one and asctime's. A year of
/// two digits is the one that is at most 50 years after `now`. The day of the week is not checked.
[[nodiscard]] std::optional<WallTime> parse_http_date(std::string_view text, WallTime now);

}  // namespace deliverd
