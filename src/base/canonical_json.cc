#include "base/canonical_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "base/json_reader.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/try.h"

namespace deliverd {
namespace {

/// UTF-8 compares like UTF-16 except that characters beyond U+FFFF (lead byte F0 and up), which UTF-16
/// writes with surrogates (D800…), come before U+E000…U+FFFF (lead bytes EE and EF).
int utf16_rank(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 0xEE || byte == 0xEF ? byte + 0x10 : byte;
}

bool utf16_less(std::string_view a, std::string_view b) {
    return std::ranges::lexicographical_compare(a, b, {}, utf16_rank, utf16_rank);
}

std::vector<const CanonicalMember*> by_key(std::span<const CanonicalMember> members) {
    std::vector<const CanonicalMember*> order;
    order.reserve(members.size());
    for (const CanonicalMember& member : members) order.push_back(&member);
    std::ranges::sort(order, utf16_less, &CanonicalMember::key);
    return order;
}

/// An object or array whose end has not been read.
struct OpenValue {
    bool is_object = false;
    std::string elements;                  // of an array: "[" and its elements, with commas between them
    std::vector<CanonicalMember> members;  // of an object, as written
};

/// Builds canonical forms from the inside out: an object can be sorted once its last member is known.
class Canonicaliser {
public:
    /// `only_members`: the text must be an object, and its own members may be numbers that no double holds.
    explicit Canonicaliser(bool only_members) : only_members_(only_members) {}

    std::string form;                      // of the whole text
    std::vector<CanonicalMember> members;  // of the object that it is

    /// A JsonListener.
    Result<void> operator()(const JsonEvent& event) {
        if (only_members_ && event.depth == 0 && event.token != JsonToken::object_begin &&
            event.token != JsonToken::object_end) {
            return permanent("bad_json", "an object is expected");
        }
        switch (event.token) {
            case JsonToken::object_begin:
                open_.emplace_back().is_object = true;
                return {};
            case JsonToken::array_begin:
                open_.emplace_back().elements = "[";
                return {};
            case JsonToken::key:
                open_.back().members.push_back({std::string(event.text), {}, {}});
                return {};
            case JsonToken::string: {
                std::string canonical;
                append_json_string(canonical, event.text);
                return add(std::move(canonical), event.raw);
            }
            case JsonToken::number:
                return add_number(event);
            case JsonToken::literal:
                return add(std::string(event.raw), event.raw);
            case JsonToken::array_end:
                open_.back().elements.push_back(']');
                return add(close().elements, event.raw);
            case JsonToken::object_end:
                return add_object(event.raw);
        }
        return {};
    }

private:
    OpenValue close() {
        OpenValue value = std::move(open_.back());
        open_.pop_back();
        return value;
    }

    Result<void> add(std::string canonical, std::string_view raw) {
        if (open_.empty()) {
            form = std::move(canonical);
        } else if (open_.back().is_object) {
            open_.back().members.back().canonical = std::move(canonical);
            open_.back().members.back().value = raw;
        } else {
            std::string& elements = open_.back().elements;
            if (elements.size() > 1) {
                (elements += ',') += canonical;
            } else {  // the first one's text is moved, so that deep arrays cost their length, not length times depth
                elements = std::move(canonical.insert(0, 1, '['));
            }
        }
        return {};
    }

    Result<void> add_number(const JsonEvent& event) {
        double number = 0;
        const auto read = std::from_chars(event.raw.data(), event.raw.data() + event.raw.size(), number);
        // Digests are over doubles, as RFC 8785 says; the text that is stored and sent keeps the number as written.
        if (read.ec == std::errc() && std::isfinite(number)) return add(ecmascript_number(number), event.raw);
        // So that "qty" can be named as the wrong field, instead of a byte.
        if (only_members_ && event.depth == 1) return add({}, event.raw);
        return permanent("bad_json", "a number outside the range of a double");
    }

    Result<void> add_object(std::string_view raw) {
        OpenValue object = close();
        const auto order = by_key(object.members);
        const auto twice = std::ranges::adjacent_find(order, {}, &CanonicalMember::key);
        if (twice != order.end()) {
            // RFC 8785 forbids it, and receivers disagree which of the two counts.
            return permanent(codes::kDuplicateKey, fmt::format("key \"{}\" twice in the object that ends",
                                                               shorten(one_line((*twice)->key), 64)));
        }
        if (only_members_ && open_.empty()) {
            members = std::move(object.members);
            return {};
        }
        return add(canonical_object(object.members), raw);
    }

    bool only_members_;
    std::vector<OpenValue> open_;
};

}  // namespace

Result<std::string> canonical_json(std::string_view json) {
    Canonicaliser canonicaliser(false);
    TRY(read_json(json, std::ref(canonicaliser)));
    return std::move(canonicaliser.form);
}

Result<std::vector<CanonicalMember>> canonical_members(std::string_view json) {
    Canonicaliser canonicaliser(true);
    TRY(read_json(json, std::ref(canonicaliser)));
    return std::move(canonicaliser.members);
}

std::string canonical_object(std::span<const CanonicalMember> members) {
    std::string out = "{";
    for (const CanonicalMember* member : by_key(members)) {
        if (out.size() > 1) out.push_back(',');
        append_json_string(out, member->key);
        out.push_back(':');
        out += member->canonical;
    }
    return out + "}";
}

std::string ecmascript_number(double value) {
    ASSERT(std::isfinite(value));
    if (value == 0) return "0";  // also -0

    // d.ddde±xx with the fewest digits that read back as `value`.
    std::array<char, 32> buffer{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), std::abs(value), std::chars_format::scientific).ptr;
    const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
    const std::size_t e = text.find('e');
    std::string digits(text.substr(0, 1));
    if (e > 1) digits += text.substr(2, e - 2);
    int exponent = 0;
    const std::size_t exponent_begin = e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(text.data() + exponent_begin, text.data() + text.size(), exponent);

    // ECMAScript, Number::toString: n is the place of the decimal point, k the number of digits.
    const int n = exponent + 1;
    const int k = static_cast<int>(digits.size());
    std::string out = value < 0 ? "-" : "";
    if (n >= k && n <= 21) {
        out += digits + std::string(static_cast<std::size_t>(n - k), '0');
    } else if (n > 0 && n <= 21) {
        out += digits.substr(0, static_cast<std::size_t>(n)) + "." + digits.substr(static_cast<std::size_t>(n));
    } else if (n > -6 && n <= 0) {
        out += "0." + std::string(static_cast<std::size_t>(-n), '0') + digits;
    } else {
        out += digits.substr(0, 1);
        if (k > 1) out += "." + digits.substr(1);
        out += n > 0 ? "e+" : "e-";
        out += std::to_string(std::abs(n - 1));
    }
    return out;
}

}  // namespace deliverd
