// The one list of settings. The reader, `config check`, `config show`, docs/configuration.md and the typed
// configuration are all made from it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/setting.h"
#include "config/values.h"

namespace deliverd::config {

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

/// Fills the fields of `target`, whose settings begin with `section` ("lanes.*"; "" for those of no list), from the
/// values below `path` ("lanes.memories"), else from the defaults. Settings for another outbox or sink are left alone.
void fill(const Values& values, std::string_view section, const std::string& path, const Target& target);

/// The Markdown tables of docs/configuration.md, one for each section.
[[nodiscard]] std::string settings_markdown();

}  // namespace deliverd::config
