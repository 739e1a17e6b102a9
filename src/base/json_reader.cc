#include "base/json_reader.h"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "base/text.h"
#include "base/try.h"

namespace deliverd {
namespace {

constexpr std::string_view kBetweenTokens = " \t\r\n,:";
constexpr std::string_view kNumberCharacters = "+-.0123456789eE";

Failure at_byte(Error error, std::size_t offset) {
    error.message += fmt::format(" at byte {}", offset);
    return Failure(std::move(error));
}

Failure bad_json(std::string cause, std::size_t offset) {
    return at_byte(Error{ErrorClass::permanent, "bad_json", std::move(cause)}, offset);
}

/// Boost's events, given their place in the text: between two of them is nothing but white space, commas and colons.
class EventHandler {
public:
    using Code = boost::json::error_code;
    using View = boost::json::string_view;
    // The text is bounded already, by whoever read it.
    static constexpr std::size_t max_object_size = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t max_array_size = max_object_size;
    static constexpr std::size_t max_key_size = max_object_size;
    static constexpr std::size_t max_string_size = max_object_size;

    /// Skips the first `skip` events, which the listener has seen.
    EventHandler(std::string_view json, const JsonListener& listener, std::size_t skip)
        : json_(json), listener_(listener), skip_(skip) {}

    [[nodiscard]] std::size_t count() const { return count_; }
    [[nodiscard]] std::optional<Error>& failure() { return failure_; }
    [[nodiscard]] std::size_t begin() const { return begin_; }

    bool on_object_begin(Code& code) { return open(JsonToken::object_begin, code); }
    bool on_object_end(std::size_t /*count*/, Code& code) { return close(JsonToken::object_end, code); }
    bool on_array_begin(Code& code) { return open(JsonToken::array_begin, code); }
    bool on_array_end(std::size_t /*count*/, Code& code) { return close(JsonToken::array_end, code); }
    bool on_key_part(View part, std::size_t /*size*/, Code& /*code*/) { return append(part); }
    bool on_key(View part, std::size_t /*size*/, Code& code) { return text(JsonToken::key, part, code); }
    bool on_string_part(View part, std::size_t /*size*/, Code& /*code*/) { return append(part); }
    bool on_string(View part, std::size_t /*size*/, Code& code) { return text(JsonToken::string, part, code); }
    bool on_int64(std::int64_t /*value*/, View /*text*/, Code& code) { return number(code); }
    bool on_uint64(std::uint64_t /*value*/, View /*text*/, Code& code) { return number(code); }
    bool on_double(double /*value*/, View /*text*/, Code& code) { return number(code); }
    bool on_bool(bool value, Code& code) { return literal(value ? 4 : 5, code); }
    bool on_null(Code& code) { return literal(4, code); }
    static bool on_document_begin(Code& /*code*/) { return true; }
    static bool on_document_end(Code& /*code*/) { return true; }
    static bool on_number_part(View /*part*/, Code& /*code*/) { return true; }
    static bool on_comment_part(View /*part*/, Code& /*code*/) { return true; }
    static bool on_comment(View /*part*/, Code& /*code*/) { return true; }

private:
    void find_token() {
        begin_ = json_.find_first_not_of(kBetweenTokens, end_);
        ASSERT(begin_ < json_.size());
    }
    bool emit(JsonToken token, std::size_t raw_begin, std::string_view text, Code& code) {
        if (++count_ <= skip_) return true;
        auto answer = listener_({token, starts_.size(), json_.substr(raw_begin, end_ - raw_begin), text});
        if (answer) return true;
        failure_ = std::move(answer.error());
        code = boost::json::error::syntax;  // any: the parser wants one
        return false;
    }
    bool open(JsonToken token, Code& code) {
        find_token();
        end_ = begin_ + 1;
        if (!emit(token, begin_, {}, code)) return false;
        starts_.push_back(begin_);
        return true;
    }
    bool close(JsonToken token, Code& code) {
        ASSERT(!starts_.empty());
        find_token();
        end_ = begin_ + 1;
        const std::size_t start = starts_.back();
        starts_.pop_back();
        return emit(token, start, {}, code);
    }
    bool append(View part) {
        text_.append(part.data(), part.size());
        return true;
    }
    bool text(JsonToken token, View part, Code& code) {
        find_token();
        end_ = closing_quote() + 1;
        // Without escapes Boost gives the text in one part: no copy.
        if (text_.empty()) return emit(token, begin_, {part.data(), part.size()}, code);
        append(part);
        const bool goes_on = emit(token, begin_, text_, code);
        text_.clear();
        return goes_on;
    }
    /// The first quote with an even number of backslashes before it.
    [[nodiscard]] std::size_t closing_quote() const {
        std::size_t quote = begin_;
        bool escaped = true;
        while (escaped) {
            quote = json_.find('"', quote + 1);
            ASSERT(quote != std::string_view::npos);
            escaped = (quote - 1 - json_.find_last_not_of('\\', quote - 1)) % 2 == 1;
        }
        return quote;
    }
    // Boost gives the value, which may be rounded: the text is what counts.
    bool number(Code& code) {
        find_token();
        end_ = std::min(json_.find_first_not_of(kNumberCharacters, begin_), json_.size());
        return emit(JsonToken::number, begin_, {}, code);
    }
    bool literal(std::size_t length, Code& code) {
        find_token();
        end_ = begin_ + length;
        return emit(JsonToken::literal, begin_, {}, code);
    }

    std::string_view json_;
    const JsonListener& listener_;
    std::size_t skip_;
    std::size_t count_ = 0;
    std::size_t begin_ = 0;  // of the last token
    std::size_t end_ = 0;
    std::vector<std::size_t> starts_;  // of the objects and arrays that are open
    std::string text_;                 // what there is of a key or string with escapes
    std::optional<Error> failure_;     // the listener's
};

/// How one parse of a text ended.
struct ParseEnd {
    boost::json::error_code code;
    std::size_t offset = 0;
    std::size_t events = 0;
    std::optional<Error> failure;  // the listener's, for the token at `offset`
};

/// Parses `parsed` and reports places and texts of `json`, which has the same tokens at the same places.
ParseEnd parse(std::string_view parsed, std::string_view json, const JsonListener& listener, std::size_t skip) {
    boost::json::parse_options options;
    options.max_depth = kMaxJsonDepth;
    boost::json::basic_parser<EventHandler> parser(options, json, listener, skip);
    ParseEnd end;
    // `false`: no more text follows, so that a number at the end is complete.
    end.offset = parser.write_some(false, parsed.data(), parsed.size(), end.code);
    EventHandler& handler = parser.handler();
    end.events = handler.count();
    if (handler.failure()) end.offset = handler.begin();
    end.failure = std::move(handler.failure());
    return end;
}

constexpr std::size_t kEscapeBytes = 6;  // of \uXXXX

bool is_high_surrogate(unsigned unit) {
    return unit >= 0xD800 && unit < 0xDC00;
}

/// The code unit of the `\uXXXX` at `at`; 0 where there is none.
unsigned code_unit(std::string_view json, std::size_t at) {
    if (at + kEscapeBytes > json.size() || json.substr(at, 2) != "\\u") return 0;
    unsigned unit = 0;
    for (std::size_t i = at + 2; i < at + kEscapeBytes; ++i) {
        const auto digit = hex_value(json[i]);
        if (!digit) return 0;
        unit = unit * 16 + *digit;
    }
    return unit;
}

/// Boost refuses halves of surrogate pairs and exponents beyond 2^31. This is the same text with stand-ins of the same
/// length for both: U+FFFD, and an exponent of zeros, whose value nobody reads.
std::string with_stand_ins(std::string json, LoneSurrogates lone) {
    // Nine digits are below 2^31.
    constexpr std::size_t kMostExponentDigits = 9;
    bool in_string = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        if (json[i] == '"') in_string = !in_string;
        if (in_string && json[i] == '\\') {
            const unsigned unit = code_unit(json, i);
            const unsigned next = code_unit(json, i + kEscapeBytes);
            if (is_high_surrogate(unit) && next >= 0xDC00 && next < 0xE000) {
                i += 2 * kEscapeBytes - 1;
                continue;
            }
            if (lone == LoneSurrogates::replace && unit >= 0xD800 && unit < 0xE000) {
                json.replace(i, kEscapeBytes, "\\uFFFD");
            }
            ++i;
        } else if (!in_string && (json[i] == 'e' || json[i] == 'E')) {
            const bool has_sign = i + 1 < json.size() && (json[i + 1] == '+' || json[i + 1] == '-');
            const std::size_t begin = i + (has_sign ? 2 : 1);
            const std::size_t end = std::min(json.find_first_not_of("0123456789", begin), json.size());
            if (end > begin + kMostExponentDigits) json.replace(begin, end - begin, end - begin, '0');
        }
    }
    return json;
}

std::string cause_of(const boost::json::error_code& code, std::string_view json, std::size_t offset) {
    using boost::json::error;
    if (code == error::too_deep) return fmt::format("nested deeper than {} levels", kMaxJsonDepth);
    const unsigned before = offset < kEscapeBytes ? 0 : code_unit(json, offset - kEscapeBytes);
    if (code == error::illegal_leading_surrogate || code == error::illegal_trailing_surrogate ||
        code == error::expected_utf16_escape || is_high_surrogate(before)) {
        return "half of a surrogate pair";
    }
    if (code == error::expected_hex_digit) return "\\u without four hex digits";
    if (code == error::incomplete || offset >= json.size()) return "it ends too early";
    if (code && code != error::syntax) return code.message();
    const auto byte = static_cast<unsigned char>(json[offset]);
    return byte > 0x20 && byte < 0x7F ? fmt::format("unexpected '{}'", json[offset])
                                      : fmt::format("unexpected byte 0x{:02X}", byte);
}

}  // namespace

Result<void> read_json(std::string_view json, const JsonListener& listener, LoneSurrogates lone) {
    ParseEnd end = parse(json, json, listener, 0);
    if (end.code && !end.failure) {
        // Only now, because almost every text is fine for Boost. The listener does not see the same events twice.
        const std::string stand_in = with_stand_ins(std::string(json), lone);
        if (stand_in != json) end = parse(stand_in, json, listener, end.events);
    }
    if (end.failure) return at_byte(std::move(*end.failure), end.offset);
    if (end.code) {
        // Named before any other cause: it is what the writer has to correct first.
        if (const auto wrong = find_invalid_utf8(json)) return bad_json("not UTF-8", *wrong);
        return bad_json(cause_of(end.code, json, end.offset), end.offset);
    }
    if (end.offset < json.size()) return bad_json("more follows the JSON value", end.offset);
    return {};
}

bool is_json(std::string_view json) {
    return read_json(json, [](const JsonEvent& /*event*/) -> Result<void> { return {}; }).has_value();
}

Result<std::vector<JsonMember>> json_members(std::string_view json, LoneSurrogates lone) {
    std::vector<JsonMember> members;
    const auto take = [&members](const JsonEvent& event) -> Result<void> {
        if (event.depth == 0 && event.token != JsonToken::object_begin && event.token != JsonToken::object_end) {
            return permanent("bad_json", "not a JSON object");
        }
        if (event.depth != 1) return {};
        if (event.token == JsonToken::key) {
            members.push_back({std::string(event.text), event.raw, {}});
        } else {
            members.back().value = event.raw;  // of an object or array first its bracket, at last all of it
        }
        return {};
    };
    TRY(read_json(json, take, lone));
    return members;
}

std::optional<std::string> json_string(std::string_view json, LoneSurrogates lone) {
    if (!json.starts_with('"')) return std::nullopt;
    std::optional<std::string> text;
    const auto take = [&text](const JsonEvent& event) -> Result<void> {
        text = event.text;
        return {};
    };
    return read_json(json, take, lone) ? text : std::nullopt;
}

}  // namespace deliverd
