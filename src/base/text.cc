#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace deliverd {
namespace {

constexpr std::string_view kEllipsis = "\u2026";
constexpr std::string_view kReplacement = "\uFFFD";

/// Length of the valid UTF-8 character at the start of `bytes`; 0 when there is none.
std::size_t utf8_length(std::string_view bytes) {
    const auto byte = [bytes](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return 1;
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || bytes.size() < length) return 0;
    // The second byte's range refuses overlong forms, surrogates and what lies beyond U+10FFFF.
    const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (byte(1) < low || byte(1) > high) return 0;
    for (std::size_t i = 2; i < length; ++i) {
        if ((byte(i) & 0xC0U) != 0x80) return 0;
    }
    return length;
}

/// Of a character, not its first byte.
bool is_continuation(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80;
}

/// Two neighbouring letters swapped are one edit: the commonest slip of the fingers.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before_last(b.size() + 1);
    std::vector<std::size_t> last(b.size() + 1);
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        before_last.swap(last);
        last.swap(row);
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
            // Otherwise "prot" would be two edits from "port", which is half of the word.
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = std::min(row[j], before_last[j - 2] + 1);
            }
        }
    }
    return row[b.size()];
}

/// Reads RFC 3339 from left to right; a step that does not fit makes `ok` false for good.
struct Rfc3339Reader {
    std::string_view rest;
    bool ok = true;

    int number(std::size_t digits) {
        int value = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            if (i >= rest.size() || !is_digit(rest[i])) ok = false;
            if (!ok) return 0;
            value = value * 10 + (rest[i] - '0');
        }
        rest.remove_prefix(digits);
        return value;
    }
    bool take(std::string_view any_of) {
        if (rest.empty() || any_of.find(rest.front()) == std::string_view::npos) return false;
        rest.remove_prefix(1);
        return true;
    }
    void expect(std::string_view any_of) { ok = take(any_of) && ok; }

    std::chrono::microseconds fraction() {
        if (!take(".")) return {};
        if (rest.empty() || !is_digit(rest.front())) ok = false;
        std::int64_t micros = 0;
        std::int64_t unit = 100'000;
        while (!rest.empty() && is_digit(rest.front())) {
            micros += (rest.front() - '0') * unit;
            // From the seventh digit on it is 0: further digits are read and dropped.
            unit /= 10;
            rest.remove_prefix(1);
        }
        return std::chrono::microseconds(micros);
    }

    std::chrono::minutes offset() {
        if (take("Zz")) return {};
        const bool west = !rest.empty() && rest.front() == '-';
        expect("+-");
        const int hours = number(2);
        const int minutes = take(":") ? number(2) : 0;  // PostgreSQL writes +00
        if (hours > 23 || minutes > 59) ok = false;
        const std::chrono::minutes span = std::chrono::hours(hours) + std::chrono::minutes(minutes);
        return west ? -span : span;
    }
};

/// Beyond ASCII: C1, of which a terminal takes U+009B for ESC [, and the separators of lines and paragraphs.
bool is_control(std::string_view character) {
    return (character.size() == 2 && character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0) ||
           character == "\u2028" || character == "\u2029";
}

void append_hex(std::string& out, char c, std::string_view digits) {
    const auto byte = static_cast<unsigned char>(c);
    out.push_back(digits[byte >> 4U]);
    out.push_back(digits[byte & 0xFU]);
}

}  // namespace

std::string ascii_lower(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = ascii_lower(c);
    return out;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, [](char x, char y) { return ascii_lower(x) == ascii_lower(y); });
}

std::string hex_text(std::string_view bytes) {
    std::string out;
    out.reserve(2 * bytes.size());
    for (const char c : bytes) append_hex(out, c, "0123456789abcdef");
    return out;
}

std::string url_encoded(std::string_view text) {
    return percent_encoded(text,
                           [](char c) { return is_alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~'; });
}

std::string percent_encoded(std::string_view text, bool (*plain)(char)) {
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        if (plain(c)) {
            out.push_back(c);
        } else {
            out.push_back('%');
            append_hex(out, c, "0123456789ABCDEF");
        }
    }
    return out;
}

std::optional<std::string> percent_decoded(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out.push_back(text[i]);
            continue;
        }
        if (i + 2 >= text.size()) return std::nullopt;
        const auto high = hex_value(text[i + 1]);
        const auto low = hex_value(text[i + 2]);
        if (!high || !low) return std::nullopt;
        out.push_back(static_cast<char>(*high * 16 + *low));
        i += 2;
    }
    return out;
}

std::optional<std::size_t> find_invalid_utf8(std::string_view bytes) {
    std::size_t at = 0;
    while (at < bytes.size()) {
        const std::size_t length = utf8_length(bytes.substr(at));
        if (length == 0) return at;
        at += length;
    }
    return std::nullopt;
}

std::size_t count_characters(std::string_view text) {
    return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, is_continuation));
}

std::string shorten(std::string_view text, std::size_t max_bytes) {
    if (text.size() <= max_bytes) return std::string(text);
    const bool room_for_ellipsis = max_bytes >= kEllipsis.size();
    std::size_t cut = room_for_ellipsis ? max_bytes - kEllipsis.size() : max_bytes;
    while (cut > 0 && is_continuation(text[cut])) --cut;
    std::string out(text.substr(0, cut));
    if (room_for_ellipsis) out += kEllipsis;
    return out;
}

std::string one_line(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size());
    for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t length = utf8_length(bytes.substr(at));
        const auto byte = static_cast<unsigned char>(bytes[at]);
        if (length == 0) {
            out += kReplacement;
        } else if (byte < 0x20 || byte == 0x7F || is_control(bytes.substr(at, length))) {
            out.push_back(' ');
        } else {
            out += bytes.substr(at, length);
        }
        at += std::max<std::size_t>(length, 1);
    }
    return out;
}

std::string valid_utf8(std::string_view bytes) {
    std::string out;
    out.reserve(bytes.size());
    while (const auto bad = find_invalid_utf8(bytes)) {
        out += bytes.substr(0, *bad);
        out += kReplacement;
        bytes.remove_prefix(*bad + 1);
    }
    out += bytes;
    return out;
}

std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates) {
    constexpr std::size_t kMaxDistance = 3;
    std::optional<std::string_view> best;
    std::size_t best_distance = kMaxDistance + 1;
    for (const std::string_view candidate : candidates) {
        // In braces: of two temporaries it would answer references.
        const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
        if (longer - shorter >= best_distance) continue;  // also keeps a very long word from costing anything
        const std::size_t distance = edit_distance(word, candidate);
        // Below half of the word, because every short word is near every other.
        if (distance < best_distance && 2 * distance < candidate.size()) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

std::string rfc3339_millis(WallTime time) {
    const auto millis = std::chrono::floor<std::chrono::milliseconds>(time);
    const auto day = std::chrono::floor<std::chrono::days>(millis);
    const std::chrono::year_month_day date(day);
    const std::chrono::hh_mm_ss clock(millis - day);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                       clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

std::string rfc3339_micros(WallTime time) {
    // By hand, because a formatting library is slow and this is made for each event.
    using namespace std::chrono;
    const auto day = floor<days>(time);
    const year_month_day date(day);
    const hh_mm_ss clock(floor<microseconds>(time - day));
    std::string out = "0000-00-00T00:00:00.000000Z";
    const auto put = [&out](std::size_t end, std::int64_t value) {
        for (std::size_t at = end; value > 0; value /= 10) out[--at] = static_cast<char>('0' + value % 10);
    };
    put(4, static_cast<int>(date.year()));
    put(7, static_cast<unsigned>(date.month()));
    put(10, static_cast<unsigned>(date.day()));
    put(13, clock.hours().count());
    put(16, clock.minutes().count());
    put(19, clock.seconds().count());
    put(26, clock.subseconds().count());
    return out;
}

std::optional<WallTime> foreign_time(std::int64_t millis) {
    using std::chrono::sys_days;
    constexpr std::chrono::sys_time<std::chrono::milliseconds> kFirst = sys_days(std::chrono::year(1) / 1 / 1);
    constexpr std::chrono::sys_time<std::chrono::milliseconds> kBehind = sys_days(std::chrono::year(10'000) / 1 / 1);
    // Compared as milliseconds: as the microseconds of WallTime a large number would overflow.
    const std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(millis)};
    if (time < kFirst || time >= kBehind) return std::nullopt;
    return time;
}

std::optional<WallTime> parse_rfc3339(std::string_view text) {
    Rfc3339Reader in{text};
    const std::chrono::year year(in.number(4));
    in.expect("-");
    const std::chrono::month month(static_cast<unsigned>(in.number(2)));
    in.expect("-");
    const std::chrono::day day(static_cast<unsigned>(in.number(2)));
    in.expect("Tt ");
    const int hour = in.number(2);
    in.expect(":");
    const int minute = in.number(2);
    in.expect(":");
    const int second = in.number(2);
    const auto fraction = in.fraction();
    const auto offset = in.offset();

    const std::chrono::year_month_day date(year, month, day);
    // 60 is a leap second, which calendar time here counts as the next minute's first.
    if (!in.ok || !in.rest.empty() || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
    return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
           std::chrono::seconds(second) + fraction - offset;
}

}  // namespace deliverd
