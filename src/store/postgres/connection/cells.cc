#include "store/postgres/connection/cells.h"

#include <endian.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"

namespace deliverd::store::postgres {
namespace {

/// The last moment of the year 9999, in microseconds since 2000.
constexpr std::int64_t kLatestMicros = 252'455'615'999'999'999;

/// In network byte order, and copied, because the bytes of a cell are not aligned.
template <typename Wire>
Wire wire_at(const PGresult* result, int row, int column) {
    ASSERT(PQgetlength(result, row, column) == sizeof(Wire));
    Wire wire = 0;
    std::memcpy(&wire, PQgetvalue(result, row, column), sizeof wire);
    return wire;
}

}  // namespace

std::string_view text_at(const PGresult* result, int row, int column) {
    return {PQgetvalue(result, row, column), static_cast<std::size_t>(PQgetlength(result, row, column))};
}

std::int64_t int64_at(const PGresult* result, int row, int column) {
    return static_cast<std::int64_t>(be64toh(wire_at<std::uint64_t>(result, row, column)));
}

std::int32_t int32_at(const PGresult* result, int row, int column) {
    return static_cast<std::int32_t>(be32toh(wire_at<std::uint32_t>(result, row, column)));
}

double float64_at(const PGresult* result, int row, int column) {
    return std::bit_cast<double>(int64_at(result, row, column));
}

bool bool_at(const PGresult* result, int row, int column) {
    return *PQgetvalue(result, row, column) != 0;
}

bool null_at(const PGresult* result, int row, int column) {
    return PQgetisnull(result, row, column) != 0;
}

WallTime time_at(const PGresult* result, int row, int column) {
    // '-infinity' and 'infinity' are the smallest and the largest number. Text formats end with the year 9999.
    const std::int64_t micros = std::clamp(int64_at(result, row, column), kEarliestMicros, kLatestMicros);
    return WallTime(std::chrono::microseconds(micros - kEarliestMicros));
}

double seconds_between(std::int64_t earlier_micros, std::int64_t later_micros) {
    return static_cast<double>(later_micros - std::max(earlier_micros, kEarliestMicros)) / 1e6;
}

}  // namespace deliverd::store::postgres
