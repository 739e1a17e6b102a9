#include "base/json_check.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/json_reader.h"

namespace deliverd {
namespace {

/// PostgreSQL has no numbers with more.
constexpr std::size_t kMostDigits = 131'072;
constexpr std::size_t kMaxExponent = std::numeric_limits<std::int32_t>::max();

/// The size of the number's exponent, without its sign.
std::size_t exponent_of(std::string_view number) {
    const std::size_t e = std::min(number.find_first_of("eE"), number.size());
    const std::size_t digits = std::min(number.find_first_not_of("eE+-", e), number.size());
    std::size_t exponent = 0;
    const auto read = std::from_chars(number.data() + digits, number.data() + number.size(), exponent);
    return read.ec == std::errc::result_out_of_range ? std::numeric_limits<std::size_t>::max() : exponent;
}

/// `exponents`: the sum of the exponents' sizes.
std::optional<std::string> find_problem(std::string_view text, JsonKind kind, std::size_t& exponents) {
    const auto check = [&](const JsonEvent& event) -> Result<void> {
        if (kind == JsonKind::object && event.depth == 0 && !event.raw.starts_with('{')) {
            return permanent("wrong_kind", "is not a JSON object");
        }
        if (event.text.find('\0') != std::string_view::npos) {
            return permanent("nul", "has the character U+0000, which PostgreSQL cannot hold in JSON, in the string");
        }
        if (event.token == JsonToken::number) {
            const std::size_t exponent = exponent_of(event.raw);
            if (exponent > kMaxExponent) return permanent("exponent", "has a number with an exponent beyond 2^31");
            // Each can become that many zeros: 81 kB of 1e131000 were a gigabyte in PostgreSQL.
            exponents += std::min(exponent, kMostDigits);
        }
        return {};
    };
    const auto read = read_json(text, check);
    if (read) return std::nullopt;
    // The other codes are this file's own: their messages already say what the text "is" or "has".
    return (read.error().code == "bad_json" ? "is not JSON: " : "") + read.error().message;
}

}  // namespace

std::optional<std::string> json_problem(std::string_view text, JsonKind kind) {
    std::size_t exponents = 0;
    return find_problem(text, kind, exponents);
}

bool is_compact_json(std::string_view text) {
    std::size_t exponents = 0;
    return !find_problem(text, JsonKind::any, exponents) && exponents <= kMaxSwellingBytes;
}

}  // namespace deliverd
