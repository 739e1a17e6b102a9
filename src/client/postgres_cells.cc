#include "client/postgres_cells.h"

#include <charconv>

namespace deliverd::client {
namespace {

template <typename Number>
Number number_cell(const PGresult* result, int row, int column) {
    const std::string_view text = cell(result, row, column);
    Number value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

}  // namespace

std::string_view cell(const PGresult* result, int row, int column) {
    return {PQgetvalue(result, row, column), static_cast<std::size_t>(PQgetlength(result, row, column))};
}

std::optional<std::string> optional_cell(const PGresult* result, int row, int column) {
    if (PQgetisnull(result, row, column) != 0) return std::nullopt;
    return std::string(cell(result, row, column));
}

std::int64_t integer_cell(const PGresult* result, int row, int column) {
    return number_cell<std::int64_t>(result, row, column);
}

double real_cell(const PGresult* result, int row, int column) {
    return number_cell<double>(result, row, column);
}

}  // namespace deliverd::client
