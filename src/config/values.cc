#include "config/values.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace deliverd::config {

namespace {

constexpr std::size_t kMaxSecretBytes = 64 * 1024;

}  // namespace

const Value* Values::find(const std::string& path) const {
    const auto found = values_.find(path);
    return found == values_.end() ? nullptr : &found->second;
}

int Values::line_of(std::string path) const {
    for (;;) {
        if (const Value* value = find(path)) return value->line;
        if (const auto section = sections_.find(path); section != sections_.end()) return section->second;
        // A setting that is missing is a problem of the section that it is missing in.
        const std::size_t end = path.find_last_of(".[");
        if (end == std::string::npos) return 0;
        path.resize(end);
    }
}

std::string Values::of_lane(std::string_view path, std::string_view setting) const {
    constexpr std::string_view kLanes = "lanes.";
    if (!path.starts_with(kLanes)) return {};
    const Value* value = find(std::string(path.substr(0, path.find('.', kLanes.size()))).append(setting));
    return value == nullptr ? std::string() : value->text;
}

TextMap Values::text_map(const std::string& path) const {
    TextMap out;
    const std::string prefix = path + ".";
    for (const auto& [name, value] : values_) {
        if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), value.text);
    }
    return out;
}

std::vector<std::string> Values::names_below(const std::string& section) const {
    std::vector<std::pair<int, std::string>> found;
    const std::string prefix = section + ".";
    for (const auto& [path, line] : sections_) {
        if (path.starts_with(prefix) && path.find('.', prefix.size()) == std::string::npos) {
            found.emplace_back(line, path.substr(prefix.size()));
        }
    }
    // By line: the map is in the order of names, and lanes are started and listed as the file has them.
    std::ranges::sort(found);
    std::vector<std::string> names;
    for (auto& [line, name] : found) names.push_back(std::move(name));
    return names;
}

std::size_t Values::entries(const std::string& list) const {
    std::size_t count = 0;
    while (sections_.contains(fmt::format("{}[{}]", list, count))) ++count;
    return count;
}

bool Problems::are_about(const std::string& path) const {
    return std::ranges::any_of(list_, [&](const Problem& problem) { return problem.message.starts_with(path); });
}

Result<std::string> read_secret_file(const std::string& path) {
    // The standard does not promise that a stream sets errno: without this, an old error would be reported.
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) return permanent("unreadable", fmt::format("{}: {}", path, std::strerror(errno)));
    // One byte more than allowed tells a file that is too long from one that just fits.
    std::string content(kMaxSecretBytes + 1, '\0');
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    // A folder can be opened like a file; only reading it fails.
    if (file.bad() || (file.gcount() == 0 && !file.eof())) {
        return permanent("unreadable", fmt::format("{}: cannot be read", path));
    }
    content.resize(static_cast<std::size_t>(file.gcount()));
    if (content.size() > kMaxSecretBytes) {
        return permanent("unreadable", fmt::format("{}: longer than {} bytes", path, kMaxSecretBytes));
    }
    // Editors and `echo` end a file with one line break that is not part of the secret; any other may be.
    if (content.ends_with('\n')) content.pop_back();
    if (content.ends_with('\r')) content.pop_back();
    return content;
}

}  // namespace deliverd::config
