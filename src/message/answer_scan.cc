#include "message/answer_scan.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <string>

#include "base/canonical_json.h"

namespace deliverd {
namespace {

char ascii_lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Capitals do not matter: receivers write "Already processed" and ALREADY_PROCESSED.
bool equal_letters(char a, char b) {
    return ascii_lower(a) == ascii_lower(b);
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), equal_letters);
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
    static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
    using Error = boost::system::error_code;
    using View = boost::json::string_view;

    Scanner(std::string_view our_key, const ProcessedMatch& match) : our_key_(our_key), match_(match) {}

    [[nodiscard]] const AnswerScan& found() const { return found_; }

    bool on_object_begin(Error& /*error*/) { return begin(); }
    bool on_object_end(std::size_t /*members*/, Error& /*error*/) { return end(); }
    bool on_array_begin(Error& /*error*/) { return begin(); }
    bool on_array_end(std::size_t /*elements*/, Error& /*error*/) { return end(); }
    bool on_key_part(View part, std::size_t /*so_far*/, Error& /*error*/) { return append(key_, part); }
    bool on_key(View part, std::size_t /*length*/, Error& /*error*/) { return append(key_, part); }
    bool on_string_part(View part, std::size_t /*so_far*/, Error& /*error*/) { return append(text_, part); }
    bool on_string(View part, std::size_t /*length*/, Error& /*error*/) {
        append(text_, part);
        take_text();
        text_.clear();
        key_.clear();
        return true;
    }
    bool on_null(Error& /*error*/) { return other_value(&KeyMentions::null); }
    bool on_bool(bool /*value*/, Error& /*error*/) { return other_value(&KeyMentions::another); }
    bool on_int64(std::int64_t /*value*/, View /*part*/, Error& /*error*/) {
        return other_value(&KeyMentions::another);
    }
    bool on_uint64(std::uint64_t /*value*/, View /*part*/, Error& /*error*/) {
        return other_value(&KeyMentions::another);
    }
    bool on_double(double /*value*/, View /*part*/, Error& /*error*/) { return other_value(&KeyMentions::another); }
    static bool on_number_part(View /*part*/, Error& /*error*/) { return true; }
    static bool on_document_begin(Error& /*error*/) { return true; }
    static bool on_document_end(Error& /*error*/) { return true; }
    static bool on_comment_part(View /*part*/, Error& /*error*/) { return true; }
    static bool on_comment(View /*part*/, Error& /*error*/) { return true; }

private:
    static bool append(std::string& to, View part) {
        to.append(part.data(), part.size());
        return true;
    }
    bool begin() {
        other_value(&KeyMentions::another);
        ++depth_;
        return true;
    }
    bool end() {
        --depth_;
        return true;
    }
    [[nodiscard]] bool in_key() const { return key_ == "idempotency_key"; }
    void mention(bool KeyMentions::* what) {
        found_.anywhere.*what = true;
        if (depth_ == 1) found_.at_top.*what = true;
    }
    bool other_value(bool KeyMentions::* what) {
        if (in_key()) mention(what);
        key_.clear();
        return true;
    }
    void take_text() {
        if (in_key()) {
            mention(text_ == our_key_ ? &KeyMentions::ours : &KeyMentions::another);
        } else if (deliverd::says_processed(text_, match_) || (is_match_field() && is_match_value())) {
            found_.says_processed = true;
        }
    }
    [[nodiscard]] bool is_match_field() const {
        return std::find(match_.fields.begin(), match_.fields.end(), key_) != match_.fields.end();
    }
    [[nodiscard]] bool is_match_value() const {
        return !match_.value.empty() && equal_ignoring_case(text_, match_.value);
    }

    std::string_view our_key_;
    const ProcessedMatch& match_;
    AnswerScan found_;
    std::size_t depth_ = 0;
    std::string key_;   // of the value that comes next; empty for an element
    std::string text_;  // of the string being read
};

}  // namespace

std::optional<AnswerScan> scan_json(std::string_view body, std::string_view our_key, const ProcessedMatch& match) {
    boost::json::parse_options options;
    options.max_depth = kMaxJsonDepth;
    boost::json::basic_parser<Scanner> parser(options, our_key, match);
    boost::system::error_code error;
    const std::size_t read = parser.write_some(false, body.data(), body.size(), error);
    if (error || read < body.size()) return std::nullopt;
    return parser.handler().found();
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
