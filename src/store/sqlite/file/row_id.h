// Ids of rows as text: numbers, or whatever else a mapped table has.
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>

#include "store/events.h"

namespace deliverd::store::sqlite {

/// SQLite's own order: numbers by value and before all text, text by its bytes.
[[nodiscard]] inline bool before(std::string_view a, std::string_view b) {
    const auto left = sequence_of(a);
    const auto right = sequence_of(b);
    if (left && right) return *left < *right;
    return left || (!right && a < b);
}

/// To be bound: as a number where it is one, so that a column of any type compares as it should.
[[nodiscard]] inline std::variant<std::int64_t, std::string_view> row_id_value(const RowId& row_id) {
    if (const auto number = sequence_of(row_id)) return *number;
    return std::string_view(row_id);
}

}  // namespace deliverd::store::sqlite
