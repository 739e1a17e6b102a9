#include "app/command_input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace deliverd::app {

Result<std::string> payload_text(const Context& context, std::string_view flag, const std::string& payload) {
    const auto unreadable = [&](const std::string& why) {
        return permanent("bad_argument", fmt::format("{} {}: {}", flag, payload, why));
    };
    const bool piped = payload == "-" || payload == "@-";
    if (!piped && !payload.starts_with('@')) return payload;
    errno = 0;
    std::ifstream file;
    if (!piped) {
        file.open(payload.substr(1), std::ios::binary);
        if (!file) return unreadable(errno == 0 ? "it cannot be read" : std::strerror(errno));
    }
    std::istream& from = piped ? context.in : file;
    errno = 0;
    std::string text = read_bounded(from, kMaxPayloadInputBytes);
    if (from.bad()) return unreadable(errno == 0 ? "it cannot be read" : std::strerror(errno));
    if (static_cast<std::int64_t>(text.size()) > kMaxPayloadInputBytes) {
        return unreadable(fmt::format("longer than the {} bytes that are read", kMaxPayloadInputBytes));
    }
    return text;
}

}  // namespace deliverd::app
