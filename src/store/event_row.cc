#include "store/event_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/json_reader.h"
#include "base/text.h"
#include "base/try.h"
#include "store/outbox_row.h"
#include "store/sql_text.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store {
namespace {

Result<void> check_name(std::string_view what, std::string_view name) {
    if (name.empty()) return bad_argument(std::string(what) + " must not be empty");
    if (!is_storable(name)) return bad_argument(std::string(what) + " must be UTF-8 without NUL");
    return {};
}

Result<void> check_columns(const EventColumns& columns) {
    TRY(check_name("columns.id", columns.id));
    TRY(check_name("columns.aggregate_id", columns.aggregate_id));
    TRY(check_name("columns.event_type", columns.event_type));
    TRY(check_name("columns.payload", columns.payload));
    const bool none = columns.retry_count.empty();
    for (const std::string* name : {&columns.next_attempt_at, &columns.last_error, &columns.dead_at}) {
        if (name->empty() == none) continue;
        return bad_argument("columns: give all of retry_count, next_attempt_at, last_error and dead_at, or none");
    }
    if (columns.published.empty() && !columns.published_at.empty()) {
        return bad_argument("columns.published_at needs columns.published");
    }
    std::set<std::string_view> seen;
    for (const auto& [what, column] : kEventColumns) {
        const std::string& name = columns.*column;
        if (name.empty()) continue;
        TRY(check_name("columns", name));
        // The event id comes after the row's id and may be the same column.
        if (!seen.insert(name).second && column != &EventColumns::event_id) {
            return bad_argument("columns: " + one_line(name) + " is named twice");
        }
    }
    return {};
}

}  // namespace

Result<void> check_event_table(const EventTable& table) {
    TRY(check_name("lane", table.lane));
    TRY(check_name("table", table.table));
    if (table.table.starts_with('.') || table.table.ends_with('.') || std::ranges::count(table.table, '.') > 1) {
        return bad_argument("table must be a name or schema.name, not \"" + one_line(table.table) + "\"");
    }
    if (table.shards < 1 || table.shards > kMaxShards) {
        return bad_argument("shards must be between 1 and " + std::to_string(kMaxShards));
    }
    return check_columns(table.columns);
}

TablePlace TablePlace::of(const EventTable& table, const std::string& default_schema) {
    const std::size_t dot = table.table.find('.');
    if (dot == std::string::npos) return {default_schema, table.table};
    return {table.table.substr(0, dot), table.table.substr(dot + 1)};
}

std::string TablePlace::quoted_name() const {
    return quoted(schema) + "." + quoted(table);
}

bool keeps_failures(const EventColumns& columns) {
    return !columns.retry_count.empty();
}

bool tells_events_apart(const EventColumns& columns) {
    return !columns.event_id.empty() && columns.event_id != columns.id;
}

std::vector<std::string> mapped_columns(const EventColumns& columns) {
    std::vector<std::string> names;
    for (const auto& [what, column] : kEventColumns) {
        if (!(columns.*column).empty()) names.push_back(columns.*column);
    }
    return names;
}

std::string listed(const std::vector<std::string>& names) {
    return fmt::format("{}", fmt::join(names, ", "));
}

Result<void> check_read(const EventRead& request) {
    for (const std::int32_t limit : {request.limit, request.due_limit, request.follow_limit}) {
        if (limit < 0) return bad_argument("limit is " + std::to_string(limit) + ": it must be 0 or more");
    }
    return {};
}

Result<void> check_owner(std::string_view owner) {
    return check_upkeep_name("owner", owner);
}

Result<void> check_tend(std::string_view owner, Duration lease) {
    TRY(check_owner(owner));
    if (lease > Duration::zero() && to_seconds(lease) <= kMaxDelaySeconds) return {};
    return bad_argument("lease must be above 0 and at most 31 years");
}

Result<void> check_remove_published(Duration age, std::int32_t limit) {
    TRY(check_upkeep_span("age", age));
    return check_upkeep_limit(limit);
}

std::vector<std::pair<std::string, std::string>> event_headers(std::string_view metadata) {
    std::vector<std::pair<std::string, std::string>> headers;
    if (metadata == "{}") return headers;
    const auto members = json_members(metadata, LoneSurrogates::replace);
    if (!members) return headers;
    for (const JsonMember& member : *members) {
        auto text = json_string(member.value, LoneSurrogates::replace);
        headers.emplace_back(member.key, text ? std::move(*text) : std::string(member.value));
    }
    return headers;
}

void complete_event(EventRow& row, std::string_view metadata) {
    row.sequence = sequence_of(row.row_id).value_or(0);
    row.message.id = row.sequence;
    row.message.content_type = "application/json";
    row.message.headers = event_headers(metadata);
}

std::int32_t shard_share(std::int32_t shards, std::int32_t relays, std::int32_t rank) {
    if (relays < 1) return 0;
    return shards / relays + (rank < shards % relays ? 1 : 0);
}

Failure other_shards(const std::string& lane, std::int32_t shards, const StoredShards& stored) {
    return retryable(
        codes::kOtherShards,
        "the lane " + lane + " is relayed with " + std::to_string(stored.count) +
            " shards (other relays that are alive: " + std::to_string(stored.others) + "), but shards is " +
            std::to_string(shards) +
            " here: this process waits until those relays have ended; stop them, or use one number of shards for all");
}

}  // namespace deliverd::store
