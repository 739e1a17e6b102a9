#include "deadletter/kafka/topic_pattern.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace deliverd::deadletter {

namespace {

constexpr std::size_t kMaxPatternBytes = 249;  // of a topic's name
constexpr std::string_view kSpecial = R"(.[]{}()\*+?^$|)";

bool is_of_a_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
}

}  // namespace

std::string subscription_of(std::string_view pattern) {
    std::string regex = "^";
    for (const char c : pattern) {
        if (c == '*') {
            regex += ".*";
        } else if (c == '?') {
            regex += '.';
        } else {
            if (kSpecial.find(c) != kSpecial.npos) regex += '\\';
            regex += c;
        }
    }
    return regex + "$";
}

Result<void> check_topic_pattern(std::string_view pattern) {
    if (pattern.empty()) {
        return permanent("bad_argument", "the pattern of the dead-letter topics is empty: set one such as *.dlq.v1");
    }
    const bool possible = std::ranges::all_of(pattern, [](char c) { return is_of_a_name(c) || c == '*' || c == '?'; });
    if (!possible || pattern.size() > kMaxPatternBytes) {
        return permanent("bad_argument",
                         fmt::format("no topic's name can match '{}': names have up to {} letters, digits, '.', '_' "
                                     "and '-'; '*' stands for any number of them, '?' for one",
                                     shorten(one_line(pattern), 128), kMaxPatternBytes));
    }
    return {};
}

}  // namespace deliverd::deadletter
