#include "wal/value_text.h"

#include <algorithm>

#include "base/text.h"

namespace deliverd::wal {
namespace {

// Type oids from pg_type.dat; they never change.
constexpr std::uint32_t kBytea = 17;
constexpr std::uint32_t kBpchar = 1042;

constexpr std::string_view kEarliest = "1970-01-01T00:00:00.000000Z";
constexpr std::string_view kLatest = "9999-12-31T23:59:59.999999Z";

/// False for what is not the hex format.
bool decode_hex(std::string_view text, std::string& out) {
    if (!text.starts_with("\\x") || text.size() % 2 != 0) return false;
    text.remove_prefix(2);
    out.resize(text.size() / 2);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto high = hex_value(text[2 * i]);
        const auto low = hex_value(text[2 * i + 1]);
        if (!high || !low) return false;
        out[i] = static_cast<char>(*high << 4 | *low);
    }
    return true;
}

bool fits(std::string_view text, std::string_view pattern) {
    return text.size() >= pattern.size() && std::equal(pattern.begin(), pattern.end(), text.begin(),
                                                       [](char p, char c) { return p == '0' ? is_digit(c) : p == c; });
}

}  // namespace

std::string_view value_text(std::string_view text, std::uint32_t type, std::string& scratch) {
    if (type == kBytea) return decode_hex(text, scratch) ? std::string_view(scratch) : text;
    if (type == kBpchar) return text.substr(0, text.find_last_not_of(' ') + 1);
    return text;
}

std::string_view time_text(std::string_view text, std::string& scratch) {
    if (text == "infinity") return kLatest;
    if (text == "-infinity") return kEarliest;
    // Copied rather than computed: this is done for each event.
    constexpr std::string_view kPattern = "0000-00-00 00:00:00";
    if (!fits(text, kPattern)) {
        const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
        const bool long_year = digits > 4 && text.substr(digits).starts_with('-');
        return !long_year ? std::string_view() : text.ends_with(" BC") ? kEarliest : kLatest;
    }
    std::string_view rest = text.substr(kPattern.size());
    if (rest.ends_with(" BC") || text < "1970") return kEarliest;
    std::string_view fraction;
    if (rest.starts_with('.')) {
        fraction = rest.substr(1, std::min(rest.find_first_not_of("0123456789", 1), rest.size()) - 1);
        rest.remove_prefix(1 + fraction.size());
    }
    if (fraction.size() > 6 || (!rest.empty() && rest != "+00")) return {};
    scratch.assign(text.substr(0, kPattern.size())).append(".000000Z");
    scratch[10] = 'T';
    std::ranges::copy(fraction, scratch.begin() + kPattern.size() + 1);
    return scratch;
}

std::string event_time(WallTime time) {
    constexpr WallTime kFirst{};
    constexpr WallTime kLast = std::chrono::sys_days(std::chrono::year(10'000) / 1 / 1) - std::chrono::microseconds(1);
    return rfc3339_micros(std::clamp(time, kFirst, kLast));
}

}  // namespace deliverd::wal
