#include "sink/rabbitmq/properties.h"

#include <fmt/format.h>

#include <chrono>

#include "base/text.h"
#include "base/try.h"

namespace deliverd::sink {

namespace {

constexpr std::string_view kCloudEventsPrefix = "cloudEvents:";
constexpr std::uint8_t kPersistent = 2;
constexpr std::size_t kShownBytes = 64;  // of a name in an error

Failure too_long(std::string_view code, std::string_view what, std::size_t bytes, std::size_t allowed) {
    return permanent(std::string(code),
                     fmt::format("{} has {} bytes, and RabbitMQ accepts at most {}", what, bytes, allowed));
}

}  // namespace

amqp_bytes_t amqp_bytes_of(std::string_view text) {
    return {text.size(), const_cast<char*>(text.data())};
}

amqp_table_entry_t text_entry(std::string_view key, std::string_view text) {
    amqp_table_entry_t entry{};
    entry.key = amqp_bytes_of(key);
    entry.value.kind = AMQP_FIELD_KIND_UTF8;
    entry.value.value.bytes = amqp_bytes_of(text);
    return entry;
}

Result<void> MessageProperties::build_headers(const Message& message) {
    const bool is_cloudevent = options_.format == EventFormat::cloudevents;
    attributes_ = is_cloudevent ? cloudevents_attributes(message, options_.source) : plain_attributes(message);
    entries_.clear();
    entries_.reserve(attributes_.size());
    for (auto& [name, value] : attributes_) {
        if (is_cloudevent) {
            name.insert(0, kCloudEventsPrefix);
        } else if (name == "message_id") {
            continue;  // a property of its own
        }
        if (name.size() > kMaxShortString) {
            return too_long("BAD_HEADER", fmt::format("header '{}'", shorten(one_line(name), kShownBytes)), name.size(),
                            kMaxShortString);
        }
        entries_.push_back(text_entry(name, value));  // into attributes_, whose texts do not move any more
        bytes_ += name.size() + value.size() + 6;     // and two lengths and a kind
    }
    properties_.headers = {static_cast<int>(entries_.size()), entries_.data()};
    properties_._flags |= AMQP_BASIC_HEADERS_FLAG;
    return {};
}

Result<void> MessageProperties::build(const Message& message) {
    if (message.topic.size() > kMaxShortString) {
        return too_long("BAD_TOPIC", "the routing key", message.topic.size(), kMaxShortString);
    }
    properties_ = {};
    bytes_ = 0;
    // AMQP writes the length of these in one byte. The library would cut it and break the frame.
    const auto set = [this](std::string_view what, amqp_flags_t flag, amqp_bytes_t& field,
                            const std::string& value) -> Result<void> {
        if (value.empty()) return {};
        if (value.size() > kMaxShortString) return too_long("BAD_HEADER", what, value.size(), kMaxShortString);
        field = amqp_bytes_of(value);
        properties_._flags |= flag;
        bytes_ += value.size() + 1;
        return {};
    };
    TRY(set("the message id", AMQP_BASIC_MESSAGE_ID_FLAG, properties_.message_id, message.message_id));
    TRY(set("the event type", AMQP_BASIC_TYPE_FLAG, properties_.type, message.type));
    TRY(set("the content type", AMQP_BASIC_CONTENT_TYPE_FLAG, properties_.content_type, message.content_type));
    properties_.delivery_mode = kPersistent;
    properties_._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
    if (const auto created = parse_rfc3339(message.created_at)) {
        const auto seconds = std::chrono::floor<std::chrono::seconds>(created->time_since_epoch()).count();
        if (seconds >= 0) {  // AMQP has no time before 1970
            properties_.timestamp = static_cast<std::uint64_t>(seconds);
            properties_._flags |= AMQP_BASIC_TIMESTAMP_FLAG;
        }
    }
    TRY(build_headers(message));
    // One frame holds all of them. Larger ones fail in the library, which looks like a lost connection: every message
    // under way would be sent again, and this one forever.
    if (bytes_ > kMaxPropertiesBytes) {
        return too_long("BAD_HEADER", "the metadata with the ids", bytes_, kMaxPropertiesBytes);
    }
    return {};
}

}  // namespace deliverd::sink
