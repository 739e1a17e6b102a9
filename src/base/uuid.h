// UUIDs (RFC 9562): version 7, which sorts by the millisecond in which it was made, and version 8, which follows from a
// text.
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

/// The same for the same name, and another for any other one: SHA-256.
[[nodiscard]] std::string uuid_of_name(std::string_view name);

/// `text` in lower case if it is a UUID of any version with its four dashes; otherwise empty.
[[nodiscard]] std::string canonical_uuid(std::string_view text);

}  // namespace deliverd
