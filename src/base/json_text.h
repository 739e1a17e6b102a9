// Writing JSON strings by hand, where a document tree would cost more than the text.
#pragma once

#include <string>
#include <string_view>

namespace deliverd {

/// Appends `text` in double quotes, escaped as RFC 8785 wants it (only what must be escaped is). `text`
/// must be valid UTF-8.
void append_json_string(std::string& out, std::string_view text);

/// `text` with what steers a terminal and may stand in JSON as it is, written as JSON's escapes (`\u009b`): DEL, C1
/// and the characters that turn the direction of writing. JSON means the same as before.
[[nodiscard]] std::string terminal_safe(std::string_view text);

}  // namespace deliverd
