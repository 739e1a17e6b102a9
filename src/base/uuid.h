// UUID version 7 (RFC 9562): sorts by the millisecond in which it was made.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"

namespace deliverd {

/// Canonical lower-case text, 36 characters. Unique with overwhelming probability; not monotonic within
/// one millisecond.
[[nodiscard]] std::string make_uuid_v7(WallTime now, Random& random);

/// Each call makes one from the system's time and randomness. Thread-safe.
[[nodiscard]] std::function<std::string()> uuid_source();

/// `text` in lower case if it is a UUID of any version with its four dashes; otherwise empty.
[[nodiscard]] std::string canonical_uuid(std::string_view text);

}  // namespace deliverd
