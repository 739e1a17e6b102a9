#include "wal/message_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/json_check.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "wal/value_text.h"

namespace deliverd::wal {
namespace {

std::string no_event(std::string_view why) {
    return fmt::format(
        "the logical message is no event: {}; write a JSON object with aggregate_id, event_type and payload, or use "
        "deliverd.emit_event()",
        why);
}

/// The last member of that name.
std::optional<std::string_view> member_of(const std::vector<JsonMember>& members, std::string_view key) {
    const auto found =
        std::find_if(members.rbegin(), members.rend(), [key](const JsonMember& member) { return member.key == key; });
    if (found == members.rend()) return std::nullopt;
    return found->value;
}

bool is_there(const std::optional<std::string_view>& value) {
    return value && *value != "null";
}

/// The string that `value` is; false if it is something else.
bool take_string(std::string_view value, std::string& out) {
    auto text = json_string(value);
    if (text) out = std::move(*text);
    return text.has_value();
}

}  // namespace

std::optional<std::string> read_message_content(std::string_view bytes, MessageContent& content) {
    content = {};
    // What databases cannot store is refused here, where its bytes become a dead letter: an event that fails must fit
    // into a table.
    if (const auto problem = json_problem(bytes, JsonKind::object)) return no_event("its content " + *problem);
    const auto members = json_members(bytes);
    if (!members) return no_event("its content is not JSON: " + members.error().message);

    const auto aggregate_id = member_of(*members, "aggregate_id");
    if (!aggregate_id) return no_event("it has no aggregate_id");
    if (!take_string(*aggregate_id, content.aggregate_id)) return no_event("its aggregate_id is not a string");

    const auto event_type = member_of(*members, "event_type");
    if (!event_type) return no_event("it has no event_type");
    if (!take_string(*event_type, content.event_type)) return no_event("its event_type is not a string");

    const auto payload = member_of(*members, "payload");
    if (!payload) return no_event("it has no payload");
    content.payload = *payload;

    if (const auto metadata = member_of(*members, "metadata"); is_there(metadata)) {
        if (!metadata->starts_with('{')) return no_event("its metadata is not a JSON object");
        content.metadata = *metadata;
    }
    if (const auto event_id = member_of(*members, "event_id"); is_there(event_id)) {
        if (!take_string(*event_id, content.event_id) || content.event_id.empty()) {
            return no_event("its event_id is not a string with something in it");
        }
    }
    if (const auto created_at = member_of(*members, "created_at"); is_there(created_at)) {
        std::string text;
        const auto time = take_string(*created_at, text) ? parse_rfc3339(text) : std::nullopt;
        if (!time) return no_event("its created_at is not a time such as \"2026-02-20T10:30:00Z\"");
        content.created_at = event_time(*time);
    }
    return std::nullopt;
}

}  // namespace deliverd::wal
