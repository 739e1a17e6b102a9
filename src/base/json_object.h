// Writes one JSON object member by member: members keep their order, and values that are JSON go out untouched.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/text.h"

namespace deliverd {

/// 2026-02-20T10:30:00.123+00:00, the form of every time in the API.
[[nodiscard]] inline std::string rfc3339_offset(WallTime time) {
    std::string text = rfc3339_millis(time);
    text.replace(text.size() - 1, 1, "+00:00");  // for the Z
    return text;
}

/// Writes members in the order of the calls. In texts, bytes that are not UTF-8 become U+FFFD.
class JsonObject {
public:
    void text(std::string_view name, std::string_view value) {
        raw(name, "");
        append_json_string(out_, valid_utf8(value));
    }
    void number(std::string_view name, std::int64_t value) { raw(name, std::to_string(value)); }
    void boolean(std::string_view name, bool value) { raw(name, value ? "true" : "false"); }
    void time(std::string_view name, WallTime value) { text(name, rfc3339_offset(value)); }
    void null(std::string_view name) { raw(name, "null"); }
    /// `json` must be JSON; it is not checked.
    void raw(std::string_view name, std::string_view json) {
        out_.push_back(out_.empty() ? '{' : ',');
        append_json_string(out_, name);
        out_.push_back(':');
        out_ += json;
    }

    // null when there is none
    template <typename T>
    void text(std::string_view name, const std::optional<T>& value) {
        value ? text(name, *value) : null(name);
    }
    template <typename T>
    void number(std::string_view name, const std::optional<T>& value) {
        value ? number(name, *value) : null(name);
    }
    template <typename T>
    void time(std::string_view name, const std::optional<T>& value) {
        value ? time(name, *value) : null(name);
    }

    [[nodiscard]] std::string done() {
        out_ += out_.empty() ? "{}" : "}";
        return std::exchange(out_, {});
    }

private:
    std::string out_;
};

/// Writes an array of texts that are JSON.
class JsonArray {
public:
    void raw(std::string_view json) {
        out_.push_back(out_.empty() ? '[' : ',');
        out_ += json;
    }
    [[nodiscard]] std::string done() {
        out_ += out_.empty() ? "[]" : "]";
        return std::exchange(out_, {});
    }

private:
    std::string out_;
};

}  // namespace deliverd
