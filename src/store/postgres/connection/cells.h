// Rows of a result in binary format as the values they are.
#pragma once

#include <libpq-fe.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/clock.h"

namespace deliverd::store::postgres {

/// 1970, in microseconds since 2000 as are times in PostgreSQL's binary format. Ages are counted from here where a row
/// says it was due earlier, or since ever (-infinity).
inline constexpr std::int64_t kEarliestMicros = -946'684'800'000'000;

/// A row of a result, which outlives it and its views.
class Row {
public:
    explicit Row(const PGresult* result, int row = 0) : result_(result), row_(row) {}

    /// Reads cells from the first column on, or from `column` on, into `fields`, one each, as get() does.
    template <typename... Fields>
    void read(Fields&... fields) const {
        read_from(0, fields...);
    }
    template <typename... Fields>
    void read_from(int column, Fields&... fields) const {
        ((fields = get<Fields>(column++)), ...);
    }
    /// A cell as the column's type: int4, int8, float8, bool, timestamptz, anything as text. NULL is nullopt where
    /// `Field` is optional, and "" for text; a number is not NULL (asserted). Times are within the years 1970 and 9999,
    /// infinities included.
    template <typename Field>
    [[nodiscard]] Field get(int column = 0) const {
        if constexpr (std::is_constructible_v<Field, std::nullopt_t>) {
            return null(column) ? Field() : Field(get<typename Field::value_type>(column));
        } else if constexpr (std::is_same_v<Field, std::int32_t>) {
            return int32(column);
        } else if constexpr (std::is_same_v<Field, std::int64_t>) {
            return int64(column);
        } else if constexpr (std::is_same_v<Field, double>) {
            return std::bit_cast<double>(int64(column));
        } else if constexpr (std::is_same_v<Field, bool>) {
            return *PQgetvalue(result_, row_, column) != 0;
        } else if constexpr (std::is_same_v<Field, WallTime>) {
            return time(column);
        } else {
            return Field(text(column));
        }
    }
    [[nodiscard]] bool null(int column) const { return PQgetisnull(result_, row_, column) != 0; }
    [[nodiscard]] std::string_view text(int column) const {
        return {PQgetvalue(result_, row_, column), static_cast<std::size_t>(PQgetlength(result_, row_, column))};
    }

private:
    template <typename Wire>
    [[nodiscard]] Wire wire_at(int column) const;
    [[nodiscard]] std::int32_t int32(int column) const;
    [[nodiscard]] std::int64_t int64(int column) const;
    [[nodiscard]] WallTime time(int column) const;

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

/// The seconds between two times in microseconds, the earlier one not before 1970.
[[nodiscard]] double seconds_between(std::int64_t earlier_micros, std::int64_t later_micros);

}  // namespace deliverd::store::postgres
