#include "base/json_check.h"

#include <boost/json/basic_parser_impl.hpp>

namespace deliverd {
namespace {

namespace json = boost::json;

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
    bool on_number_part(json::string_view /*part*/, json::error_code& /*error*/) { return true; }
    bool on_int64(std::int64_t /*value*/, json::string_view /*text*/, json::error_code& /*error*/) {
        return begin(false);
    }
    bool on_uint64(std::uint64_t /*value*/, json::string_view /*text*/, json::error_code& /*error*/) {
        return begin(false);
    }
    bool on_double(double /*value*/, json::string_view /*text*/, json::error_code& /*error*/) { return begin(false); }
    bool on_bool(bool /*value*/, json::error_code& /*error*/) { return begin(false); }
    bool on_null(json::error_code& /*error*/) { return begin(false); }
    bool on_comment_part(json::string_view /*part*/, json::error_code& /*error*/) { return true; }
    bool on_comment(json::string_view /*part*/, json::error_code& /*error*/) { return true; }

    [[nodiscard]] bool is_object() const { return is_object_.value_or(false); }
    [[nodiscard]] bool has_nul() const { return has_nul_; }

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
};

}  // namespace

std::optional<std::string> json_problem(std::string_view text, JsonKind kind) {
    json::parse_options options;
    options.max_depth = kMaxCheckedJsonDepth;
    json::basic_parser<Listener> parser(options);
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

}  // namespace deliverd
