#include "base/json_text.h"

namespace deliverd {
namespace {

void append_escaped(std::string& out, char c) {
    constexpr std::string_view kSpecial = "\"\\\b\f\n\r\t";
    constexpr std::string_view kLetters = "\"\\bfnrt";
    constexpr std::string_view kHex = "0123456789abcdef";
    out.push_back('\\');
    if (const std::size_t which = kSpecial.find(c); which != std::string_view::npos) {
        out.push_back(kLetters[which]);
        return;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += "u00";
    out.push_back(kHex[byte >> 4U]);
    out.push_back(kHex[byte & 0xFU]);
}

}  // namespace

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
