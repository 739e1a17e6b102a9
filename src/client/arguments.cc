#include "client/arguments.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/json_check.h"
#include "base/text.h"
#include "base/try.h"
#include "client/sql_values.h"

namespace deliverd::client {
namespace {

/// Refuses text that has more than `most` of `unit` ("bytes").
Result<void> check_size(std::string_view name, std::size_t size, std::int64_t most, std::string_view unit,
                        std::string_view advice) {
    if (std::cmp_less_equal(size, most)) return {};
    return bad_argument(fmt::format("{} has {} {}, more than the {} allowed: {}", name, size, unit, most, advice));
}

Result<void> check_event_name(std::string_view name, std::string_view text, std::string_view advice) {
    if (text.empty()) return bad_argument(std::string(name) + " is empty: " + std::string(advice));
    TRY(check_text(name, text));
    return check_size(name, count_characters(text), kMaxEventNameCharacters, "characters", "shorten it");
}

Result<void> check_json(std::string_view name, std::string_view text, JsonKind kind, std::int64_t most_bytes) {
    TRY(check_size(name, text.size(), most_bytes, "bytes", "store it elsewhere and send where it is"));
    TRY(check_text(name, text));
    if (const auto problem = json_problem(text, kind)) return bad_argument(std::string(name) + " " + *problem);
    return {};
}

}  // namespace

// PostgreSQL would refuse both in words of its own. SQLite would store them, and a lane would have to give up the row.
Result<void> check_text(std::string_view name, std::string_view text) {
    if (const auto at = text.find('\0'); at != std::string_view::npos) {
        return bad_argument(std::string(name) + " has a NUL byte at offset " + std::to_string(at) +
                            ", which text in a database cannot hold: encode it, for example as base64");
    }
    if (const auto at = find_invalid_utf8(text)) {
        return bad_argument(std::string(name) + " is not valid UTF-8 at offset " + std::to_string(*at) +
                            ": convert it, or encode it, for example as base64");
    }
    return {};
}

Result<void> check_worker(std::string_view worker_id) {
    if (worker_id.empty()) return bad_argument("worker_id is empty: every worker needs a name of its own");
    return check_text("worker_id", worker_id);
}

Result<void> check_limit(std::int32_t limit) {
    if (limit >= 1) return {};
    return bad_argument("limit is " + std::to_string(limit) + ": use at least 1");
}

Result<void> check_claim(std::string_view worker_id, std::int32_t limit, double lease_seconds) {
    TRY(check_worker(worker_id));
    TRY(check_limit(limit));
    return check_seconds("lease_seconds", lease_seconds);
}

Result<void> check_seconds(std::string_view name, double seconds) {
    if (seconds >= 0 && seconds <= kMaxLeaseSeconds) return {};  // false for NaN too
    return bad_argument(std::string(name) + " is " + decimal(seconds) + ": use 0 to 1000000000 seconds");
}

Result<void> check_memory(std::string_view target_space, std::string_view payload_md, std::int64_t max_payload_bytes) {
    if (target_space.empty()) return bad_argument("target_space is empty: name the space the payload goes to");
    TRY(check_text("target_space", target_space));
    // The size before the content: a payload that is far too large is not read to its end first.
    TRY(check_size("payload_md", payload_md.size(), max_payload_bytes, "bytes",
                   "shorten it or raise max_payload_bytes"));
    return check_text("payload_md", payload_md);
}

Result<void> check_settle(std::string_view worker_id, std::string_view name, std::string_view text) {
    TRY(check_worker(worker_id));
    return check_text(name, text);
}

Result<void> check_event(const NewEvent& event) {
    TRY(check_event_name("aggregate_id", event.aggregate_id, "name what the event is about, such as order-17"));
    TRY(check_event_name("event_type", event.event_type, "name what happened, such as OrderCreated"));
    TRY(check_json("payload", event.payload, JsonKind::any, kMaxEventPayloadBytes));
    return check_json("metadata", event.metadata, JsonKind::object, kMaxEventMetadataBytes);
}

Result<void> check_time(std::string_view name, std::string_view time) {
    // PostgreSQL would take much more ("tomorrow", "infinity"), and SQLite has no type for times that would refuse any.
    if (parse_rfc3339(time)) return {};
    return bad_argument(std::string(name) + " is not an RFC 3339 time: write it as 2026-02-20T10:30:00Z");
}

}  // namespace deliverd::client
