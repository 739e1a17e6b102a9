#include "message/answer_scan.h"

#include <algorithm>
#include <string>

#include "base/json_reader.h"
#include "base/text.h"

namespace deliverd {
namespace {

/// Capitals do not matter: receivers write "Already processed" and ALREADY_PROCESSED.
bool equal_letters(char a, char b) {
    return ascii_lower(a) == ascii_lower(b);
}

/// "…not ", with any white space.
bool ends_with_not(std::string_view text) {
    constexpr std::string_view kNot = "not";
    const std::size_t last = text.find_last_not_of(" \t\r\n");
    if (last == std::string_view::npos || last + 1 == text.size() || last + 1 < kNot.size()) return false;
    return equal_ignoring_case(text.substr(last + 1 - kNot.size(), kNot.size()), kNot);
}

/// Sees every member as it was written: a parsed object has only the last of those with one name.
class Scanner {
public:
    Scanner(std::string_view our_key, const ProcessedMatch& match) : our_key_(our_key), match_(match) {}

    [[nodiscard]] const AnswerScan& found() const { return found_; }

    void take(const JsonEvent& event) {
        switch (event.token) {
            case JsonToken::key:
                key_ = event.text;
                return;
            case JsonToken::string:
                take_text(event);
                break;
            case JsonToken::object_begin:
            case JsonToken::array_begin:
            case JsonToken::number:
            case JsonToken::literal:
                if (in_key()) mention(event, event.raw == "null" ? &KeyMentions::null : &KeyMentions::another);
                break;
            case JsonToken::object_end:
            case JsonToken::array_end:
                break;
        }
        key_.clear();
    }

private:
    [[nodiscard]] bool in_key() const { return key_ == "idempotency_key"; }
    void mention(const JsonEvent& event, bool KeyMentions::* what) {
        found_.anywhere.*what = true;
        if (event.depth == 1) found_.at_top.*what = true;
    }
    void take_text(const JsonEvent& event) {
        if (in_key()) {
            mention(event, event.text == our_key_ ? &KeyMentions::ours : &KeyMentions::another);
        } else if (says_processed(event.text, match_) || (is_match_field() && is_match_value(event.text))) {
            found_.says_processed = true;
        }
    }
    [[nodiscard]] bool is_match_field() const {
        return std::find(match_.fields.begin(), match_.fields.end(), key_) != match_.fields.end();
    }
    [[nodiscard]] bool is_match_value(std::string_view text) const {
        return !match_.value.empty() && equal_ignoring_case(text, match_.value);
    }

    std::string_view our_key_;
    const ProcessedMatch& match_;
    AnswerScan found_;
    std::string key_;  // of the value that comes next; empty for an element
};

}  // namespace

std::optional<AnswerScan> scan_json(std::string_view body, std::string_view our_key, const ProcessedMatch& match) {
    Scanner scanner(our_key, match);
    const auto take = [&scanner](const JsonEvent& event) -> Result<void> {
        scanner.take(event);
        return {};
    };
    if (!read_json(body, take)) return std::nullopt;
    return scanner.found();
}

bool says_processed(std::string_view text, const ProcessedMatch& match) {
    if (match.text.empty()) return false;
    auto from = text.begin();
    while (true) {
        const auto found = std::search(from, text.end(), match.text.begin(), match.text.end(), equal_letters);
        if (found == text.end()) return false;
        if (!ends_with_not(text.substr(0, static_cast<std::size_t>(found - text.begin())))) return true;
        from = found + 1;
    }
}

}  // namespace deliverd
