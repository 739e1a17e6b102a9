// What upkeep refuses before a database is asked: the same rules, and the same words, on both.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "deliverd/result.h"

namespace deliverd::store {

/// The name of the one lease, in deliverd.leases.
inline constexpr std::string_view kUpkeepLease = "upkeep";

/// Whether both databases can store it as text: valid UTF-8 without NUL.
[[nodiscard]] bool is_storable(std::string_view text);

/// All answer code `bad_argument`, permanent, and name the argument. A name is_storable().
[[nodiscard]] Result<void> check_upkeep_name(std::string_view argument, std::string_view name);
[[nodiscard]] Result<void> check_upkeep_span(std::string_view argument, Duration span);
[[nodiscard]] Result<void> check_upkeep_limit(std::int32_t limit);

}  // namespace deliverd::store
