// The one list of settings. One declaration (table.h) gives a setting's path, type, default, range, documentation and
// the field it fills, so that a setting exists everywhere or nowhere: the reader, `config check`, `config show`,
// docs/configuration.md and the typed configuration are all made from it. Defaults are texts, as a user would write
// them: the documentation and `config show` print them, and they pass the same check as given values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace deliverd::config {

class Values;
struct Draft;
struct LaneDraft;
struct TokenDraft;
struct SpoolConfig;

/// What settings fill. Each table (table.h) is about one of these.
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

using Words = std::vector<std::string_view>;

[[nodiscard]] inline bool is_listed(const Words& words, std::string_view word) {
    return std::ranges::find(words, word) != words.end();
}

struct Range {
    double least = 0;
    double most = std::numeric_limits<double>::max();
};

struct Setting {
    std::string path;  // `*` is a name that the user chooses, `[]` an entry of a list
    SettingType type = SettingType::text;
    std::string_view fallback{};                                          // the default as written; empty: none
    std::vector<std::pair<std::string_view, std::string_view>> others{};  // other defaults, by a lane's outbox or sink
    std::string_view doc{};                                               // one line
    Range range{};                                                        // of numbers
    Words choices{};
    bool secret = false;                    // masked in all output; a text also has the form <name>_file
    Words only_outbox{};                    // the kinds of outbox a lane's setting is for; empty: all
    Words only_sink{};                      // the types of sink a sink's setting is for; empty: all
    std::string_view orders_environment{};  // this variable overrides the file in a lane with `outbox: orders`
    std::function<void(const Target& target, const Given& given)> fill{};  // empty: accepted without effect

    [[nodiscard]] bool has_file_form() const { return secret && type == SettingType::text; }
    /// Whether it has a meaning in a lane with this outbox and this sink; empty: not known.
    [[nodiscard]] bool applies(std::string_view outbox, std::string_view sink) const {
        const auto fits = [](const Words& only, std::string_view kind) {
            return only.empty() || kind.empty() || is_listed(only, kind);
        };
        return fits(only_outbox, outbox) && fits(only_sink, sink);
    }
    /// The default in such a lane.
    [[nodiscard]] std::string_view fallback_for(std::string_view outbox, std::string_view sink) const {
        for (const auto& [kind, text] : others) {
            if (kind == outbox || kind == sink) return text;
        }
        return fallback;
    }
};

/// In the order of the documentation. Lives as long as the program.
[[nodiscard]] std::span<const Setting> settings();

/// The setting with this pattern ("lanes.*.sink.url"), or null.
[[nodiscard]] const Setting* find_setting(std::string_view pattern);

/// The secret setting that `pattern` ("database.password_file") is the file form of, or null.
[[nodiscard]] const Setting* find_file_form(std::string_view pattern);

/// True when settings lie below `pattern` ("server", "lanes.*"); "" is the root.
[[nodiscard]] bool is_section(std::string_view pattern);

/// The names allowed directly in a section, file forms included; "*" where the user chooses.
[[nodiscard]] std::vector<std::string> names_in(std::string_view section);

/// "lanes.memories.sink.url" → "lanes.*.sink.url".
[[nodiscard]] std::string pattern_of(std::string_view path);

/// "a whole number from 0 to 65535", "one of: memory, orders, events".
[[nodiscard]] std::string describe_type(const Setting& setting);

/// What is wrong with `text` as a value of `setting`; empty when nothing. `name` is what the user wrote it to.
[[nodiscard]] std::string check_text(const Setting& setting, std::string_view name, std::string_view text);

/// Every setting that begins with `section` ("lanes.*"; "" for those of no list), with its place below `path`
/// ("lanes.memories").
void each_setting(std::string_view section, const std::string& path,
                  const std::function<void(const Setting& setting, const std::string& at)>& look);

/// Fills the fields of `target` with the values of these settings, else with their defaults. Settings for another
/// outbox or sink are left alone.
void fill(const Values& values, std::string_view section, const std::string& path, const Target& target);

/// The Markdown tables of docs/configuration.md, one for each section.
[[nodiscard]] std::string settings_markdown();

/// "90", "1.5", "500ms", "5m", "7d" in seconds.
[[nodiscard]] std::optional<double> parse_seconds(std::string_view text);
[[nodiscard]] std::optional<double> parse_number(std::string_view text);
[[nodiscard]] std::optional<std::int64_t> parse_integer(std::string_view text);
[[nodiscard]] std::optional<bool> parse_boolean(std::string_view text);

/// The parts of a text with commas, without the spaces around each.
[[nodiscard]] std::vector<std::string> split_list(std::string_view text);

}  // namespace deliverd::config
