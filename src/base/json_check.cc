#include "base/json_check.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>

namespace deliverd {
namespace {

namespace json = boost::json;

/// Larger ones are no numbers to PostgreSQL.
constexpr std::size_t kMostDigits = 131'072;

/// Its size, whatever its sign.
std::size_t exponent_of(std::string_view number) {
    std::size_t at = number.find_first_of("eE");
    if (at == std::string_view::npos) return 0;
    at += at + 1 < number.size() && (number[at + 1] == '+' || number[at + 1] == '-') ? 2 : 1;
    std::size_t exponent = 0;
    const auto [end, fault] = std::from_chars(number.data() + at, number.data() + number.size(), exponent);
    return fault == std::errc{} ? std::min(exponent, kMostDigits) : kMostDigits;
}

/// Hears what the parser finds and keeps nothing but the kind of the outermost value.
class Listener {
public:
    static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

    bool on_document_begin(json::error_code& /*error*/) { return true; }
    bool on_document_end(json::error_code& /*error*/) { return true; }
    bool on_object_begin(json::error_code& /*error*/) { return begin(true); }
    bool on_object_end(std::size_t /*count*/, json::error_code& /*error*/) { return true; }
    bool on_array_begin(json::error_code& /*error*/) { return begin(false); }
    bool on_array_end(std::size_t /*count*/, json::error_code& /*error*/) { return true; }
    bool on_key_part(json::string_view part, std::size_t /*size*/, json::error_code& error) {
        return text(part, error);
    }
    bool on_key(json::string_view part, std::size_t /*size*/, json::error_code& error) { return text(part, error); }
    bool on_string_part(json::string_view part, std::size_t /*size*/, json::error_code& error) {
        return text(part, error);
    }
    bool on_string(json::string_view part, std::size_t /*size*/, json::error_code& error) {
        return begin(false) && text(part, error);
    }
    bool on_number_part(json::string_view part, json::error_code& /*error*/) {
        number_ += part;
        return true;
    }
    bool on_int64(std::int64_t /*value*/, json::string_view /*text*/, json::error_code& /*error*/) {
        number_.clear();
        return begin(false);
    }
    bool on_uint64(std::uint64_t /*value*/, json::string_view /*text*/, json::error_code& /*error*/) {
        number_.clear();
        return begin(false);
    }
    bool on_double(double /*value*/, json::string_view text, json::error_code& /*error*/) {
        number_ += text;
        exponents_ += exponent_of(number_);
        number_.clear();
        return begin(false);
    }
    bool on_bool(bool /*value*/, json::error_code& /*error*/) { return begin(false); }
    bool on_null(json::error_code& /*error*/) { return begin(false); }
    bool on_comment_part(json::string_view /*part*/, json::error_code& /*error*/) { return true; }
    bool on_comment(json::string_view /*part*/, json::error_code& /*error*/) { return true; }

    [[nodiscard]] bool is_object() const { return is_object_.value_or(false); }
    [[nodiscard]] bool has_nul() const { return has_nul_; }
    [[nodiscard]] std::size_t exponents() const { return exponents_; }

private:
    bool begin(bool object) {
        if (!is_object_) is_object_ = object;
        return true;
    }
    bool text(json::string_view part, json::error_code& error) {
        if (part.find('\0') == json::string_view::npos) return true;
        has_nul_ = true;
        error = json::error::syntax;
        return false;
    }

    std::optional<bool> is_object_;
    bool has_nul_ = false;
    std::string number_;         // what there is of it
    std::size_t exponents_ = 0;  // their sizes together
};

using Parser = json::basic_parser<Listener>;
constexpr json::parse_options kOptions = [] {
    json::parse_options options;
    options.max_depth = kMaxCheckedJsonDepth;
    return options;
}();

std::optional<std::string> problem_of(std::string_view text, JsonKind kind, Parser& parser) {
    json::error_code error;
    const std::size_t read = parser.write_some(false, text.data(), text.size(), error);
    const std::string where = " at offset " + std::to_string(read);
    if (parser.handler().has_nul()) {
        return "has the character U+0000 in a string" + where + ", which PostgreSQL cannot hold in JSON";
    }
    if (error == json::error::too_deep) {
        return "is nested deeper than " + std::to_string(kMaxCheckedJsonDepth) + " levels" + where;
    }
    if (error) return "is not JSON" + where + " (" + error.message() + ")";
    if (read != text.size()) return "is not one JSON value: there is more behind it" + where;
    if (kind == JsonKind::object && !parser.handler().is_object()) return std::string("is not a JSON object");
    return std::nullopt;
}

}  // namespace

std::optional<std::string> json_problem(std::string_view text, JsonKind kind) {
    Parser parser(kOptions);
    return problem_of(text, kind, parser);
}

bool is_compact_json(std::string_view text) {
    Parser parser(kOptions);
    return !problem_of(text, JsonKind::any, parser) && parser.handler().exponents() <= kMaxSwellingBytes;
}

}  // namespace deliverd
