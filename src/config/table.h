// How the tables declare settings. The type of the field implies the type of the setting: a std::string is a text, a
// Duration is seconds, a vector of strings is a list, and so on. A setting whose default is empty leaves its field
// alone unless it is given, so that std::optional shows whether it was. Several settings may fill one field when no
// lane can have more than one of them: the longest wait between polls has a name of its own for each kind of outbox.
#pragma once

#include <algorithm>
#include <concepts>
#include <tuple>
#include <type_traits>

#include "base/assert.h"
#include "base/clock.h"
#include "config/setting.h"

/// The fields of the target `it` that a setting fills, all with the same value.
#define FIELD(...) [](auto& it) { return std::tie(__VA_ARGS__); }

namespace deliverd::config {

struct Range {
    double least = 0;
    double most = std::numeric_limits<double>::max();
};

/// What was read of a text that check_text() has seen.
template <typename Value>
Value checked(std::optional<Value> value) {
    ASSERT(value.has_value());
    return *value;
}

/// The setting's type for a field of each type, and the value it is filled with.
template <typename Field>
struct Reads;
template <>
struct Reads<std::string> {
    static constexpr auto kType = SettingType::text;
    static const std::string& from(const Given& given) { return given.text; }
};
template <>
struct Reads<bool> {
    static constexpr auto kType = SettingType::boolean;
    static bool from(const Given& given) { return checked(parse_boolean(given.text)); }
};
template <std::integral Whole>
struct Reads<Whole> {
    static constexpr auto kType = SettingType::integer;
    static Whole from(const Given& given) { return static_cast<Whole>(checked(parse_integer(given.text))); }
};
template <>
struct Reads<double> {
    static constexpr auto kType = SettingType::number;
    static double from(const Given& given) { return checked(parse_number(given.text)); }
};
template <>
struct Reads<Duration> {
    static constexpr auto kType = SettingType::seconds;
    static Duration from(const Given& given) { return from_seconds(checked(parse_seconds(given.text))); }
};
template <>
struct Reads<std::vector<std::string>> {
    static constexpr auto kType = SettingType::text_list;
    static std::vector<std::string> from(const Given& given) { return split_list(given.text); }
};
template <>
struct Reads<TextMap> {
    static constexpr auto kType = SettingType::text_map;
    static const TextMap& from(const Given& given) { return given.entries; }
};
template <>
struct Reads<Given> {
    static constexpr auto kType = SettingType::text_map;
    static const Given& from(const Given& given) { return given; }
};
template <typename Field>
struct Reads<std::optional<Field>> : Reads<Field> {};

/// Adds settings below one section to the list.
template <typename Into>
class Table {
    template <typename Get>
    using FieldOf = std::remove_cvref_t<std::tuple_element_t<0, std::invoke_result_t<Get, Into&>>>;
    template <typename Field>
    struct Plain : std::type_identity<Field> {};
    template <typename Field>
    struct Plain<std::optional<Field>> : std::type_identity<Field> {};
    using View = std::string_view;

public:
    /// `section` is "server." or "lanes.*.".
    Table(std::vector<Setting>& list, View section) : list_(list), section_(section) {}

    /// The same section, for lanes with one of these kinds of outbox or types of sink: "memory|events".
    [[nodiscard]] Table for_outbox(View kinds) const {
        Table some = *this;
        some.only_outbox_ = kinds;
        return some;
    }
    [[nodiscard]] Table for_sink(View types) const {
        Table some = *this;
        some.only_sink_ = types;
        return some;
    }

    /// By the field's type.
    template <typename Get>
    Setting& add(View path, Get get, View fallback, View doc, Range range = {}) {
        using How = Reads<FieldOf<Get>>;
        const auto set = [](const Given& given, auto& field) { field = How::from(given); };
        return bind({path, How::kType, fallback, doc, range}, get, set);
    }

    /// Seconds, or "never": then the field stays empty.
    template <typename Get>
    Setting& seconds_or_never(View path, Get get, View fallback, View doc, Range range) {
        const auto set = [](const Given& given, std::optional<Duration>& field) {
            const auto value = parse_seconds(given.text);
            field = value ? std::optional(from_seconds(*value)) : std::nullopt;
        };
        return bind({path, SettingType::seconds, fallback, doc, range}, get, set).or_one_of("never");
    }

    /// A text that is one of `words`.
    template <typename Get>
    Setting& one_of(View words, View path, Get get, View fallback, View doc) {
        const auto set = [](const Given& given, auto& field) { field = given.text; };
        return bind({path, SettingType::choice, fallback, doc, {}}, get, set).or_one_of(words);
    }

    /// One of these names, each for a value.
    template <typename Get>
    Setting& choice(View path, Get get, std::vector<std::pair<View, typename Plain<FieldOf<Get>>::type>> names,
                    View fallback, View doc) {
        std::string words;
        for (const auto& [name, value] : names) words.append(words.empty() ? "" : "|").append(name);
        const auto set = [names = std::move(names)](const Given& given, auto& field) {
            const auto found = std::ranges::find(names, given.text, [](const auto& named) { return named.first; });
            ASSERT(found != names.end());
            field = found->second;
        };
        return bind({path, SettingType::choice, fallback, doc, {}}, get, set).or_one_of(words);
    }

    /// A list that is kept as one text with commas.
    template <typename Get>
    Setting& list(View path, Get get, View fallback, View doc) {
        const auto set = [](const Given& given, auto& field) { field = given.text; };
        return bind({path, SettingType::text_list, fallback, doc, {}}, get, set);
    }

    /// Seconds in a field that counts them.
    template <typename Get>
    Setting& seconds(View path, Get get, View fallback, View doc, Range range) {
        const auto set = [](const Given& given, double& field) { field = checked(parse_seconds(given.text)); };
        return bind({path, SettingType::seconds, fallback, doc, range}, get, set);
    }

    /// A whole number of milliseconds in a Duration.
    template <typename Get>
    Setting& millis(View path, Get get, View fallback, View doc, Range range) {
        const auto set = [](const Given& given, Duration& field) {
            field = std::chrono::milliseconds(checked(parse_integer(given.text)));
        };
        return bind({path, SettingType::integer, fallback, doc, range}, get, set);
    }

    /// A number of `unit` in a Duration.
    template <typename Get>
    Setting& number_of(Duration unit, View path, Get get, View fallback, View doc, Range range) {
        const auto set = [unit](const Given& given, Duration& field) {
            field = from_seconds(checked(parse_number(given.text)) * to_seconds(unit));
        };
        return bind({path, SettingType::number, fallback, doc, range}, get, set);
    }

    /// Checked, and without effect.
    Setting& accept(SettingType type, View path, View fallback, View doc, Range range = {}) {
        Setting setting{std::string(section_).append(path), type, fallback, doc, nullptr, range.least, range.most};
        setting.only_outbox = only_outbox_;
        setting.only_sink = only_sink_;
        return list_.emplace_back(std::move(setting));
    }

private:
    struct Words {
        View path;
        SettingType type;
        View fallback;
        View doc;
        Range range;
    };

    template <typename Get, typename Set>
    Setting& bind(const Words& words, Get get, Set set) {
        Setting& setting = accept(words.type, words.path, words.fallback, words.doc, words.range);
        setting.fill = [get, set = std::move(set)](const Target& target, const Given& given) {
            std::apply([&](auto&... fields) { (set(given, fields), ...); }, get(*std::get<Into*>(target)));
        };
        return setting;
    }

    std::vector<Setting>& list_;
    View section_;
    View only_outbox_{};
    View only_sink_{};
};

}  // namespace deliverd::config
