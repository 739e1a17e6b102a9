// Cells of a result in text format. What the views point into lives as long as the result.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deliverd::client {

[[nodiscard]] std::string_view cell(const PGresult* result, int row, int column);
/// NULL is none.
[[nodiscard]] std::optional<std::string> optional_cell(const PGresult* result, int row, int column);
/// 0 for NULL.
[[nodiscard]] std::int64_t integer_cell(const PGresult* result, int row, int column);
[[nodiscard]] double real_cell(const PGresult* result, int row, int column);

}  // namespace deliverd::client
