#include "deadletter/topic_pattern.h"

#include <algorithm>

namespace deliverd::deadletter {

bool matches_pattern(std::string_view topic, std::string_view pattern) noexcept {
    // On a mismatch the last `*` takes one character more: at most |topic| * |pattern| steps.
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

bool is_topic_name(std::string_view name) noexcept {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
               c == '-';
    };
    return !name.empty() && name.size() <= kMaxTopicBytes && name != "." && name != ".." &&
           std::ranges::all_of(name, allowed);
}

bool is_dead_letter_topic(std::string_view topic, std::string_view pattern) noexcept {
    return topic.ends_with(kDeadLetterSuffix) || matches_pattern(topic, pattern);
}

}  // namespace deliverd::deadletter
