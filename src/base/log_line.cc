#include "base/log_line.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/canonical_json.h"
#include "base/json_text.h"
#include "base/text.h"

namespace deliverd {
namespace {

struct LevelLook {
    std::string_view name;
    std::string_view label;
    std::string_view colour;
};

LevelLook look_of(LogLevel level) {
    switch (level) {
        case LogLevel::debug:
            return {"debug", "DEBUG", "\x1b[2m"};
        case LogLevel::info:
            return {"info", "INFO ", "\x1b[32m"};
        case LogLevel::warn:
            return {"warn", "WARN ", "\x1b[33m"};
        case LogLevel::error:
            return {"error", "ERROR", "\x1b[31m"};
    }
    return {"unknown", "?    ", ""};
}

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";

void append_json_value(std::string& out, const LogField& field) {
    std::visit(
        [&out](const auto& value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, std::string_view>) {
                append_json_string(out, valid_utf8(value));
            } else if constexpr (std::is_same_v<T, bool>) {
                out += value ? "true" : "false";
            } else if constexpr (std::is_same_v<T, double>) {
                out += std::isfinite(value) ? ecmascript_number(value) : "null";
            } else {
                out += std::to_string(value);
            }
        },
        field.value);
}

void append_human_value(std::string& out, const LogField& field) {
    const auto* text = std::get_if<std::string_view>(&field.value);
    if (text == nullptr) {
        append_json_value(out, field);
        return;
    }
    const std::string line = one_line(*text);
    const bool quote = line.empty() || line.find_first_of(" \"=") != std::string::npos;
    if (quote) {
        append_json_string(out, line);
    } else {
        out += line;
    }
}

}  // namespace

std::string json_log_line(WallTime time, LogLevel level, std::string_view event, std::span<const LogField> fields) {
    std::string out = R"({"ts":")" + rfc3339_millis(time) + R"(","level":")";
    out += look_of(level).name;
    out += R"(","event":)";
    append_json_string(out, valid_utf8(event));
    for (const LogField& field : fields) {
        out.push_back(',');
        append_json_string(out, valid_utf8(field.name));
        out.push_back(':');
        append_json_value(out, field);
    }
    out += "}\n";
    return terminal_safe(out);
}

std::string human_log_line(WallTime time, LogLevel level, std::string_view event, std::span<const LogField> fields,
                           bool colour) {
    const LevelLook look = look_of(level);
    const auto paint = [colour](std::string& out, std::string_view code) {
        if (colour) out += code;
    };
    std::string out;
    paint(out, kDim);
    out += rfc3339_millis(time).substr(11, 12);  // the time of day
    paint(out, kPlain);
    out.push_back(' ');
    paint(out, look.colour);
    out += look.label;
    paint(out, kPlain);
    out.push_back(' ');
    out += one_line(event);
    for (const LogField& field : fields) {
        out += "  ";
        paint(out, kDim);
        out += one_line(field.name);
        out.push_back('=');
        paint(out, kPlain);
        append_human_value(out, field);
    }
    out.push_back('\n');
    return out;
}

}  // namespace deliverd
