#include "client/outbox_arguments.h"

#include <algorithm>
#include <string>

#include "base/json_check.h"
#include "base/try.h"
#include "client/lease_arguments.h"

namespace deliverd::client {
namespace {

/// Of valid UTF-8.
std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Result<void> check_name(std::string_view name, std::string_view text, std::string_view advice) {
    if (text.empty()) return bad_argument(std::string(name) + " is empty: " + std::string(advice));
    TRY(check_text(name, text));
    return check_size(name, characters(text), kMaxEventNameCharacters, "characters", "shorten it");
}

Result<void> check_json(std::string_view name, std::string_view text, JsonKind kind, std::int64_t most_bytes) {
    TRY(check_size(name, text.size(), most_bytes, "bytes", "store it elsewhere and send where it is"));
    TRY(check_text(name, text));
    if (const auto problem = json_problem(text, kind)) return bad_argument(std::string(name) + " " + *problem);
    return {};
}

}  // namespace

Result<void> check_event(const NewEvent& event) {
    TRY(check_name("aggregate_id", event.aggregate_id, "name what the event is about, such as order-17"));
    TRY(check_name("event_type", event.event_type, "name what happened, such as OrderCreated"));
    TRY(check_json("payload", event.payload, JsonKind::any, kMaxEventPayloadBytes));
    return check_json("metadata", event.metadata, JsonKind::object, kMaxEventMetadataBytes);
}

}  // namespace deliverd::client
