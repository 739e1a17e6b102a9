#include "store/event_row.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/json_reader.h"
#include "base/text.h"
#include "base/try.h"

namespace deliverd::store {
namespace {

Result<void> check_name(std::string_view what, std::string_view name) {
    if (name.empty()) return bad_argument(std::string(what) + " must not be empty");
    if (find_invalid_utf8(name) || name.find('\0') != std::string_view::npos) {
        return bad_argument(std::string(what) + " must be UTF-8 without NUL");
    }
    return {};
}

Result<void> check_columns(const EventColumns& columns) {
    const std::pair<std::string_view, const std::string*> needed[] = {{"columns.id", &columns.id},
                                                                      {"columns.aggregate_id", &columns.aggregate_id},
                                                                      {"columns.event_type", &columns.event_type},
                                                                      {"columns.payload", &columns.payload}};
    for (const auto& [what, name] : needed) {
        TRY(check_name(what, *name));
    }
    const std::string* state[] = {&columns.retry_count, &columns.next_attempt_at, &columns.last_error,
                                  &columns.dead_at};
    const auto present = std::ranges::count_if(state, [](const std::string* name) { return !name->empty(); });
    if (present != 0 && present != std::ssize(state)) {
        return bad_argument("columns: give all of retry_count, next_attempt_at, last_error and dead_at, or none");
    }
    if (columns.published.empty() && !columns.published_at.empty()) {
        return bad_argument("columns.published_at needs columns.published");
    }
    std::set<std::string_view> seen;
    for (const std::string* name :
         {&columns.id, &columns.aggregate_id, &columns.aggregate_type, &columns.event_type, &columns.payload,
          &columns.event_id, &columns.metadata, &columns.created_at, &columns.published, &columns.published_at,
          &columns.retry_count, &columns.next_attempt_at, &columns.last_error, &columns.dead_at}) {
        if (name->empty()) continue;
        TRY(check_name("columns", *name));
        // The id may well be the event's as well.
        if (!seen.insert(*name).second && name != &columns.event_id) {
            return bad_argument("columns: " + one_line(*name) + " is named twice");
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

bool keeps_failures(const EventColumns& columns) {
    return !columns.retry_count.empty();
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

std::int32_t shard_share(std::int32_t shards, std::int32_t relays, std::int32_t rank) {
    if (relays < 1) return 0;
    return shards / relays + (rank < shards % relays ? 1 : 0);
}

Failure other_shards(const std::string& lane, std::int32_t shards, const StoredShards& stored) {
    return retryable(std::string(kOtherShards),
                     "the lane " + lane + " is relayed with " + std::to_string(stored.count) +
                         " shards (other relays that are alive: " + std::to_string(stored.others) +
                         "), but shards is " + std::to_string(shards) +
                         " here: waiting until they have ended; stop them, or use the same number for all");
}

}  // namespace deliverd::store
