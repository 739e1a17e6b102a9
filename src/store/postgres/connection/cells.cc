#include "store/postgres/connection/cells.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace deliverd::store::postgres {
namespace {

/// The last moment of the year 9999, in microseconds since 2000.
constexpr std::int64_t kLatestMicros = 252'455'615'999'999'999;

}  // namespace

/// In network byte order, and copied, because the bytes of a cell are not aligned.
template <typename Wire>
Wire Row::wire_at(int column) const {
    ASSERT(PQgetlength(result_, row_, column) == sizeof(Wire));
    Wire wire = 0;
    std::memcpy(&wire, PQgetvalue(result_, row_, column), sizeof wire);
    return wire;
}

std::int32_t Row::int32(int column) const {
    return static_cast<std::int32_t>(be32toh(wire_at<std::uint32_t>(column)));
}

std::int64_t Row::int64(int column) const {
    return static_cast<std::int64_t>(be64toh(wire_at<std::uint64_t>(column)));
}

WallTime Row::time(int column) const {
    // '-infinity' and 'infinity' are the smallest and the largest number. Text formats end with the year 9999.
    const std::int64_t micros = std::clamp(int64(column), kEarliestMicros, kLatestMicros);
    return WallTime(std::chrono::microseconds(micros - kEarliestMicros));
}

double seconds_between(std::int64_t earlier_micros, std::int64_t later_micros) {
    return static_cast<double>(later_micros - std::max(earlier_micros, kEarliestMicros)) / 1e6;
}

}  // namespace deliverd::store::postgres
