#include "wal/slot_name.h"

#include <algorithm>

#include "base/text.h"
#include "store/sql_text.h"

namespace deliverd::wal {

Result<void> check_slot_name(std::string_view slot) {
    constexpr std::size_t kLongest = 63;
    const bool fits = !slot.empty() && slot.size() <= kLongest;
    if (fits && std::ranges::all_of(slot, [](char c) { return is_lower(c) || is_digit(c) || c == '_'; })) return {};
    return bad_argument("the name of a replication slot is 1 to 63 of a-z, 0-9 and _, not \"" + one_line(slot) + "\"");
}

std::string literal(std::string_view text) {
    return "'" + store::replaced(std::string(text), "'", "''") + "'";
}

}  // namespace deliverd::wal
