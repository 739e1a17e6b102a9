#include "message/topic_template.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace deliverd {

namespace {

/// A word begins at a capital behind a small letter or digit (order|Created), and at the last capital of a run that a
/// small letter follows (HTTP|Request).
bool begins_word(std::string_view text, std::size_t at) {
    if (at == 0 || !is_upper(text[at])) return false;
    if (is_lower(text[at - 1]) || is_digit(text[at - 1])) return true;
    return is_upper(text[at - 1]) && at + 1 < text.size() && is_lower(text[at + 1]);
}

}  // namespace

std::string dotted_event_type(std::string_view event_type) {
    std::string out;
    out.reserve(event_type.size() + 4);
    for (std::size_t at = 0; at < event_type.size(); ++at) {
        if (begins_word(event_type, at)) out.push_back('.');
        out.push_back(event_type[at] == '_' ? '.' : ascii_lower(event_type[at]));
    }
    return out;
}

Result<TopicTemplate> TopicTemplate::parse(std::string_view text) {
    static const std::map<std::string_view, Piece> kPlaceholders{
        {"event_type", {.field = &Message::type, .dotted = true}},
        {"event_type_raw", {.field = &Message::type}},
        {"aggregate_id", {.field = &Message::key}},
        {"aggregate_type", {.field = &Message::aggregate_type}}};
    TopicTemplate out;
    if (text.empty()) return bad_argument("must not be empty");
    while (!text.empty()) {
        const std::size_t open = std::min(text.find('{'), text.size());
        if (text.substr(0, open).find('}') != std::string_view::npos) {
            return bad_argument("has a closing brace without an opening one");
        }
        if (open > 0) out.pieces_.push_back({.text = std::string(text.substr(0, open))});
        text.remove_prefix(open);
        if (text.empty()) break;
        const std::size_t close = text.find('}');
        if (close == std::string_view::npos) return bad_argument("has a brace that is not closed");
        const std::string_view name = text.substr(1, close - 1);
        const auto placeholder = kPlaceholders.find(name);
        if (placeholder == kPlaceholders.end()) {
            return bad_argument("has an unknown placeholder {" + std::string(name) +
                                "}; there are {event_type}, {event_type_raw}, {aggregate_id} and "
                                "{aggregate_type}");
        }
        out.pieces_.push_back(placeholder->second);
        text.remove_prefix(close + 1);
    }
    return out;
}

std::string TopicTemplate::topic_of(const Message& message) const {
    std::string out;
    for (const Piece& piece : pieces_) {
        const std::string& value = piece.field == nullptr ? piece.text : message.*piece.field;
        if (piece.dotted) {
            out += dotted_event_type(value);
        } else {
            out += value;
        }
    }
    return out;
}

bool TopicTemplate::fixed() const {
    return std::ranges::all_of(pieces_, [](const Piece& piece) { return piece.field == nullptr; });
}

}  // namespace deliverd
