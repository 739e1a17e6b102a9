// Writes JSON strings without a document tree, which would cost more than the text.
#pragma once

#include <string>
#include <string_view>

namespace deliverd {

/// Appends `text`, which must be UTF-8, in double quotes. As RFC 8785 requires, escapes only what must be escaped.
void append_json_string(std::string& out, std::string_view text);

/// JSON allows characters that steer a terminal: DEL, C1, and those that turn the direction of writing. This is the
/// JSON `text` with them written as escapes (`\u009b`), which means the same.
[[nodiscard]] std::string terminal_safe(std::string_view text);

}  // namespace deliverd
