#include "config/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace deliverd::config {

namespace {

std::string range_text(const Setting& setting) {
    if (setting.most == std::numeric_limits<double>::max()) return "";
    return fmt::format(" from {:.15g} to {:.15g}", setting.least, setting.most);
}

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

bool Setting::applies(std::string_view outbox, std::string_view sink) const {
    const auto fits = [](std::string_view only, std::string_view kind) {
        return only.empty() || kind.empty() || is_listed(only, kind);
    };
    return fits(only_outbox, outbox) && fits(only_sink, sink);
}

std::string_view Setting::fallback_for(std::string_view outbox, std::string_view sink) const {
    for (const auto& [kind, text] : others) {
        if (kind == outbox || kind == sink) return text;
    }
    return fallback;
}

bool is_listed(std::string_view words, std::string_view word) {
    while (true) {
        const std::size_t end = words.find('|');
        if (words.substr(0, end) == word) return true;
        if (end == std::string_view::npos) return false;
        words.remove_prefix(end + 1);
    }
}

std::string join_words(std::string_view words, std::string_view between) {
    std::string text(words);
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += between.size()) {
        text.replace(at, 1, between);
    }
    return text;
}

std::string describe_type(const Setting& setting) {
    switch (setting.type) {
        case SettingType::text:
            return "text";
        case SettingType::integer:
            return "a whole number" + range_text(setting);
        case SettingType::number:
            return "a number" + range_text(setting);
        case SettingType::boolean:
            return "true or false";
        case SettingType::seconds:
            return "a number of seconds" + range_text(setting) +
                   (setting.choices.empty() ? "" : fmt::format(", or \"{}\"", setting.choices));
        case SettingType::choice:
            return setting.choices.find('|') == std::string::npos ? fmt::format("\"{}\"", setting.choices)
                                                                  : "one of: " + join_words(setting.choices, ", ");
        case SettingType::text_map:
            return setting.choices.empty() ? "names with a text each"
                                           : fmt::format("names with a text each, or \"{}\"", setting.choices);
        case SettingType::text_list:
            return "a list of texts";
    }
    return "";
}

std::string check_text(const Setting& setting, std::string_view name, std::string_view text) {
    if (fits(setting, text)) return {};
    if (setting.path == "lanes.*.relay" && text == "wal") {
        return fmt::format("{}: relay \"wal\" is not in this version; it has \"poll\"", name);
    }
    if (setting.secret) return fmt::format("{} must be {}", name, describe_type(setting));
    return fmt::format("{} must be {}, not \"{}\"", name, describe_type(setting), text);
}

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

std::vector<std::string> split_list(std::string_view text) {
    constexpr std::string_view kSpaces = " \t";
    std::vector<std::string> parts;
    while (!text.empty()) {
        std::string_view part = text.substr(0, text.find(','));
        text.remove_prefix(std::min(part.size() + 1, text.size()));
        part.remove_prefix(std::min(part.find_first_not_of(kSpaces), part.size()));
        part = part.substr(0, part.find_last_not_of(kSpaces) + 1);
        parts.emplace_back(part);
    }
    return parts;
}

}  // namespace deliverd::config
