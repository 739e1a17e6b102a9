#include "message/topic_template.h"

#include <algorithm>
#include <array>
#include <utility>

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
    constexpr std::array<std::pair<std::string_view, Part>, 4> kPlaceholders{
        {{"event_type", Part::event_type},
         {"event_type_raw", Part::event_type_raw},
         {"aggregate_id", Part::aggregate_id},
         {"aggregate_type", Part::aggregate_type}}};
    TopicTemplate out;
    if (text.empty()) return bad_argument("must not be empty");
    while (!text.empty()) {
        const std::size_t open = std::min(text.find('{'), text.size());
        if (text.substr(0, open).find('}') != std::string_view::npos) {
            return bad_argument("has a closing brace without an opening one");
        }
        if (open > 0) out.pieces_.push_back({Part::text, std::string(text.substr(0, open))});
        text.remove_prefix(open);
        if (text.empty()) break;
        const std::size_t close = text.find('}');
        if (close == std::string_view::npos) return bad_argument("has a brace that is not closed");
        const std::string_view name = text.substr(1, close - 1);
        const auto* const known = std::ranges::find(kPlaceholders, name, &std::pair<std::string_view, Part>::first);
        if (known == kPlaceholders.end()) {
            return bad_argument("has an unknown placeholder {" + std::string(name) +
                                "}; there are {event_type}, {event_type_raw}, {aggregate_id} and "
                                "{aggregate_type}");
        }
        out.pieces_.push_back({known->second, ""});
        text.remove_prefix(close + 1);
    }
    return out;
}

std::string TopicTemplate::topic_of(const Message& message) const {
    std::string out;
    for (const Piece& piece : pieces_) {
        switch (piece.part) {
            case Part::text:
                out += piece.text;
                break;
            case Part::event_type:
                out += dotted_event_type(message.type);
                break;
            case Part::event_type_raw:
                out += message.type;
                break;
            case Part::aggregate_id:
                out += message.key;
                break;
            case Part::aggregate_type:
                out += message.aggregate_type;
                break;
        }
    }
    return out;
}

bool TopicTemplate::fixed() const {
    return std::ranges::all_of(pieces_, [](const Piece& piece) { return piece.part == Part::text; });
}

}  // namespace deliverd
