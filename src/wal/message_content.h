// The content of a logical message that is an event. Pure code over foreign bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace deliverd::wal {

/// The views are parts of the content.
struct MessageContent {
    std::string aggregate_id;
    std::string event_type;
    std::string_view payload;   // a JSON value as written: numbers keep their digits
    std::string_view metadata;  // a JSON object as written; empty if there is none
    std::string event_id;       // empty if there is none
    std::string created_at;     // RFC 3339 in UTC with microseconds; empty if there is none
};

/// Reads a JSON object with the members aggregate_id, event_type and payload, which it needs, and event_id, metadata
/// and created_at, for which null counts as absent. Other members are ignored; of one that is written twice the last
/// one counts, as in PostgreSQL's jsonb. Answers why the content is no event, for people: one line; none if it is one.
[[nodiscard]] std::optional<std::string> read_message_content(std::string_view bytes, MessageContent& content);

}  // namespace deliverd::wal
