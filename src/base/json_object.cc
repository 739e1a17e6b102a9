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

void JsonObject::text(std::string_view name, std::string_view value) {
    raw(name, "");
    append_json_string(out_, valid_utf8(value));
}

void JsonObject::raw(std::string_view name, std::string_view json) {
    out_.push_back(out_.empty() ? '{' : ',');
    append_json_string(out_, name);
    out_.push_back(':');
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
