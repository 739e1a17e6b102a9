#include "client/outbox_arguments.h"

#include <algorithm>
#include <string>

#include "base/json_check.h"
#include "base/try.h"
#include "client/lease_arguments.h"
#include "client/sql_values.h"

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
    if (const std::size_t count = characters(text); count > kMaxEventNameCharacters) {
        return bad_argument(std::string(name) + " has " + std::to_string(count) + " characters, more than the " +
                            std::to_string(kMaxEventNameCharacters) + " allowed: shorten it");
    }
    return {};
}

Result<void> check_json(std::string_view name, std::string_view text, JsonKind kind, std::size_t most_bytes) {
    if (text.size() > most_bytes) {
        return bad_argument(std::string(name) + " has " + std::to_string(text.size()) + " bytes, more than the " +
                            std::to_string(most_bytes) + " allowed: store it elsewhere and send where it is");
    }
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

Result<void> check_age(double older_than_seconds) {
    if (older_than_seconds >= 0 && older_than_seconds <= kMaxLeaseSeconds) return {};
    return bad_argument("older_than_seconds is " + decimal(older_than_seconds) +
                        ": between 0 and 1000000000 seconds are possible");
}

}  // namespace deliverd::client
