#include "store/record_headers.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <utility>

#include "base/hmac.h"
#include "base/json_text.h"
#include "base/text.h"

namespace deliverd::store {
namespace {

constexpr std::array<std::string_view, 3> kTimeTypes = {"none", "created", "appended"};  // as RecordTime counts

std::optional<std::string> text_of(const boost::json::object& entry, std::string_view name) {
    const boost::json::value* value = entry.if_contains(name);
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return std::string(value->as_string());
}

std::optional<std::string> bytes_of(const boost::json::object& entry, std::string_view name) {
    const auto text = text_of(entry, name);
    return text ? base64_decoded(*text) : std::nullopt;
}

}  // namespace

// Base64, because a value may hold any bytes and the column is JSON. Names nearly always are text, and people look for
// them.
std::string record_headers_json(std::span<const RecordHeader> headers) {
    std::string out = "[";
    for (const RecordHeader& header : headers) {
        if (out.size() > 1) out += ',';
        // PostgreSQL's jsonb holds no U+0000.
        const bool text = !find_invalid_utf8(header.name) && header.name.find('\0') == std::string::npos;
        out += text ? R"({"name":)" : R"({"name_base64":)";
        append_json_string(out, text ? header.name : base64_encoded(header.name));
        out += R"(,"value_base64":)";
        if (header.value) {
            append_json_string(out, base64_encoded(*header.value));
        } else {
            out += "null";
        }
        out += '}';
    }
    return out + "]";
}

std::optional<std::vector<RecordHeader>> parse_record_headers(std::string_view json) {
    boost::system::error_code fault;
    const boost::json::value document = boost::json::parse(json, fault);
    if (fault || !document.is_array()) return std::nullopt;
    std::vector<RecordHeader> headers;
    for (const boost::json::value& entry : document.as_array()) {
        if (!entry.is_object()) return std::nullopt;
        const boost::json::object& object = entry.as_object();
        auto name = text_of(object, "name");
        if (!name) name = bytes_of(object, "name_base64");
        const boost::json::value* value = object.if_contains("value_base64");
        if (!name || value == nullptr) return std::nullopt;
        RecordHeader header{std::move(*name), bytes_of(object, "value_base64")};
        if (!header.value && !value->is_null()) return std::nullopt;
        headers.push_back(std::move(header));
    }
    return headers;
}

std::string_view record_time_name(RecordTime type) {
    return kTimeTypes.at(static_cast<std::size_t>(type));
}

RecordTime record_time(std::string_view name) {
    const auto* found = std::ranges::find(kTimeTypes, name);
    return found == kTimeTypes.end() ? RecordTime::none : static_cast<RecordTime>(found - kTimeTypes.begin());
}

}  // namespace deliverd::store
