#include "base/json_object.h"

#include <utility>

#include "base/json_text.h"
#include "base/text.h"

namespace deliverd {

std::string rfc3339_offset(WallTime time) {
    std::string text = rfc3339_millis(time);
    text.replace(text.size() - 1, 1, "+00:00");  // for the Z
    return text;
}

void JsonObject::begin(std::string_view name) {
    out_.push_back(out_.empty() ? '{' : ',');
    append_json_string(out_, name);
    out_.push_back(':');
}

void JsonObject::text(std::string_view name, std::string_view value) {
    begin(name);
    append_json_string(out_, valid_utf8(value));
}

void JsonObject::text(std::string_view name, const std::optional<std::string>& value) {
    if (!value) return null(name);
    text(name, std::string_view(*value));
}

void JsonObject::number(std::string_view name, std::int64_t value) {
    raw(name, std::to_string(value));
}

void JsonObject::number(std::string_view name, const std::optional<std::int64_t>& value) {
    if (!value) return null(name);
    number(name, *value);
}

void JsonObject::boolean(std::string_view name, bool value) {
    raw(name, value ? "true" : "false");
}

void JsonObject::time(std::string_view name, WallTime value) {
    text(name, std::string_view(rfc3339_offset(value)));
}

void JsonObject::time(std::string_view name, const std::optional<WallTime>& value) {
    if (!value) return null(name);
    time(name, *value);
}

void JsonObject::null(std::string_view name) {
    raw(name, "null");
}

void JsonObject::raw(std::string_view name, std::string_view json) {
    begin(name);
    out_ += json;
}

std::string JsonObject::done() {
    out_ += out_.empty() ? "{}" : "}";
    return std::exchange(out_, {});
}

void JsonArray::raw(std::string_view json) {
    out_.push_back(out_.empty() ? '[' : ',');
    out_ += json;
}

std::string JsonArray::done() {
    out_ += out_.empty() ? "[]" : "]";
    return std::exchange(out_, {});
}

}  // namespace deliverd
