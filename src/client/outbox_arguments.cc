#include "client/outbox_arguments.h"

#include <algorithm>
#include <string>

#include "base/json_check.h"
#include "client/decimal.h"
#include "client/lease_arguments.h"

namespace deliverd::client {
namespace {

Failure refused_event(std::string message) {
    return permanent("bad_argument", std::move(message));
}

/// Of valid UTF-8.
std::size_t characters(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Result<void> check_name(std::string_view name, std::string_view text, std::string_view advice) {
    if (text.empty()) return refused_event(std::string(name) + " is empty: " + std::string(advice));
    if (auto ok = check_text(name, text); !ok) return ok;
    if (const std::size_t count = characters(text); count > kMaxEventNameCharacters) {
        return refused_event(std::string(name) + " has " + std::to_string(count) + " characters, more than the " +
                             std::to_string(kMaxEventNameCharacters) + " allowed: shorten it");
    }
    return {};
}

Result<void> check_json(std::string_view name, std::string_view text, JsonKind kind, std::size_t most_bytes) {
    if (text.size() > most_bytes) {
        return refused_event(std::string(name) + " has " + std::to_string(text.size()) + " bytes, more than the " +
                             std::to_string(most_bytes) + " allowed: store it elsewhere and send where it is");
    }
    if (auto ok = check_text(name, text); !ok) return ok;
    if (const auto problem = json_problem(text, kind)) return refused_event(std::string(name) + " " + *problem);
    return {};
}

}  // namespace

Result<void> check_event(const NewEvent& event) {
    if (auto ok = check_name("aggregate_id", event.aggregate_id, "name what the event is about, such as order-17");
        !ok) {
        return ok;
    }
    if (auto ok = check_name("event_type", event.event_type, "name what happened, such as OrderCreated"); !ok) {
        return ok;
    }
    if (auto ok = check_json("payload", event.payload, JsonKind::any, kMaxEventPayloadBytes); !ok) return ok;
    return check_json("metadata", event.metadata, JsonKind::object, kMaxEventMetadataBytes);
}

Result<void> check_event_limit(std::int32_t limit) {
    if (limit >= 1) return {};
    return refused_event("limit is " + std::to_string(limit) + ": at least 1 row must be asked for");
}

Result<void> check_age(double older_than_seconds) {
    if (older_than_seconds >= 0 && older_than_seconds <= kMaxLeaseSeconds) return {};
    return refused_event("older_than_seconds is " + decimal(older_than_seconds) +
                         ": between 0 and 1000000000 seconds are possible");
}

}  // namespace deliverd::client
