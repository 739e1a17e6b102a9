#include "wal/lsn.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace deliverd::wal {
namespace {

std::optional<std::uint32_t> half_of(std::string_view digits) {
    const bool hex = std::all_of(digits.begin(), digits.end(), [](char c) { return hex_value(c).has_value(); });
    if (digits.empty() || digits.size() > 8 || !hex) return std::nullopt;
    std::uint32_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return value;
}

}  // namespace

std::string lsn_text(Lsn lsn) {
    return fmt::format("{:X}/{:X}", lsn >> 32, lsn & 0xFFFF'FFFF);
}

std::optional<Lsn> parse_lsn(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    const auto high = half_of(text.substr(0, slash));
    const auto low = half_of(text.substr(slash + 1));
    if (!high || !low) return std::nullopt;
    return Lsn{*high} << 32 | *low;
}

}  // namespace deliverd::wal
