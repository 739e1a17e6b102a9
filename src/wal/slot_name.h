// Names of slots, and texts, as SQL takes them.
#pragma once

#include <string>
#include <string_view>

#include "deliverd/result.h"

namespace deliverd::wal {

/// What the server accepts: 1 to 63 of a-z, 0-9 and _. Failure: permanent, `bad_argument`.
[[nodiscard]] Result<void> check_slot_name(std::string_view slot);

/// `text` as a literal of SQL and of replication commands. The latter know no escapes, so backslashes stay as they are:
/// for names.
[[nodiscard]] std::string literal(std::string_view text);

}  // namespace deliverd::wal
