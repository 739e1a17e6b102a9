// The destination of an event: a topic's name made from the event. Pure code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"
#include "message/message.h"

namespace deliverd {

/// "OrderCreated" → "order.created", "HTTPRequestSent" → "http.request.sent", "order_paid" → "order.paid". Dots, dashes
/// and other characters stay; letters outside ASCII stay as they are.
[[nodiscard]] std::string dotted_event_type(std::string_view event_type);

/// Fixed text with placeholders: {event_type} (dotted), {event_type_raw}, {aggregate_id}, {aggregate_type}.
class TopicTemplate {
public:
    /// Failure (permanent, `bad_argument`): empty, a brace that is not closed, an unknown placeholder.
    static Result<TopicTemplate> parse(std::string_view text);

    [[nodiscard]] std::string topic_of(const Message& message) const;
    /// The same topic for every message.
    [[nodiscard]] bool fixed() const;

private:
    struct Piece {
        std::string text{};                      // fixed text, unless there is a field
        std::string Message::* field = nullptr;  // of the message
        bool dotted = false;                     // dotted_event_type() of the field
    };
    std::vector<Piece> pieces_;
};

}  // namespace deliverd
