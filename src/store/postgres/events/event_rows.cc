#include "store/postgres/events/event_rows.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/text.h"
#include "store/event_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/events/event_sql.h"

namespace deliverd::store::postgres {
namespace {

// Type oids from pg_type.dat; they never change.
constexpr Oid kInt8Oid = 20;
constexpr Oid kUuidOid = 2950;
constexpr Oid kJsonbOid = 3802;

constexpr std::size_t kUuidBytes = 16;

std::string uuid_text(std::string_view bytes) {
    if (bytes.size() != kUuidBytes) return {};
    std::string out = hex_text(bytes);
    for (const std::size_t dash : {8U, 13U, 18U, 23U}) out.insert(dash, 1, '-');
    return out;
}

/// 2026-02-20T10:30:00.123456Z. By hand: it is made for each row.
std::string rfc3339_micros(WallTime time) {
    using namespace std::chrono;
    const auto day = floor<days>(time);
    const year_month_day date(day);
    const hh_mm_ss clock(floor<microseconds>(time - day));
    std::string out = "0000-00-00T00:00:00.000000Z";
    const auto put = [&out](std::size_t end, std::int64_t value) {
        for (std::size_t at = end; value > 0; value /= 10) out[--at] = static_cast<char>('0' + value % 10);
    };
    put(4, static_cast<int>(date.year()));
    put(7, static_cast<unsigned>(date.month()));
    put(10, static_cast<unsigned>(date.day()));
    put(13, clock.hours().count());
    put(16, clock.minutes().count());
    put(19, clock.seconds().count());
    put(26, clock.subseconds().count());
    return out;
}

/// The text of columns as they come in the binary format, by their types.
class ColumnTexts {
public:
    explicit ColumnTexts(const PGresult* result) : result_(result) {
        for (int column = 0; column <= kEventAggregateType; ++column) {
            types_[static_cast<std::size_t>(column)] = PQftype(result, column);
        }
    }
    [[nodiscard]] std::string at(int row, int column) const {
        const std::string_view bytes = text_at(result_, row, column);
        switch (types_[static_cast<std::size_t>(column)]) {
            case kUuidOid:
                return uuid_text(bytes);
            case kJsonbOid:  // a version number comes first
                return std::string(bytes.substr(bytes.empty() ? 0 : 1));
            default:
                return std::string(bytes);
        }
    }
    [[nodiscard]] bool number(int column) const { return types_[static_cast<std::size_t>(column)] == kInt8Oid; }

private:
    const PGresult* result_;
    std::array<Oid, kEventAggregateType + 1> types_{};
};

EventRow row_at(const PGresult* result, int row, const ColumnTexts& texts, EventOrigin origin) {
    EventRow out;
    out.origin = origin;
    out.shard = int32_at(result, row, kEventShard);
    Message& message = out.message;
    if (texts.number(kEventId)) {
        out.sequence = int64_at(result, row, kEventId);
        message.id = out.sequence;
        out.row_id = std::to_string(out.sequence);
    } else {
        out.row_id = texts.at(row, kEventId);
    }
    message.message_id = null_at(result, row, kEventMessageId) ? out.row_id : texts.at(row, kEventMessageId);
    message.key = texts.at(row, kEventAggregate);
    message.type = texts.at(row, kEventType);
    message.body = texts.at(row, kEventPayload);
    message.content_type = "application/json";
    message.aggregate_type = texts.at(row, kEventAggregateType);
    if (!null_at(result, row, kEventMetadata)) message.headers = event_headers(texts.at(row, kEventMetadata));
    if (!null_at(result, row, kEventCreatedAt)) {
        message.created_at = rfc3339_micros(time_at(result, row, kEventCreatedAt));
        out.age_seconds =
            std::max(0.0, seconds_between(int64_at(result, row, kEventCreatedAt), int64_at(result, row, kEventNow)));
    }
    message.failures = int32_at(result, row, kEventFailures);
    return out;
}

}  // namespace

bool append_event_rows(std::vector<EventRow>& out, const PGresult* result, EventOrigin origin, bool sorted,
                       std::int64_t byte_limit) {
    const ColumnTexts texts(result);
    const auto before = static_cast<std::ptrdiff_t>(out.size());
    const int count = PQntuples(result);
    out.reserve(out.size() + static_cast<std::size_t>(count));
    std::int64_t bytes = 0;
    for (int row = 0; row < count && bytes < byte_limit; ++row) {
        out.push_back(row_at(result, row, texts, origin));
        bytes += static_cast<std::int64_t>(bytes_in_memory(out.back().message));
    }
    if (!sorted) std::ranges::stable_sort(out.begin() + before, out.end(), {}, &EventRow::sequence);
    return bytes >= byte_limit;
}

}  // namespace deliverd::store::postgres
