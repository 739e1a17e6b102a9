// Which topics a caller may see and act on. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deliverd::store {
struct Letter;
}

namespace deliverd::api {

struct Scope {
    /// Patterns, as deadletter::matches_pattern() has them. None: not limited. An empty list: no topic at all.
    std::optional<std::vector<std::string>> topics{};

    [[nodiscard]] bool is_limited() const { return topics.has_value(); }

    /// `topic` is what a path has for {topic}: a dead-letter topic, an original one, a lane's or a spool's name.
    [[nodiscard]] bool allows(std::string_view topic) const;

    /// Whether the topic it was read from is allowed, or its original one, which for a lane or a spool is the name. So
    /// every letter that a listing by an allowed topic finds is allowed too.
    [[nodiscard]] bool allows(const store::Letter& letter) const;
};

}  // namespace deliverd::api
