#include "cli/command_input.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "deliverd/error_codes.h"

namespace deliverd::cli {

namespace {

/// `shown` is how the user wrote `path`.
Result<std::string> read(const Context& context, std::string_view flag, const std::string& shown,
                         const std::string& path, std::int64_t limit, std::string_view limit_setting) {
    const auto unreadable = [&](const std::string& why) {
        const std::string hint =
            shown.starts_with('@') ? fmt::format("; write @{} for a text that begins with @", shown) : std::string();
        return permanent(codes::kBadArgument, fmt::format("{} {}: {}{}", flag, shown, why, hint));
    };
    const auto reason = [] { return std::string(errno == 0 ? "it cannot be read" : std::strerror(errno)); };
    errno = 0;
    std::ifstream file;
    if (path != "-") {
        file.open(path, std::ios::binary);
        if (!file) return unreadable(reason());
    }
    std::istream& from = path == "-" ? context.in : file;
    errno = 0;
    // One byte more than allowed, so that a huge input is refused without being held.
    std::string text(static_cast<std::size_t>(limit) + 1, '\0');
    from.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(from.gcount()));
    if (from.bad()) return unreadable(reason());
    if (static_cast<std::int64_t>(text.size()) <= limit) return text;
    return unreadable(
        fmt::format("longer than {} bytes{}", limit, limit_setting.empty() ? "" : fmt::format(" ({})", limit_setting)));
}

}  // namespace

Result<std::string> read_input(const Context& context, std::string_view flag, const std::string& path,
                               std::int64_t limit, std::string_view limit_setting) {
    return read(context, flag, path, path, limit, limit_setting);
}

Result<std::string> text_or_input(const Context& context, std::string_view flag, const std::string& value,
                                  std::int64_t limit, std::string_view limit_setting) {
    if (value.starts_with("@@")) return value.substr(1);
    if (value != "-" && !value.starts_with('@')) return value;
    return read(context, flag, value, value == "-" ? value : value.substr(1), limit, limit_setting);
}

}  // namespace deliverd::cli
