#include "config/values.h"

#include <fmt/format.h>

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

int Values::line_of(const std::string& path) const {
    if (const Value* value = find(path)) return value->line;
    const auto section = sections_.find(path);
    return section == sections_.end() ? 0 : section->second;
}

std::string Values::outbox_of(std::string_view path) const {
    constexpr std::string_view kLanes = "lanes.";
    if (!path.starts_with(kLanes)) return {};
    const Value* outbox = find(std::string(path.substr(0, path.find('.', kLanes.size()))) + ".outbox");
    return outbox == nullptr ? std::string() : outbox->text;
}

std::string Values::sink_of(std::string_view path) const {
    constexpr std::string_view kLanes = "lanes.";
    if (!path.starts_with(kLanes)) return {};
    const Value* type = find(std::string(path.substr(0, path.find('.', kLanes.size()))) + ".sink.type");
    return type == nullptr ? std::string() : type->text;
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
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) return permanent("unreadable", fmt::format("{}: {}", path, std::strerror(errno)));
    std::string content(kMaxSecretBytes + 1, '\0');
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    if (file.bad() || (file.gcount() == 0 && !file.eof())) {
        return permanent("unreadable", fmt::format("{}: cannot be read", path));
    }
    content.resize(static_cast<std::size_t>(file.gcount()));
    if (content.size() > kMaxSecretBytes) {
        return permanent("unreadable", fmt::format("{}: longer than {} bytes", path, kMaxSecretBytes));
    }
    if (content.ends_with('\n')) content.pop_back();
    if (content.ends_with('\r')) content.pop_back();
    return content;
}

}  // namespace deliverd::config
