// The list itself, and what all settings have in common: their types, their texts and how they fill fields. A source
// with a name of its own, because it includes the tables, which include settings.h.
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

#include "config/table.h"

namespace deliverd::config {

namespace {

using enum SettingType;

constexpr std::string_view kFileSuffix = "_file";

/// What a value must be, and the same in the documentation's tables.
struct TypeWords {
    std::string_view must_be;
    std::string_view in_table;
};
constexpr TypeWords kTypeWords[] = {
    // in the order of SettingType
    {"text", "text"},
    {"a whole number", "whole number"},
    {"a number", "number"},
    {"true or false", "true or false"},
    {"a number of seconds", "seconds"},
    {"", ""},  // `choice`: its words say it
    {"names with a text each", "names and texts"},
    {"a list of texts", "texts"},
};

const TypeWords& words_for(SettingType type) {
    return kTypeWords[static_cast<std::size_t>(type)];
}

bool lies_below(std::string_view path, std::string_view section) {
    if (section.empty()) return true;
    if (!path.starts_with(section) || path.size() == section.size()) return false;
    // "auth.tokens[].name" lies below "auth.tokens", "server.tls_x" would not lie below "server.tls".
    const char next = path[section.size()];
    return next == '.' || next == '[';
}

bool fits(const Setting& setting, std::string_view text) {
    const SettingType type = setting.type;
    if (type == SettingType::text || type == text_map || type == text_list) return true;
    if (type == boolean) return parse_boolean(text).has_value();
    if (is_listed(setting.choices, text)) return true;
    // A word such as "never" is allowed besides the numbers: the range does not apply to it.
    if (type == choice || (type == integer && !parse_integer(text))) return false;
    const auto value = type == SettingType::seconds ? parse_seconds(text) : parse_number(text);
    return value && *value >= setting.range.least && *value <= setting.range.most;
}

/// The whole of `text` as a number.
template <typename Number>
std::optional<Number> parse_whole(std::string_view text) {
    // from_chars reads "1.5" in every locale and takes no blanks, no "+" and nothing behind the number.
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::string table_type(const Setting& setting) {
    if (setting.type == choice) return fmt::format("{}", fmt::join(setting.choices, ", "));
    std::string out(words_for(setting.type).in_table);
    if (setting.path.ends_with("_ms") && setting.type == integer) out += ", ms";
    if (setting.path.ends_with("_bytes")) out += ", bytes";
    if (!setting.choices.empty()) out += fmt::format(", or `{}`", setting.choices.front());
    return out;
}

std::string table_default(const Setting& setting) {
    std::string out = setting.fallback.empty() ? "–" : fmt::format("`{}`", setting.fallback);
    for (const auto& [kind, other] : setting.others) out += fmt::format(", {} `{}`", kind, other);
    return out;
}

std::string table_doc(const Setting& setting) {
    std::string out(setting.doc);
    if (setting.has_file_form()) out += " Secret.";
    if (!setting.only_outbox.empty()) out += fmt::format(" Only with outbox {}.", fmt::join(setting.only_outbox, ", "));
    if (!setting.only_sink.empty()) out += fmt::format(" Only with sink {}.", fmt::join(setting.only_sink, ", "));
    if (!setting.orders_environment.empty()) {
        out += fmt::format(" For orders `{}` overrides it.", setting.orders_environment);
    }
    return out;
}

}  // namespace

std::span<const Setting> settings() {
    static const std::vector<Setting> all = make_settings();  // Value::setting points into it, so it never changes
    return all;
}

const Setting* find_setting(std::string_view pattern) {
    const auto found = std::ranges::find(settings(), pattern, &Setting::path);
    return found == settings().end() ? nullptr : &*found;
}

const Setting* find_file_form(std::string_view pattern) {
    // Settings such as server.tls.cert_file end like this too, but name a file by themselves.
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
        // What follows is a name of the user's, such as a header, and may have dots of its own.
        if (setting != nullptr && setting->type == SettingType::text_map) return out;
    }
    return out;
}

std::string describe_type(const Setting& setting) {
    if (setting.type == choice) {
        return setting.choices.size() == 1 ? fmt::format("\"{}\"", setting.choices.front())
                                           : fmt::format("one of: {}", fmt::join(setting.choices, ", "));
    }
    std::string out(words_for(setting.type).must_be);
    if (setting.range.most != std::numeric_limits<double>::max()) {
        out += fmt::format(" from {:.15g} to {:.15g}", setting.range.least, setting.range.most);
    }
    if (!setting.choices.empty()) out += fmt::format(", or \"{}\"", setting.choices.front());
    return out;
}

std::string check_text(const Setting& setting, std::string_view name, std::string_view text) {
    if (fits(setting, text)) return {};
    if (setting.path == "lanes.*.relay" && text == "wal") {
        return fmt::format("{}: relay \"wal\" is not in this version; it has \"poll\"", name);
    }
    // Problems are printed and logged, so none quotes a secret, not even a wrong one.
    if (setting.secret) return fmt::format("{} must be {}", name, describe_type(setting));
    return fmt::format("{} must be {}, not \"{}\"", name, describe_type(setting), text);
}

void each_setting(std::string_view section, const std::string& path,
                  const std::function<void(const Setting& setting, const std::string& at)>& look) {
    for (const Setting& setting : settings()) {
        if (!lies_below(setting.path, section)) continue;
        const std::string rest = setting.path.substr(section.size());
        if (rest.find_first_of("*[") == std::string::npos) look(setting, path + rest);
    }
}

void fill(const Values& values, std::string_view section, const std::string& path, const Target& target) {
    const std::string outbox = values.outbox_of(path);
    const std::string sink = values.sink_of(path);
    each_setting(section, path, [&](const Setting& setting, const std::string& at) {
        if (!setting.fill || !setting.applies(outbox, sink)) return;
        // A text_map has entries instead of a value, unless it is given by a word.
        const Value* value = values.find(at);
        const Given given{value != nullptr ? value->text : std::string(setting.fallback_for(outbox, sink)),
                          values.text_map(at)};
        if (value != nullptr || !given.text.empty() || !given.entries.empty()) setting.fill(target, given);
    });
}

std::string settings_markdown() {
    std::string out;
    std::string_view section;
    for (const Setting& setting : settings()) {
        const std::string_view head = std::string_view(setting.path).substr(0, setting.path.find('.'));
        if (head != section) {
            out += fmt::format("{}### {}\n\n| setting | type | default | what it does |\n|---|---|---|---|\n",
                               section.empty() ? "" : "\n", head);
            section = head;
        }
        std::string name(setting.path);
        if (const std::size_t star = name.find('*'); star != std::string::npos) name.replace(star, 1, "NAME");
        out += fmt::format("| `{}` | {} | {} | {} |\n", name, table_type(setting), table_default(setting),
                           table_doc(setting));
    }
    return out + "\n";
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
    return parse_whole<std::int64_t>(text);
}

std::optional<double> parse_number(std::string_view text) {
    const auto value = parse_whole<double>(text);
    // "inf" and "nan" are numbers to from_chars; as a wait or a limit either would never end.
    return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<bool> parse_boolean(std::string_view text) {
    if (text == "true" || text == "yes" || text == "on") return true;
    if (text == "false" || text == "no" || text == "off") return false;
    return std::nullopt;
}

std::optional<double> parse_seconds(std::string_view text) {
    static constexpr std::pair<std::string_view, double> kUnits[] = {
        {"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    for (const auto& [suffix, length] : kUnits) {  // "ms" before "s" and "m"
        if (!text.ends_with(suffix)) continue;
        const auto value = parse_number(text.substr(0, text.size() - suffix.size()));
        if (value) return *value * length;
    }
    return parse_number(text);
}

std::vector<std::string> split_list(std::string_view text) {
    constexpr std::string_view kSpaces = " \t";
    std::vector<std::string> parts;
    while (!text.empty()) {
        std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(part.size() + 1, text.size()));
        part.remove_prefix(std::min(part.find_first_not_of(kSpaces), part.size()));
        part = part.substr(0, part.find_last_not_of(kSpaces) + 1);
        // An empty part is kept: the check of the list refuses it, because "a,,b" is a mistake.
        parts.emplace_back(part);
    }
    return parts;
}

}  // namespace deliverd::config
