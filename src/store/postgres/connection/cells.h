// Cells of a result in binary format as the values they are. What the pointers point into lives as long as the result.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace deliverd::store::postgres {

/// 1970, in microseconds since 2000 as are times in PostgreSQL's binary format. Ages are counted from here where a row
/// says it was due earlier, or since ever (-infinity).
inline constexpr std::int64_t kEarliestMicros = -946'684'800'000'000;

[[nodiscard]] std::string_view text_at(const PGresult* result, int row, int column);
[[nodiscard]] std::optional<std::string> optional_text_at(const PGresult* result, int row, int column);
[[nodiscard]] std::int64_t int64_at(const PGresult* result, int row, int column);
[[nodiscard]] std::int32_t int32_at(const PGresult* result, int row, int column);
[[nodiscard]] double float64_at(const PGresult* result, int row, int column);
[[nodiscard]] bool bool_at(const PGresult* result, int row, int column);
[[nodiscard]] bool null_at(const PGresult* result, int row, int column);
/// Within the years 1970 and 9999, infinities included.
[[nodiscard]] WallTime time_at(const PGresult* result, int row, int column);
/// The seconds between two times of a row, the earlier one not before 1970.
[[nodiscard]] double seconds_between(const PGresult* result, int row, int earlier_column, int later_column);

}  // namespace deliverd::store::postgres
