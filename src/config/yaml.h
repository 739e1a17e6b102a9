// A configuration file as a plain tree that remembers lines. Only yaml.cc uses yaml-cpp, whose headers are large.
#pragma once

#include <string>
#include <vector>

namespace deliverd::config {

/// One problem of a configuration. All are collected, so that a user can correct them in one go.
struct Problem {
    int line = 0;  // 0: of no line
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

/// Reads YAML text. Adds syntax errors, duplicate keys and exceeded limits to `problems`, and returns what could be
/// read all the same, so that the caller finds further problems.
[[nodiscard]] Node parse_yaml(const std::string& text, std::vector<Problem>& problems);

}  // namespace deliverd::config
