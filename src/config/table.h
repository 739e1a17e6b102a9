// How the tables declare settings. The type of the field implies the type of the setting: a std::string is a text, a
// Duration is seconds, a vector of strings is a list, and so on. A setting whose default is empty leaves its field
// alone unless it is given, so that std::optional shows whether it was. Several settings may fill one field when no
// lane can have more than one of them: the longest wait between polls has a name of its own for each kind of outbox.
#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>

#include "base/assert.h"
#include "base/clock.h"
#include "config/finish.h"
#include "config/settings.h"

/// The fields of the target `it` that a setting fills, all with the same value.
#define FIELD(...) [](auto& it) { return std::tie(__VA_ARGS__); }

namespace deliverd::config {

inline constexpr std::string_view kNever = "never";

/// A default as a user would write it, and others for lanes with this outbox or this sink.
struct Fallback {
    // NOLINTNEXTLINE(google-explicit-constructor): nearly every setting has one default, written as a text alone
    Fallback(const char* all, decltype(Setting::others) others_ = {}) : usual(all), others(std::move(others_)) {}

    std::string_view usual;
    decltype(Setting::others) others;
};

/// A Duration that a setting counts in units.
struct Unit {
    SettingType type;
    std::chrono::duration<double, Duration::period> length;
};
inline constexpr Unit kMillis{SettingType::integer, std::chrono::milliseconds(1)};
inline constexpr Unit kExactMillis{SettingType::number, std::chrono::milliseconds(1)};
inline constexpr Unit kMinutes{SettingType::number, std::chrono::minutes(1)};
inline constexpr Unit kHours{SettingType::number, std::chrono::hours(1)};

/// What was read of a text that check_text() has seen.
template <typename Value>
Value checked(std::optional<Value> value) {
    ASSERT(value.has_value());
    return *value;
}

/// The setting's type for a field of each type, and how it is filled. A std::optional<Duration> may be "never".
struct FieldKinds {
    static constexpr SettingType type(const std::string*) { return SettingType::text; }
    static constexpr SettingType type(const bool*) { return SettingType::boolean; }
    static constexpr SettingType type(const std::integral auto*) { return SettingType::integer; }
    static constexpr SettingType type(const double*) { return SettingType::number; }
    static constexpr SettingType type(const Duration*) { return SettingType::seconds; }
    static constexpr SettingType type(const std::vector<std::string>*) { return SettingType::text_list; }
    static constexpr SettingType type(const TextMap*) { return SettingType::text_map; }
    static constexpr SettingType type(const Given*) { return SettingType::text_map; }
    template <typename Field>
    static constexpr SettingType type(const std::optional<Field>*) {
        return type(static_cast<const Field*>(nullptr));
    }

    static void fill(std::string& field, const Given& given) { field = given.text; }
    static void fill(bool& field, const Given& given) { field = checked(parse_boolean(given.text)); }
    template <std::integral Whole>
    static void fill(Whole& field, const Given& given) {
        field = static_cast<Whole>(checked(parse_integer(given.text)));
    }
    static void fill(double& field, const Given& given) { field = checked(parse_number(given.text)); }
    static void fill(Duration& field, const Given& given) { field = from_seconds(checked(parse_seconds(given.text))); }
    static void fill(std::vector<std::string>& field, const Given& given) { field = split_list(given.text); }
    static void fill(TextMap& field, const Given& given) { field = given.entries; }
    static void fill(Given& field, const Given& given) { field = given; }
    template <typename Field>
    static void fill(std::optional<Field>& field, const Given& given) {
        fill(field.emplace(), given);
    }
    static void fill(std::optional<Duration>& field, const Given& given) {
        field.reset();
        if (given.text != kNever) fill(field.emplace(), given);
    }
};

/// Adds settings below one section to the list. Each fills fields of an `Into`.
template <typename Into>
class Table {
    template <typename Get>
    using FieldOf = std::remove_cvref_t<std::tuple_element_t<0, std::invoke_result_t<Get, Into&>>>;
    using View = std::string_view;

public:
    /// `section` is "server." or "lanes.*.".
    Table(std::vector<Setting>& list, std::string section) : list_(list), usual_{.path = std::move(section)} {}

    /// The same section, with a property that all its settings have, such as the sinks that they are for.
    template <typename Property>
    [[nodiscard]] Table with(Property Setting::* property, std::type_identity_t<Property> value) const {
        Table some = *this;
        some.usual_.*property = std::move(value);
        return some;
    }

    /// By the field's type. An optional Duration may be "never": then it stays empty.
    template <typename Get>
    Setting& add(View path, Get get, const Fallback& fallback, View doc, Range range = {}) {
        using Field = FieldOf<Get>;
        Setting& setting = accept(FieldKinds::type(static_cast<Field*>(nullptr)), path, fallback, doc, range);
        if constexpr (std::is_same_v<Field, std::optional<Duration>>) setting.choices = {kNever};
        return bind(setting, get, [](const Given& given, auto& field) { FieldKinds::fill(field, given); });
    }

    /// A text that is one of `words`.
    template <typename Get>
    Setting& one_of(Words words, View path, Get get, const Fallback& fallback, View doc) {
        Setting& setting = accept(SettingType::choice, path, fallback, doc);
        setting.choices = std::move(words);
        return bind(setting, get, [](const Given& given, auto& field) { field = given.text; });
    }

    /// One of these names, each for a value.
    template <typename Get>
    Setting& choice(View path, Get get, std::vector<std::pair<View, FieldOf<Get>>> names, const Fallback& fallback,
                    View doc) {
        Setting& setting = accept(SettingType::choice, path, fallback, doc);
        for (const auto& [name, value] : names) setting.choices.push_back(name);
        return bind(setting, get, [names = std::move(names)](const Given& given, auto& field) {
            const auto found = std::ranges::find(names, given.text, [](const auto& named) { return named.first; });
            ASSERT(found != names.end());
            field = found->second;
        });
    }

    /// Seconds in a field that counts them.
    template <typename Get>
    Setting& seconds(View path, Get get, const Fallback& fallback, View doc, Range range) {
        return bind(accept(SettingType::seconds, path, fallback, doc, range), get,
                    [](const Given& given, double& field) { field = checked(parse_seconds(given.text)); });
    }

    /// A number of `unit` in a Duration.
    template <typename Get>
    Setting& count(Unit unit, View path, Get get, const Fallback& fallback, View doc, Range range) {
        return bind(accept(unit.type, path, fallback, doc, range), get, [unit](const Given& given, Duration& field) {
            field = std::chrono::duration_cast<Duration>(checked(parse_number(given.text)) * unit.length);
        });
    }

    /// Checked, and without effect.
    Setting& accept(SettingType type, View path, const Fallback& fallback, View doc, Range range = {}) {
        Setting& setting = list_.emplace_back(usual_);
        setting.path += path;
        setting.type = type;
        setting.fallback = fallback.usual;
        setting.others = fallback.others;
        setting.doc = doc;
        setting.range = range;
        return setting;
    }

private:
    template <typename Get, typename Set>
    Setting& bind(Setting& setting, Get get, Set set) {
        setting.fill = [get, set = std::move(set)](const Target& target, const Given& given) {
            std::apply([&](auto&... fields) { (set(given, fields), ...); }, get(*std::get<Into*>(target)));
        };
        return setting;
    }

    std::vector<Setting>& list_;
    Setting usual_;
};

// Limits of several settings.
inline constexpr double kDay = 86400;
inline constexpr double kLongest = 3650 * kDay;
inline constexpr double kMaxBytes = 1024.0 * 1024 * 1024;

/// All settings, in the order of the documentation.
[[nodiscard]] std::vector<Setting> make_settings();

}  // namespace deliverd::config
