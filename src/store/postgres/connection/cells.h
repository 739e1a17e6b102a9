// Cells of a result in binary format as the values they are. What the pointers point into lives as long as the result.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/clock.h"

namespace deliverd::store::postgres {

/// 1970, in microseconds since 2000 as are times in PostgreSQL's binary format. Ages are counted from here where a row
/// says it was due earlier, or since ever (-infinity).
inline constexpr std::int64_t kEarliestMicros = -946'684'800'000'000;

[[nodiscard]] std::string_view text_at(const PGresult* result, int row, int column);
/// Numbers: the statement makes the cell one of this type, and not NULL (asserted).
[[nodiscard]] std::int64_t int64_at(const PGresult* result, int row, int column);
[[nodiscard]] std::int32_t int32_at(const PGresult* result, int row, int column);
[[nodiscard]] double float64_at(const PGresult* result, int row, int column);
[[nodiscard]] bool bool_at(const PGresult* result, int row, int column);
[[nodiscard]] bool null_at(const PGresult* result, int row, int column);
/// Within the years 1970 and 9999, infinities included.
[[nodiscard]] WallTime time_at(const PGresult* result, int row, int column);

/// A cell as the type of `out`, which is also the column's: int4, int8, float8, bool, timestamptz, anything as text.
/// NULL is nullopt where `out` is optional, and "" for text. A view lives as long as the result.
template <typename Field>
void read_cell(const PGresult* result, int row, int column, Field& out) {
    if constexpr (requires {
                      out.emplace();
                      out.has_value();
                  }) {
        out.reset();
        if (!null_at(result, row, column)) read_cell(result, row, column, out.emplace());
    } else if constexpr (std::is_same_v<Field, std::int32_t>) {
        out = int32_at(result, row, column);
    } else if constexpr (std::is_same_v<Field, std::int64_t>) {
        out = int64_at(result, row, column);
    } else if constexpr (std::is_same_v<Field, double>) {
        out = float64_at(result, row, column);
    } else if constexpr (std::is_same_v<Field, bool>) {
        out = bool_at(result, row, column);
    } else if constexpr (std::is_same_v<Field, WallTime>) {
        out = time_at(result, row, column);
    } else {
        out = text_at(result, row, column);
    }
}

/// A row of a result, which outlives it.
class Row {
public:
    Row(const PGresult* result, int row) : result_(result), row_(row) {}

    /// Reads cells from the first column on, or from `column` on, into `fields`, one each, as read_cell() does.
    template <typename... Fields>
    void read(Fields&... fields) const {
        read_from(0, fields...);
    }
    template <typename... Fields>
    void read_from(int column, Fields&... fields) const {
        (read_cell(result_, row_, column++, fields), ...);
    }
    template <typename Field>
    [[nodiscard]] Field get(int column = 0) const {
        Field field{};
        read_from(column, field);
        return field;
    }

private:
    const PGresult* result_;
    int row_;
};

/// What `read` makes of each Row of the result.
template <typename Read>
[[nodiscard]] auto rows_as(const PGresult* result, Read read) {
    std::vector<std::invoke_result_t<Read&, const Row&>> out;
    out.reserve(static_cast<std::size_t>(PQntuples(result)));
    for (int row = 0; row < PQntuples(result); ++row) out.push_back(read(Row(result, row)));
    return out;
}

[[nodiscard]] inline std::vector<Row> rows_of(const PGresult* result) {
    return rows_as(result, [](const Row& row) { return row; });
}

template <typename... Fields>
void read_row(const PGresult* result, int row, Fields&... fields) {
    Row(result, row).read(fields...);
}

/// The seconds between two times in microseconds, the earlier one not before 1970.
[[nodiscard]] double seconds_between(std::int64_t earlier_micros, std::int64_t later_micros);

}  // namespace deliverd::store::postgres
