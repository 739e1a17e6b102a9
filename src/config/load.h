// Reads the configuration: --config, else CONFIG_PATH, else ./deliverd.yaml, else built-in defaults (SQLite file
// ./deliverd.db, API on 127.0.0.1:8080). The database: --database, else DATABASE_URL, else the file's.
//
// One walk over the file (values.h) finds each value's place and text; each setting fills its field of a draft
// (settings.h); plain functions then check what only shows in combination, and finish the draft. All problems are
// collected, each with its line, so that a user can correct them in one go.
#pragma once

#include "config/config.h"
#include "config/values.h"

namespace deliverd::config {

/// A flag that replaces one setting of the file, checked like it.
struct ConfigOverride {
    std::string path;  // of an existing setting: "lanes.memories.batch_size"
    std::string text;
    std::string flag;  // "--batch-size"
};

struct ConfigRequest {
    std::optional<std::string> config_path;   // --config
    std::optional<std::string> database_url;  // --database
    std::vector<ConfigOverride> overrides;
};

struct LoadedConfig {
    Config config;  // use it only when there are no problems
    Values values;
    std::string source;                 // the file, or "built-in defaults"
    std::vector<std::string> problems;  // one line each: "deliverd.yaml:12: unknown key …"
};

[[nodiscard]] LoadedConfig load_config(const ConfigRequest& request, const Environment& environment);

/// The same from text, for tests; messages name `file`.
[[nodiscard]] LoadedConfig load_config_text(const std::string& yaml, const std::string& file,
                                            const ConfigRequest& request, const Environment& environment);

/// The tokens of `auth.tokens_file`: a YAML list. What is wrong with it is added to `problems`, with file and line.
[[nodiscard]] std::vector<api::Token> read_tokens_file(const std::string& path, std::vector<std::string>& problems);

/// A value for display, with secrets masked.
[[nodiscard]] std::string shown_value(std::string_view path, const Value& value);

}  // namespace deliverd::config
