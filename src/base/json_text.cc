#include "base/json_text.h"

#include <fmt/format.h>

#include <iterator>

#include "base/text.h"

namespace deliverd {
namespace {

void append_escaped(std::string& out, char c) {
    constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    out.push_back('\\');
    if (const std::size_t which = kSpecial.find(c); which != std::string_view::npos) {
        out.push_back(kLetters[which]);
        return;
    }
    out += "u00" + hex_text({&c, 1});
}

struct Character {
    std::size_t bytes = 0;
    unsigned code = 0;
};

/// What terminal_safe() escapes, where `text` begins with it; otherwise nothing.
Character steering(std::string_view text) {
    const auto byte = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    if (byte(0) == 0x7F) return {1, 0x7F};
    // C1: terminals take U+009B for ESC [.
    if (byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) <= 0x9F) return {2, byte(1)};
    if (byte(0) != 0xE2) return {};
    // The marks that turn the direction of text: with them a line can show something else than it says.
    const unsigned code = 0x2000U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
    const bool turns = (byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE) ||  // U+202A to U+202E
                       (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);    // U+2066 to U+2069
    return turns ? Character{3, code} : Character{};
}

}  // namespace

std::string terminal_safe(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Character found = steering(text);
        if (found.bytes > 0) {
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", found.code);
            text.remove_prefix(found.bytes);
        } else {
            out.push_back(text.front());
            text.remove_prefix(1);
        }
    }
    return out;
}

void append_json_string(std::string& out, std::string_view text) {
    out.push_back('"');
    for (const char c : text) {
        if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) {
            append_escaped(out, c);
        } else {
            out.push_back(c);
        }
    }
    out.push_back('"');
}

}  // namespace deliverd
