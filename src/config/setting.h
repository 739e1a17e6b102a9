// What a setting is. One declaration (table.h) gives its path, type, default, range, documentation and the field it
// fills, so that a setting exists everywhere or nowhere. Defaults are texts, as a user would write them: the
// documentation and `config show` print them, and they pass the same check as given values.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace deliverd::config {

struct Draft;
struct LaneDraft;
struct TokenDraft;
struct SpoolConfig;

/// What settings fill. Each table (settings_tables.h) is about one of these.
using Target = std::variant<Draft*, LaneDraft*, TokenDraft*, SpoolConfig*>;

using TextMap = std::vector<std::pair<std::string, std::string>>;

/// A setting's checked text.
struct Given {
    std::string text;
    TextMap entries;  // of a text_map
};

enum class SettingType {
    text,
    integer,
    number,
    boolean,
    seconds,    // a number, or a number followed by ms, s, m, h or d; or one of `choices`
    choice,     // one of `choices`
    text_map,   // any names, text values; or one of `choices`, the name of a ready-made map
    text_list,  // texts, or one text with commas; kept with commas
};

struct Setting {
    std::string path;  // `*` is a name that the user chooses, `[]` an entry of a list
    SettingType type;
    std::string_view fallback;                                           // the default as written; empty: none
    std::string_view doc;                                                // one line
    std::function<void(const Target& target, const Given& given)> fill;  // empty: accepted without effect

    double least = 0;  // range of numbers
    double most = std::numeric_limits<double>::max();
    std::string choices{};  // "a|b|c"
    bool secret = false;    // masked in all output; a text also has the form <name>_file
    std::vector<std::pair<std::string_view, std::string_view>> others{};  // other defaults, by a lane's outbox or sink
    std::string_view orders_environment{};  // this variable overrides the file in a lane with `outbox: orders`
    std::string_view only_outbox{};         // the kinds of outbox a lane's setting is for, "a|b"; empty: all
    std::string_view only_sink{};           // the types of sink a sink's setting is for, "a|b"; empty: all

    Setting& or_one_of(std::string_view words) { return set(choices, std::string(words)); }
    Setting& is_secret() { return set(secret, true); }
    Setting& otherwise(decltype(others) defaults) { return set(others, std::move(defaults)); }
    Setting& or_variable(std::string_view name) { return set(orders_environment, name); }

    [[nodiscard]] bool has_file_form() const { return secret && type == SettingType::text; }
    /// Whether it has a meaning in a lane with this outbox and this sink; empty: not known.
    [[nodiscard]] bool applies(std::string_view outbox, std::string_view sink) const;
    /// The default in such a lane.
    [[nodiscard]] std::string_view fallback_for(std::string_view outbox, std::string_view sink) const;

private:
    template <typename Field>
    Setting& set(Field& field, Field value) {
        field = std::move(value);
        return *this;
    }
};

/// Whether `word` is one of the words in "a|b|c".
[[nodiscard]] bool is_listed(std::string_view words, std::string_view word);

/// "memory|events" with `between` in place of each bar: "memory or events".
[[nodiscard]] std::string join_words(std::string_view words, std::string_view between);

/// "a whole number from 0 to 65535", "one of: memory, orders, events".
[[nodiscard]] std::string describe_type(const Setting& setting);

/// What is wrong with `text` as a value of `setting`; empty when nothing. `name` is what the user wrote it to.
[[nodiscard]] std::string check_text(const Setting& setting, std::string_view name, std::string_view text);

/// "90", "1.5", "500ms", "5m", "7d" in seconds.
[[nodiscard]] std::optional<double> parse_seconds(std::string_view text);
[[nodiscard]] std::optional<double> parse_number(std::string_view text);
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);
[[nodiscard]] std::optional<bool> parse_boolean(std::string_view text);

/// The parts of a text with commas, without the spaces around each.
[[nodiscard]] std::vector<std::string> split_list(std::string_view text);

}  // namespace deliverd::config
