#include "base/canonical_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/text.h"

namespace deliverd {
namespace {

/// UTF-8 compares like UTF-16 except that characters beyond U+FFFF (lead byte F0 and up), which UTF-16
/// writes with surrogates (D800…), come before U+E000…U+FFFF (lead bytes EE and EF).
int utf16_rank(unsigned char byte) {
    return byte == 0xEE || byte == 0xEF ? byte + 0x10 : byte;
}

bool utf16_less(std::string_view a, std::string_view b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        return utf16_rank(static_cast<unsigned char>(x)) < utf16_rank(static_cast<unsigned char>(y));
    });
}

void append_utf8(std::string& out, std::uint32_t code_point) {
    const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (code_point < 0x80) {
        put(code_point);
    } else if (code_point < 0x800) {
        put(0xC0U | (code_point >> 6U));
        put(0x80U | (code_point & 0x3FU));
    } else if (code_point < 0x10000) {
        put(0xE0U | (code_point >> 12U));
        put(0x80U | ((code_point >> 6U) & 0x3FU));
        put(0x80U | (code_point & 0x3FU));
    } else {
        put(0xF0U | (code_point >> 18U));
        put(0x80U | ((code_point >> 12U) & 0x3FU));
        put(0x80U | ((code_point >> 6U) & 0x3FU));
        put(0x80U | (code_point & 0x3FU));
    }
}

std::vector<const JsonMember*> by_key(std::span<const JsonMember> members) {
    std::vector<const JsonMember*> order;
    order.reserve(members.size());
    for (const JsonMember& member : members) order.push_back(&member);
    std::sort(order.begin(), order.end(),
              [](const JsonMember* a, const JsonMember* b) { return utf16_less(a->key, b->key); });
    return order;
}

void append_object(std::string& out, std::span<const JsonMember> members) {
    out.push_back('{');
    bool first = true;
    for (const JsonMember* member : by_key(members)) {
        if (!first) out.push_back(',');
        first = false;
        append_json_string(out, member->key);
        out.push_back(':');
        out += member->canonical;
    }
    out.push_back('}');
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// One pass over the text. Every step answers false after it has noted the first error; the recursion is
/// no deeper than kMaxJsonDepth.
class Canonicaliser {
public:
    explicit Canonicaliser(std::string_view json) : json_(json) {}

    Result<std::string> run() {
        std::string out;
        out.reserve(json_.size());
        if (is_utf8() && value(out)) expect_end();
        if (error_) return Failure(std::move(*error_));
        return out;
    }

    Result<std::vector<JsonMember>> run_members() {
        std::vector<JsonMember> out;
        top_numbers_may_overflow_ = true;
        if (is_utf8()) {
            skip_space();
            if (take('{')) {
                depth_ = 1;
                if (members(out)) expect_end();
            } else {
                fail("an object expected");
            }
        }
        if (error_) return Failure(std::move(*error_));
        return out;
    }

private:
    bool is_utf8() {
        const auto bad = find_invalid_utf8(json_);
        if (!bad) return true;
        at_ = *bad;
        return fail("invalid UTF-8");
    }
    void expect_end() {
        skip_space();
        if (at_ != json_.size()) fail("something follows the JSON value");
    }

    bool fail(std::string_view what, std::string_view code = "bad_json") {
        error_ = Error{ErrorClass::permanent, std::string(code),
                       std::string(what) + " at byte " + std::to_string(at_) + " of the JSON text"};
        return false;
    }

    [[nodiscard]] char peek() const { return at_ < json_.size() ? json_[at_] : '\0'; }
    void skip_space() {
        while (at_ < json_.size() && std::string_view(" \t\n\r").find(json_[at_]) != std::string_view::npos) ++at_;
    }
    bool take(char c) {
        if (peek() != c || at_ == json_.size()) return false;
        ++at_;
        return true;
    }

    bool value(std::string& out) {
        skip_space();
        if (at_ == json_.size()) return fail("a value is missing");
        switch (json_[at_]) {
            case '{':
                return nested(&Canonicaliser::object, out);
            case '[':
                return nested(&Canonicaliser::array, out);
            case '"': {
                std::string text;
                if (!string(text)) return false;
                append_json_string(out, text);
                return true;
            }
            case 't':
                return literal("true", out);
            case 'f':
                return literal("false", out);
            case 'n':
                return literal("null", out);
            default:
                return number(out);
        }
    }

    bool nested(bool (Canonicaliser::*parse)(std::string&), std::string& out) {
        if (depth_ == kMaxJsonDepth) return fail("nesting deeper than " + std::to_string(kMaxJsonDepth) + " levels");
        ++depth_;
        ++at_;  // the opening bracket
        if (!(this->*parse)(out)) return false;
        --depth_;
        return true;
    }

    bool array(std::string& out) {
        out.push_back('[');
        skip_space();
        if (!take(']')) {
            while (true) {
                if (!value(out)) return false;
                skip_space();
                if (take(']')) break;
                if (!take(',')) return fail("',' or ']' expected");
                out.push_back(',');
            }
        }
        out.push_back(']');
        return true;
    }

    bool object(std::string& out) {
        std::vector<JsonMember> found;
        if (!members(found)) return false;
        append_object(out, found);
        return true;
    }

    bool members(std::vector<JsonMember>& out) {
        skip_space();
        if (!take('}')) {
            while (true) {
                if (!member(out.emplace_back())) return false;
                skip_space();
                if (take('}')) break;
                if (!take(',')) return fail("',' or '}' expected");
            }
        }
        const auto order = by_key(out);
        const auto twice = std::adjacent_find(
            order.begin(), order.end(), [](const JsonMember* a, const JsonMember* b) { return a->key == b->key; });
        if (twice == order.end()) return true;
        return fail("key \"" + shorten(one_line((*twice)->key), 64) + "\" twice in the object that ends",
                    "json_duplicate_key");
    }

    bool member(JsonMember& into) {
        skip_space();
        if (peek() != '"') return fail("a key in double quotes expected");
        if (!string(into.key)) return false;
        skip_space();
        if (!take(':')) return fail("':' expected");
        skip_space();
        const std::size_t begin = at_;
        if (!value(into.canonical)) return false;
        into.value = json_.substr(begin, at_ - begin);
        return true;
    }

    bool literal(std::string_view word, std::string& out) {
        if (json_.substr(at_, word.size()) != word) return fail("not a JSON value");
        at_ += word.size();
        out += word;
        return true;
    }

    bool string(std::string& out) {
        ++at_;  // the opening quote
        while (at_ < json_.size()) {
            const char c = json_[at_];
            if (static_cast<unsigned char>(c) < 0x20) return fail("a control character inside a string");
            if (c == '"') {
                ++at_;
                return true;
            }
            if (c == '\\') {
                if (!escape(out)) return false;
            } else {
                out.push_back(c);
                ++at_;
            }
        }
        return fail("a string without its closing quote");
    }

    bool escape(std::string& out) {
        constexpr std::string_view kLetters = "\"\\/bfnrt";
        constexpr std::string_view kMeaning = "\"\\/\b\f\n\r\t";
        const std::string_view rest = json_.substr(at_ + 1);
        if (rest.starts_with('u')) return unicode_escape(out);
        const std::size_t which = rest.empty() ? std::string_view::npos : kLetters.find(rest.front());
        if (which == std::string_view::npos) return fail("an unknown escape");
        out.push_back(kMeaning[which]);
        at_ += 2;
        return true;
    }

    bool unicode_escape(std::string& out) {
        const auto first = code_unit(at_);
        if (!first) return fail("\\u without four hex digits");
        std::uint32_t code_point = *first;
        std::size_t length = 6;
        if (code_point >= 0xD800 && code_point <= 0xDFFF) {
            const auto second = code_unit(at_ + 6);
            if (code_point >= 0xDC00 || !second || *second < 0xDC00 || *second > 0xDFFF) {
                return fail("a lone surrogate");
            }
            code_point = 0x10000 + ((code_point - 0xD800) << 10U) + (*second - 0xDC00);
            length = 12;
        }
        append_utf8(out, code_point);
        at_ += length;
        return true;
    }

    /// The four hex digits of the `\uXXXX` that begins at `offset`.
    [[nodiscard]] std::optional<std::uint32_t> code_unit(std::size_t offset) const {
        if (offset + 6 > json_.size() || json_[offset] != '\\' || json_[offset + 1] != 'u') return std::nullopt;
        const char* begin = json_.data() + offset + 2;
        std::uint32_t unit = 0;
        const auto read = std::from_chars(begin, begin + 4, unit, 16);
        if (read.ec != std::errc() || read.ptr != begin + 4) return std::nullopt;
        return unit;
    }

    bool digits() {
        if (!is_digit(peek())) return false;
        while (is_digit(peek())) ++at_;
        return true;
    }

    bool number(std::string& out) {
        const std::size_t begin = at_;
        take('-');
        const bool leading_zero = peek() == '0';
        const std::size_t integer = at_;
        if (!digits()) return fail("not a JSON value");
        if (leading_zero && at_ - integer > 1) return fail("a number with a leading zero");
        if (take('.') && !digits()) return fail("a digit expected after the decimal point");
        if (take('e') || take('E')) {
            if (!take('+')) take('-');
            if (!digits()) return fail("a digit expected in the exponent");
        }
        double number = 0;
        const auto read = std::from_chars(json_.data() + begin, json_.data() + at_, number);
        if (read.ec != std::errc() || !std::isfinite(number)) {
            if (top_numbers_may_overflow_ && depth_ == 1) return true;
            at_ = begin;
            return fail("a number outside the range of a double");
        }
        out += ecmascript_number(number);
        return true;
    }

    std::string_view json_;
    std::size_t at_ = 0;
    std::size_t depth_ = 0;
    bool top_numbers_may_overflow_ = false;
    std::optional<Error> error_;
};

}  // namespace

Result<std::string> canonical_json(std::string_view json) {
    return Canonicaliser(json).run();
}

Result<std::vector<JsonMember>> json_members(std::string_view json) {
    return Canonicaliser(json).run_members();
}

std::string canonical_object(std::span<const JsonMember> members) {
    std::string out;
    append_object(out, members);
    return out;
}

std::string ecmascript_number(double value) {
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

    // ECMAScript, Number::toString: n is where the decimal point stands, k how many digits there are.
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
