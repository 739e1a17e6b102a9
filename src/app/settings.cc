#include "app/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "app/settings_tables.h"

namespace deliverd::app {

namespace {

using enum SettingType;

constexpr std::string_view kFileSuffix = "_file";

bool lies_below(std::string_view path, std::string_view section) {
    if (section.empty()) return true;
    if (!path.starts_with(section) || path.size() == section.size()) return false;
    const char next = path[section.size()];
    return next == '.' || next == '[';
}

std::string join_choices(std::string_view choices) {
    std::string text(choices);
    std::size_t at = 0;
    while ((at = text.find('|', at)) != std::string::npos) text.replace(at, 1, ", ");
    return text;
}

std::string range_text(const Setting& setting) {
    if (setting.most == std::numeric_limits<double>::max()) return "";
    return fmt::format(" from {:.15g} to {:.15g}", setting.least, setting.most);
}

std::string table_type(const Setting& setting) {
    switch (setting.type) {
        case text:
            return "text";
        case integer:
            return setting.unit.empty() ? "whole number" : fmt::format("whole number, {}", setting.unit);
        case number:
            return "number";
        case boolean:
            return "true or false";
        case SettingType::seconds:
            return setting.choices.empty() ? "seconds" : fmt::format("seconds, or `{}`", setting.choices);
        case choice:
            return join_choices(setting.choices);
        case text_map:
            return setting.choices.empty() ? "names and texts"
                                           : fmt::format("names and texts, or `{}`", setting.choices);
        case text_list:
            return "texts";
    }
    return "";
}

std::string table_default(const Setting& setting) {
    std::string out = setting.fallback.empty() ? "–" : fmt::format("`{}`", setting.fallback);
    for (std::string_view rest = setting.others; !rest.empty();) {
        const std::string_view other = rest.substr(0, rest.find('|'));
        rest.remove_prefix(std::min(other.size() + 1, rest.size()));
        const std::size_t equals = other.find('=');
        out += fmt::format(", {} `{}`", other.substr(0, equals), other.substr(equals + 1));
    }
    return out;
}

std::string table_doc(const Setting& setting) {
    std::string out(setting.doc);
    if (setting.secret && setting.type == text) out += " Secret.";
    if (!setting.only_outbox.empty()) out += fmt::format(" Only with outbox {}.", join_choices(setting.only_outbox));
    if (!setting.only_sink.empty()) out += fmt::format(" Only with sink {}.", join_choices(setting.only_sink));
    if (!setting.orders_environment.empty()) {
        out += fmt::format(" For orders `{}` wins over it.", setting.orders_environment);
    }
    return out;
}

}  // namespace

std::span<const Setting> settings() {
    static const std::vector<Setting> all = [] {
        std::vector<Setting> joined;
        for (const std::span<const Setting> part :
             {general_settings(), lane_settings(), sink_settings(), spool_settings()}) {
            joined.insert(joined.end(), part.begin(), part.end());
        }
        return joined;
    }();
    return all;
}

bool is_listed(std::string_view words, std::string_view word) {
    while (true) {
        const std::size_t end = words.find('|');
        if (words.substr(0, end) == word) return true;
        if (end == std::string_view::npos) return false;
        words.remove_prefix(end + 1);
    }
}

const Setting* find_setting(std::string_view pattern) {
    const auto found = std::ranges::find(settings(), pattern, &Setting::path);
    return found == settings().end() ? nullptr : &*found;
}

const Setting* find_file_form(std::string_view pattern) {
    if (!pattern.ends_with(kFileSuffix)) return nullptr;
    const Setting* setting = find_setting(pattern.substr(0, pattern.size() - kFileSuffix.size()));
    return setting != nullptr && setting->secret && setting->type == text ? setting : nullptr;
}

bool is_section(std::string_view pattern) {
    return std::ranges::any_of(settings(), [&](const Setting& s) { return lies_below(s.path, pattern); });
}

std::vector<std::string> names_in(std::string_view section) {
    std::vector<std::string> names;
    const auto add = [&](std::string name) {
        if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    };
    for (const Setting& setting : settings()) {
        if (!lies_below(setting.path, section)) continue;
        std::string_view rest = setting.path.substr(section.size());
        if (rest.starts_with('.')) rest.remove_prefix(1);
        const std::size_t end = rest.find_first_of(".[");
        add(std::string(rest.substr(0, end)));
        if (end == std::string_view::npos && setting.secret && setting.type == text) add(std::string(rest) + "_file");
    }
    return names;
}

std::string describe_type(const Setting& setting) {
    switch (setting.type) {
        case text:
            return "text";
        case integer:
            return "a whole number" + range_text(setting);
        case number:
            return "a number" + range_text(setting);
        case boolean:
            return "true or false";
        case SettingType::seconds:
            return "a number of seconds" + range_text(setting) +
                   (setting.choices.empty() ? "" : fmt::format(", or \"{}\"", setting.choices));
        case choice:
            return setting.choices.find('|') == std::string_view::npos ? fmt::format("\"{}\"", setting.choices)
                                                                       : "one of: " + join_choices(setting.choices);
        case text_map:
            return setting.choices.empty() ? "names with a text each"
                                           : fmt::format("names with a text each, or \"{}\"", setting.choices);
        case text_list:
            return "a list of texts";
    }
    return "";
}

std::string settings_markdown() {
    std::string out;
    std::string section;
    for (const Setting& setting : settings()) {
        const std::string_view head = setting.path.substr(0, setting.path.find('.'));
        if (head != section) {
            section = head;
            out += fmt::format("### {}\n\n| setting | type | default | what it does |\n|---|---|---|---|\n", section);
        }
        std::string name(setting.path);
        if (const std::size_t star = name.find('*'); star != std::string::npos) name.replace(star, 1, "NAME");
        out += fmt::format("| `{}` | {} | {} | {} |\n", name, table_type(setting), table_default(setting),
                           table_doc(setting));
        const bool last = &setting == &settings().back();
        if (last || (&setting + 1)->path.substr(0, (&setting + 1)->path.find('.')) != section) out += "\n";
    }
    return out;
}

}  // namespace deliverd::app
