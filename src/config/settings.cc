#include "config/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "config/settings_tables.h"

namespace deliverd::config {

namespace {

using enum SettingType;

constexpr std::string_view kFileSuffix = "_file";

bool lies_below(std::string_view path, std::string_view section) {
    if (section.empty()) return true;
    if (!path.starts_with(section) || path.size() == section.size()) return false;
    const char next = path[section.size()];
    return next == '.' || next == '[';
}

std::string table_type(const Setting& setting) {
    switch (setting.type) {
        case text:
            return "text";
        case integer:
            return setting.path.ends_with("_ms")      ? "whole number, ms"
                   : setting.path.ends_with("_bytes") ? "whole number, bytes"
                                                      : "whole number";
        case number:
            return "number";
        case boolean:
            return "true or false";
        case SettingType::seconds:
            return setting.choices.empty() ? "seconds" : fmt::format("seconds, or `{}`", setting.choices);
        case choice:
            return join_words(setting.choices, ", ");
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
    for (const auto& [kind, other] : setting.others) out += fmt::format(", {} `{}`", kind, other);
    return out;
}

std::string table_doc(const Setting& setting) {
    std::string out(setting.doc);
    if (setting.has_file_form()) out += " Secret.";
    if (!setting.only_outbox.empty())
        out += fmt::format(" Only with outbox {}.", join_words(setting.only_outbox, ", "));
    if (!setting.only_sink.empty()) out += fmt::format(" Only with sink {}.", join_words(setting.only_sink, ", "));
    if (!setting.orders_environment.empty()) {
        out += fmt::format(" For orders `{}` overrides it.", setting.orders_environment);
    }
    return out;
}

}  // namespace

std::span<const Setting> settings() {
    static const std::vector<Setting> all = [] {  // Value::setting points into it, so it never changes
        std::vector<Setting> list;
        add_server_settings({list, "app."}, {list, "server."});
        add_database_settings({list, "database."});
        add_auth_settings({list, "auth."}, {list, "auth.tokens[]."});
        add_log_settings({list, "log."});
        add_dead_letter_settings({list, "kafka."}, {list, "dead_letters."});
        add_upkeep_settings({list, "orders."}, {list, "upkeep."});
        add_lane_settings({list, "lanes.*."});
        add_sink_settings({list, "lanes.*.sink."});
        add_spool_settings({list, "spools.*."});
        return list;
    }();
    return all;
}

const Setting* find_setting(std::string_view pattern) {
    const auto found = std::ranges::find(settings(), pattern, &Setting::path);
    return found == settings().end() ? nullptr : &*found;
}

const Setting* find_file_form(std::string_view pattern) {
    if (!pattern.ends_with(kFileSuffix)) return nullptr;
    const Setting* setting = find_setting(pattern.substr(0, pattern.size() - kFileSuffix.size()));
    return setting != nullptr && setting->has_file_form() ? setting : nullptr;
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
        std::string_view rest = std::string_view(setting.path).substr(section.size());
        if (rest.starts_with('.')) rest.remove_prefix(1);
        const std::size_t end = rest.find_first_of(".[");
        add(std::string(rest.substr(0, end)));
        if (end == std::string_view::npos && setting.has_file_form()) add(std::string(rest) + "_file");
    }
    return names;
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

void fill(const Values& values, std::string_view section, const std::string& path, const Target& target) {
    const std::string outbox = values.outbox_of(path);
    const std::string sink = values.sink_of(path);
    for (const Setting& setting : settings()) {
        if (!setting.fill || !lies_below(setting.path, section) || !setting.applies(outbox, sink)) continue;
        if (section.empty() && setting.path.find_first_of("*[") != std::string::npos) continue;
        const std::string at = path + setting.path.substr(section.size());
        const Value* value = values.find(at);
        const Given given{value != nullptr ? value->text : std::string(setting.fallback_for(outbox, sink)),
                          values.text_map(at)};
        if (value != nullptr || !given.text.empty() || !given.entries.empty()) setting.fill(target, given);
    }
}

std::string settings_markdown() {
    std::string out;
    std::string section;
    for (const Setting& setting : settings()) {
        const std::string_view head = std::string_view(setting.path).substr(0, setting.path.find('.'));
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

}  // namespace deliverd::config
