// A configuration file as a plain tree that remembers lines. The only door to yaml-cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace deliverd::app {

/// One complaint about a configuration: all of them are collected, not only the first.
struct Problem {
    int line = 0;  // 0: of no line in particular
    std::string message;
};

struct Node {
    enum class Kind { nothing, scalar, map, list };
    struct Member;

    Kind kind = Kind::nothing;
    int line = 0;
    std::string text;             // scalar
    std::vector<Member> members;  // map, in the file's order, no key twice
    std::vector<Node> items;      // list
};

struct Node::Member {
    std::string name;
    int line = 0;
    Node value;
};

inline constexpr std::size_t kMaxConfigBytes = 1024 * 1024;
inline constexpr int kMaxConfigDepth = 16;
inline constexpr int kMaxConfigNodes = 20'000;  // aliases can unfold a small file into a huge tree

/// Reads YAML text. Syntax errors, duplicate keys and limits are added to `problems`; what could be read is
/// returned nevertheless, so that further problems can be found.
[[nodiscard]] Node parse_yaml(const std::string& text, std::vector<Problem>& problems);

}  // namespace deliverd::app
