#include "spool/json_members.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/json_text.h"
#include "base/text.h"

namespace deliverd::spool {

namespace {

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// RFC 8259 to the letter. Every function begins at the first character of what it reads and ends behind it.
class Scanner {
public:
    explicit Scanner(std::string_view text) : text_(text) {}

    void skip_space() {
        while (at_ < text_.size() && is_space(text_[at_])) ++at_;
    }
    [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
    [[nodiscard]] std::size_t at() const { return at_; }
    [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    [[nodiscard]] const char* fault() const { return fault_; }
    [[nodiscard]] std::string_view since(std::size_t begin) const { return text_.substr(begin, at_ - begin); }

    bool take(char c) {
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }

    bool value(std::size_t depth) {
        switch (peek()) {
            case '{':
                return object(depth);
            case '[':
                return array(depth);
            case '"':
                return string();
            case 't':
                return word("true");
            case 'f':
                return word("false");
            case 'n':
                return word("null");
            default:
                return number();
        }
    }

    bool string() {
        if (!take('"')) return fail("a string was expected");
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '"') {
                ++at_;
                return true;
            }
            if (static_cast<unsigned char>(c) < 0x20) return fail("a control character stands in a string");
            ++at_;
            if (c == '\\' && !escape()) return false;
        }
        return fail("it ends within a string");
    }

    bool fail(const char* why) {
        if (fault_ == nullptr) fault_ = at_end() ? "it ends too early" : why;
        return false;
    }

private:
    bool escape() {
        const char c = peek();
        if (at_end()) return fail("it ends within a string");
        ++at_;
        if (c != 'u') return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos || fail("a wrong escape");
        for (int i = 0; i < 4; ++i, ++at_) {
            if (hex_digit(peek()) < 0) return fail("a wrong escape");
        }
        return true;
    }

    bool digits() {
        if (!is_digit(peek())) return fail("a value was expected");
        while (is_digit(peek())) ++at_;
        return true;
    }

    bool number() {
        take('-');
        if (!take('0') && !digits()) return false;
        if (take('.') && !digits()) return false;
        if (peek() == 'e' || peek() == 'E') {
            ++at_;
            if (!take('+')) take('-');
            return digits();
        }
        return true;
    }

    bool word(std::string_view expected) {
        if (!text_.substr(at_).starts_with(expected)) return fail("a value was expected");
        at_ += expected.size();
        return true;
    }

    bool array(std::size_t depth) {
        if (depth == 0) return fail("it is nested too deeply");
        ++at_;
        skip_space();
        if (take(']')) return true;
        while (true) {
            skip_space();
            if (!value(depth - 1)) return false;
            skip_space();
            if (take(']')) return true;
            if (!take(',')) return fail("a comma or the end of an array was expected");
        }
    }

    bool object(std::size_t depth) {
        if (depth == 0) return fail("it is nested too deeply");
        ++at_;
        skip_space();
        if (take('}')) return true;
        while (true) {
            skip_space();
            if (!string()) return false;
            skip_space();
            if (!take(':')) return fail("a colon was expected");
            skip_space();
            if (!value(depth - 1)) return false;
            skip_space();
            if (take('}')) return true;
            if (!take(',')) return fail("a comma or the end of an object was expected");
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
    const char* fault_ = nullptr;
};

std::string words(const Scanner& scanner) {
    return std::string("is not JSON: ") +
           (scanner.fault() == nullptr ? "something was not expected" : scanner.fault()) + " at byte " +
           std::to_string(scanner.at());
}

std::optional<std::string> utf8_fault(std::string_view text) {
    const auto wrong = find_invalid_utf8(text);
    if (!wrong) return std::nullopt;
    return "is not UTF-8 at byte " + std::to_string(*wrong);
}

void append_utf8(std::string& out, std::uint32_t c) {
    if (c < 0x80) {
        out.push_back(static_cast<char>(c));
    } else if (c < 0x800) {
        out.push_back(static_cast<char>(0xC0U | (c >> 6U)));
        out.push_back(static_cast<char>(0x80U | (c & 0x3FU)));
    } else if (c < 0x10000) {
        out.push_back(static_cast<char>(0xE0U | (c >> 12U)));
        out.push_back(static_cast<char>(0x80U | ((c >> 6U) & 0x3FU)));
        out.push_back(static_cast<char>(0x80U | (c & 0x3FU)));
    } else {
        out.push_back(static_cast<char>(0xF0U | (c >> 18U)));
        out.push_back(static_cast<char>(0x80U | ((c >> 12U) & 0x3FU)));
        out.push_back(static_cast<char>(0x80U | ((c >> 6U) & 0x3FU)));
        out.push_back(static_cast<char>(0x80U | (c & 0x3FU)));
    }
}

/// The four hex digits at `at`, if that is what stands there.
std::optional<std::uint32_t> unit_at(std::string_view text, std::size_t at) {
    if (at + 4 > text.size()) return std::nullopt;
    std::uint32_t unit = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
        const int digit = hex_digit(text[i]);
        if (digit < 0) return std::nullopt;
        unit = unit * 16 + static_cast<std::uint32_t>(digit);
    }
    return unit;
}

/// Behind "\u" at `at`; answers where it ends.
std::size_t append_unicode(std::string& out, std::string_view text, std::size_t at) {
    constexpr std::uint32_t kReplacement = 0xFFFD;
    const std::uint32_t high = unit_at(text, at).value_or(kReplacement);
    at += 4;
    const bool is_high = high >= 0xD800 && high < 0xDC00;
    if (is_high && text.substr(at).starts_with("\\u")) {
        const std::uint32_t low = unit_at(text, at + 2).value_or(0);
        if (low >= 0xDC00 && low < 0xE000) {
            append_utf8(out, 0x10000 + ((high - 0xD800) << 10U) + (low - 0xDC00));
            return at + 6;
        }
    }
    append_utf8(out, high >= 0xD800 && high < 0xE000 ? kReplacement : high);
    return at;
}

char unescaped(char c) {
    switch (c) {
        case 'b':
            return '\b';
        case 'f':
            return '\f';
        case 'n':
            return '\n';
        case 'r':
            return '\r';
        case 't':
            return '\t';
        default:
            return c;
    }
}

bool is_named(const Member& member, std::string_view name) {
    const std::string_view inner = member.name.substr(1, member.name.size() - 2);
    if (inner == name) return true;
    return inner.find('\\') != std::string_view::npos && string_of(member.name) == name;
}

}  // namespace

Failure unreadable(const std::string& why) {
    return permanent("unreadable", why);
}

Result<Members> split_object(std::string_view text) {
    if (const auto wrong = utf8_fault(text)) return unreadable(*wrong);
    Scanner scanner(text);
    Members members;
    scanner.skip_space();
    if (!scanner.take('{')) return unreadable("is not a JSON object");
    scanner.skip_space();
    bool open = !scanner.take('}');
    while (open) {
        Member member;
        scanner.skip_space();
        const std::size_t name = scanner.at();
        if (!scanner.string()) return unreadable(words(scanner));
        member.name = scanner.since(name);
        scanner.skip_space();
        if (!scanner.take(':')) {
            scanner.fail("a colon was expected");
            return unreadable(words(scanner));
        }
        scanner.skip_space();
        const std::size_t value = scanner.at();
        if (!scanner.value(kMaxJsonDepth - 1)) return unreadable(words(scanner));
        member.value = scanner.since(value);
        members.push_back(member);
        scanner.skip_space();
        open = scanner.take(',');
        if (!open && !scanner.take('}')) {
            scanner.fail("a comma or the end of the object was expected");
            return unreadable(words(scanner));
        }
    }
    scanner.skip_space();
    if (!scanner.at_end()) return unreadable("has more behind its JSON object at byte " + std::to_string(scanner.at()));
    return members;
}

std::optional<std::string> json_fault(std::string_view text) {
    if (const auto wrong = utf8_fault(text)) return wrong;
    Scanner scanner(text);
    scanner.skip_space();
    if (!scanner.value(kMaxJsonDepth)) return words(scanner);
    scanner.skip_space();
    if (!scanner.at_end())
        return "is not one JSON value: there is more behind it at byte " + std::to_string(scanner.at());
    return std::nullopt;
}

const Member* find_member(const Members& members, std::string_view name) {
    const auto found =
        std::find_if(members.rbegin(), members.rend(), [&](const Member& m) { return is_named(m, name); });
    return found == members.rend() ? nullptr : &*found;
}

std::optional<std::string> string_of(std::string_view raw) {
    if (raw.size() < 2 || raw.front() != '"' || raw.back() != '"') return std::nullopt;
    const std::string_view inner = raw.substr(1, raw.size() - 2);
    std::string out;
    out.reserve(inner.size());
    for (std::size_t at = 0; at < inner.size();) {
        if (inner[at] != '\\' || at + 1 == inner.size()) {
            out.push_back(inner[at++]);
        } else if (inner[at + 1] == 'u') {
            at = append_unicode(out, inner, at + 2);
        } else {
            out.push_back(unescaped(inner[at + 1]));
            at += 2;
        }
    }
    return out;
}

std::optional<double> number_of(std::string_view raw) {
    if (raw.empty() || (raw.front() != '-' && !is_digit(raw.front()))) return std::nullopt;
    double number = 0;
    const auto read = std::from_chars(raw.data(), raw.data() + raw.size(), number);
    if (read.ec != std::errc() || read.ptr != raw.data() + raw.size()) return std::nullopt;
    return number;
}

std::string with_values(const Members& members, const NewValues& values) {
    std::string out = "{";
    std::vector<bool> written(values.size(), false);
    const auto append = [&out](std::string_view raw_name, std::string_view value) {
        if (out.size() > 1) out.push_back(',');
        out.append(raw_name).append(":").append(value);
    };
    for (const Member& member : members) {
        const auto found =
            std::find_if(values.begin(), values.end(), [&](const auto& v) { return is_named(member, v.first); });
        if (found == values.end()) {
            append(member.name, member.value);
            continue;
        }
        const auto index = static_cast<std::size_t>(found - values.begin());
        if (!written[index] && !found->second.empty()) append(member.name, found->second);
        written[index] = true;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (written[i] || values[i].second.empty()) continue;
        std::string name;
        append_json_string(name, values[i].first);
        append(name, values[i].second);
    }
    return out + "}";
}

}  // namespace deliverd::spool
