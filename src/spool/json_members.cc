#include "spool/json_members.h"

#include <algorithm>
#include <charconv>

#include "base/json_text.h"
#include "base/text.h"

namespace deliverd::spool {

Failure unreadable(const std::string& why) {
    return permanent("unreadable", why);
}

Result<Members> split_object(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || text[first] != '{') return unreadable("is not a JSON object");
    auto members = deliverd::json_members(text, LoneSurrogates::replace);
    if (!members) return unreadable("is not JSON: " + members.error().message);
    return members;
}

std::optional<std::string> json_fault(std::string_view text) {
    const auto ignore = [](const JsonEvent& /*event*/) -> Result<void> { return {}; };
    const auto read = read_json(text, ignore, LoneSurrogates::replace);
    if (read) return std::nullopt;
    return "is not JSON: " + read.error().message;
}

const JsonMember* find_member(const Members& members, std::string_view name) {
    const auto found = std::find_if(members.rbegin(), members.rend(), [&](const auto& m) { return m.key == name; });
    return found == members.rend() ? nullptr : &*found;
}

std::optional<std::string> string_of(std::string_view raw) {
    return json_string(raw, LoneSurrogates::replace);
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
    for (const JsonMember& member : members) {
        const auto found = std::ranges::find(values, member.key, &NewValues::value_type::first);
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
