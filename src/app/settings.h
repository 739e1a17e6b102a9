// The one list of settings. The reader, `config check`, `config show` and docs/configuration.md all use it, so
// that a setting exists everywhere or nowhere.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deliverd::app {

enum class SettingType {
    text,
    integer,
    number,
    boolean,
    seconds,    // a number, or a number with ms, s, m, h or d behind it; or one of `choices`
    choice,     // one of `choices`
    text_map,   // any names, text values; or one of `choices`, the name of a ready-made map
    text_list,  // texts, or one with commas; kept with commas
};

struct Setting {
    std::string_view path;  // `*` stands for a name the user chooses, `[]` for the entries of a list
    SettingType type;
    std::string_view fallback;  // the default as it would be written; empty: none
    std::string_view doc;       // one line
    double least = 0;           // range of numbers
    double most = std::numeric_limits<double>::max();
    std::string_view choices = {};  // "a|b|c"
    std::string_view unit = {};
    bool secret = false;                       // masked wherever it is shown; also accepted as <name>_file
    std::string_view others = {};              // other defaults: "orders=32|events=500", by a lane's outbox or sink
    std::string_view orders_environment = {};  // a variable that wins over the file in a lane with `outbox: orders`
    std::string_view only_outbox = {};         // the kinds of outbox a lane's setting is for, "a|b"; empty: all
    std::string_view only_sink = {};           // the types of sink a sink's setting is for, "a|b"; empty: all
};

/// In the order of the documentation. Lives as long as the program.
[[nodiscard]] std::span<const Setting> settings();

/// Whether `word` is one of the words in "a|b|c".
[[nodiscard]] bool is_listed(std::string_view words, std::string_view word);

/// The setting with this pattern ("lanes.*.sink.url"), or null.
[[nodiscard]] const Setting* find_setting(std::string_view pattern);

/// The secret setting that `pattern` ("database.password_file") is the file form of, or null.
[[nodiscard]] const Setting* find_file_form(std::string_view pattern);

/// True when settings lie below `pattern` ("server", "lanes.*"); "" is the root.
[[nodiscard]] bool is_section(std::string_view pattern);

/// The names that may stand directly in a section, file forms included; "*" where the user chooses.
[[nodiscard]] std::vector<std::string> names_in(std::string_view section);

/// "a whole number from 0 to 65535", "one of: memory, orders, events".
[[nodiscard]] std::string describe_type(const Setting& setting);

/// The Markdown tables of docs/configuration.md, one a section.
[[nodiscard]] std::string settings_markdown();

}  // namespace deliverd::app
