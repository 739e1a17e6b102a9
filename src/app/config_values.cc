#include "app/config_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

namespace deliverd::app {

namespace {

constexpr std::size_t kMaxSecretBytes = 64 * 1024;

bool fits(const Setting& setting, std::string_view text) {
    std::optional<double> value;
    switch (setting.type) {
        case SettingType::integer:
            if (const auto whole = parse_integer(text)) value = static_cast<double>(*whole);
            break;
        case SettingType::number:
            value = parse_number(text);
            break;
        case SettingType::seconds:
            if (!setting.choices.empty() && is_listed(setting.choices, text)) return true;
            value = parse_seconds(text);
            break;
        case SettingType::boolean:
            return parse_boolean(text).has_value();
        case SettingType::choice:
            return is_listed(setting.choices, text);
        case SettingType::text:
        case SettingType::text_map:
        case SettingType::text_list:
            return true;
    }
    return value.has_value() && *value >= setting.least && *value <= setting.most;
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<double> parse_number(std::string_view text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
    return value;
}

std::optional<bool> parse_boolean(std::string_view text) {
    if (text == "true" || text == "yes" || text == "on") return true;
    if (text == "false" || text == "no" || text == "off") return false;
    return std::nullopt;
}

std::optional<double> parse_seconds(std::string_view text) {
    struct Unit {
        std::string_view suffix;
        double seconds;
    };
    static constexpr Unit kUnits[] = {{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    for (const Unit& unit : kUnits) {
        if (!text.ends_with(unit.suffix)) continue;
        const auto value = parse_number(text.substr(0, text.size() - unit.suffix.size()));
        if (value) return *value * unit.seconds;
    }
    return parse_number(text);
}

std::string check_text(const Setting& setting, std::string_view path, std::string_view text) {
    if (fits(setting, text)) return {};
    if (setting.path == "lanes.*.relay" && text == "wal") {
        return fmt::format("{}: relay \"wal\" is not in this version; it has \"poll\"", path);
    }
    if (setting.secret) return fmt::format("{} must be {}", path, describe_type(setting));
    return fmt::format("{} must be {}, not \"{}\"", path, describe_type(setting), text);
}

std::string pattern_of(std::string_view path) {
    std::string out;
    while (!path.empty()) {
        const std::size_t end = std::min(path.find('.'), path.size());
        std::string_view part = path.substr(0, end);
        path.remove_prefix(end == path.size() ? end : end + 1);
        const std::size_t bracket = part.find('[');
        const std::string section = out;
        if (!out.empty()) out += '.';
        const std::vector<std::string> names = names_in(section);
        out += names.size() == 1 && names.front() == "*" ? "*" : std::string(part.substr(0, bracket));
        if (bracket != std::string_view::npos) out += "[]";
        const Setting* setting = find_setting(out);
        if (setting != nullptr && setting->type == SettingType::text_map) return out;
    }
    return out;
}

const Value* Values::find(const std::string& path) const {
    const auto found = values_.find(path);
    return found == values_.end() ? nullptr : &found->second;
}

int Values::line_of(const std::string& path) const {
    if (const Value* value = find(path)) return value->line;
    const auto section = sections_.find(path);
    return section == sections_.end() ? 0 : section->second;
}

std::string Values::text(const std::string& path) const {
    const Value* value = find(path);
    return value != nullptr ? value->text : std::string(fallback_of(path));
}

std::string_view Values::fallback_of(const std::string& path) const {
    const Setting* setting = find_setting(pattern_of(path));
    if (setting == nullptr) return {};
    const std::string outbox = outbox_of(path);
    const std::string sink = sink_of(path);
    for (std::string_view rest = setting->others; !rest.empty();) {
        const std::string_view other = rest.substr(0, rest.find('|'));
        rest.remove_prefix(std::min(other.size() + 1, rest.size()));
        const std::size_t equals = other.find('=');
        const std::string_view kind = other.substr(0, equals);
        if (kind == outbox || kind == sink) return other.substr(equals + 1);
    }
    return setting->fallback;
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

std::int64_t Values::integer(const std::string& path) const {
    return parse_integer(text(path)).value_or(0);
}

double Values::number(const std::string& path) const {
    return parse_number(text(path)).value_or(0);
}

bool Values::boolean(const std::string& path) const {
    return parse_boolean(text(path)).value_or(false);
}

Duration Values::seconds(const std::string& path) const {
    return from_seconds(parse_seconds(text(path)).value_or(0));
}

std::optional<Duration> Values::seconds_or_never(const std::string& path) const {
    const auto value = parse_seconds(text(path));
    return value ? std::optional(from_seconds(*value)) : std::nullopt;
}

Duration Values::millis(const std::string& path) const {
    return std::chrono::milliseconds(integer(path));
}

std::vector<std::pair<std::string, std::string>> Values::text_map(const std::string& path) const {
    std::vector<std::pair<std::string, std::string>> out;
    const std::string prefix = path + ".";
    for (const auto& [name, value] : values_) {
        if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), value.text);
    }
    return out;
}

std::vector<std::string> Values::text_list(const std::string& path) const {
    std::vector<std::string> out;
    const std::string joined = text(path);
    for (std::string_view rest = joined; !rest.empty();) {
        const std::string_view item = rest.substr(0, rest.find(','));
        rest.remove_prefix(std::min(item.size() + 1, rest.size()));
        out.emplace_back(item);
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

}  // namespace deliverd::app
