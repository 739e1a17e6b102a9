#include "deadletter/topic_pattern.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace deliverd::deadletter {
namespace {

constexpr std::string_view kSpecial = R"(.[]{}()\*+?^$|)";  // in a regular expression

bool is_of_a_name(char c) {
    return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
}

}  // namespace

bool matches_pattern(std::string_view topic, std::string_view pattern) noexcept {
    // On a mismatch the last `*` takes one more character: at most |topic| * |pattern| steps.
    constexpr std::size_t kNone = std::string_view::npos;
    std::size_t t = 0;
    std::size_t p = 0;
    std::size_t star = kNone;
    std::size_t star_end = 0;
    while (t < topic.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            star_end = t;
        } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == topic[t])) {
            ++p;
            ++t;
        } else if (star != kNone) {
            p = star + 1;
            t = ++star_end;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == kNone;
}

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
        return bad_argument("the pattern of the dead-letter topics is empty: set one such as *.dlq.v1");
    }
    const bool possible = std::ranges::all_of(pattern, [](char c) { return is_of_a_name(c) || c == '*' || c == '?'; });
    if (!possible || pattern.size() > kMaxTopicBytes) {
        return bad_argument(
            fmt::format("no topic's name can match '{}': names have up to {} letters, digits, '.', '_' "
                        "and '-'; '*' matches any number of them, '?' one",
                        shorten(one_line(pattern), 128), kMaxTopicBytes));
    }
    return {};
}

bool is_topic_name(std::string_view name) noexcept {
    return !name.empty() && name.size() <= kMaxTopicBytes && name != "." && name != ".." &&
           std::ranges::all_of(name, is_of_a_name);
}

bool is_dead_letter_topic(std::string_view topic, std::string_view pattern) noexcept {
    return topic.ends_with(kDeadLetterSuffix) || matches_pattern(topic, pattern);
}

}  // namespace deliverd::deadletter
