#include "config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/assert.h"
#include "base/text.h"
#include "config/finish.h"
#include "config/settings.h"

namespace deliverd::config {

namespace {

constexpr const char* kDefaultFile = "deliverd.yaml";

/// Turns checked values into the typed configuration.
Config build(const Values& values, const Environment& environment, std::vector<Problem>& list) {
    Problems problems(values, list);
    Draft draft;
    fill(values, "", "", &draft);
    Config& config = draft.config;
    if (config.server.max_total_body_bytes < config.server.max_body_bytes) {
        problems.add("server.max_total_body_bytes",
                     "server.max_total_body_bytes is less than server.max_body_bytes, so the longest body could never "
                     "be read; raise the one or lower the other");
    }
    finish_tls(draft, problems);
    finish_auth(draft, problems);
    finish_database(draft, problems);
    finish_dead_letters(draft, problems);
    finish_lanes(draft, problems);
    finish_spools(config, environment, problems);
    return std::move(config);
}

std::optional<std::string> non_empty(std::optional<std::string> text) {
    return text && !text->empty() ? std::move(text) : std::nullopt;
}

Result<std::string> read_file(const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
        return permanent("unreadable", path + ": is a folder, not a file");
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        return permanent("unreadable",
                         fmt::format("{}: cannot read the configuration: {}", path, std::strerror(errno)));
    }
    std::string text(kMaxConfigBytes + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

void apply_overrides(Values& values, const ConfigRequest& request, std::vector<Problem>& problems) {
    for (const ConfigOverride& override : request.overrides) {
        const Setting* setting = find_setting(pattern_of(override.path));
        if (setting == nullptr) continue;  // of a lane whose name cannot be one: the command refuses it
        const std::string wrong = check_text(*setting, override.flag, override.text);
        if (!wrong.empty())
            problems.push_back({0, wrong});
        else
            values.set(override.path, Value{override.text, override.flag, 0, setting, {}});
    }
}

/// OUTBOX_BATCH_SIZE and the like override the file for every lane of orders.
void override_orders_lanes(Values& values, const Environment& environment, std::vector<Problem>& problems) {
    for (const Setting& setting : settings()) {
        if (setting.orders_environment.empty()) continue;
        const std::string variable(setting.orders_environment);
        const auto text = non_empty(environment(variable));
        if (!text) continue;
        if (const std::string wrong = check_text(setting, variable, *text); !wrong.empty()) {
            problems.push_back({0, wrong});
            continue;
        }
        for (const std::string& name : values.names_below("lanes")) {
            const std::string lane = "lanes." + name;
            if (values.outbox_of(lane + ".outbox") != "orders") continue;
            const std::string path = lane + std::string(setting.path.substr(std::string_view("lanes.*").size()));
            values.set(path, Value{*text, variable, values.line_of(path), &setting, {}});
        }
    }
}

void override_database(Values& values, const ConfigRequest& request, const Environment& environment) {
    const Setting* setting = find_setting("database.url");
    if (request.database_url) {
        values.set("database.url", Value{*request.database_url, "--database", 0, setting, {}});
    } else if (const auto url = non_empty(environment("DATABASE_URL"))) {
        values.set("database.url", Value{*url, "DATABASE_URL", 0, setting, {}});
    }
}

}  // namespace

LoadedConfig load_config_text(const std::string& yaml, const std::string& file, const ConfigRequest& request,
                              const Environment& environment) {
    LoadedConfig loaded;
    loaded.source = file;
    std::vector<Problem> problems;
    const Node root = parse_yaml(yaml, problems);
    loaded.values = read_values(root, file, environment, problems);
    override_database(loaded.values, request, environment);
    override_orders_lanes(loaded.values, environment, problems);
    apply_overrides(loaded.values, request, problems);
    loaded.config = build(loaded.values, environment, problems);
    std::ranges::sort(problems, {}, [](const Problem& problem) { return std::pair(problem.line, problem.message); });
    for (const Problem& problem : problems) {
        const std::string message = one_line(problem.message);  // it may quote the file
        loaded.problems.push_back(problem.line > 0 ? fmt::format("{}:{}: {}", file, problem.line, message) : message);
    }
    return loaded;
}

LoadedConfig load_config(const ConfigRequest& request, const Environment& environment) {
    auto path = request.config_path ? request.config_path : non_empty(environment("CONFIG_PATH"));
    std::error_code ignored;
    if (!path && std::filesystem::exists(kDefaultFile, ignored)) path = kDefaultFile;
    if (!path) return load_config_text("", "built-in defaults", request, environment);
    const auto text = read_file(*path);
    if (!text) {
        LoadedConfig loaded;
        loaded.source = *path;
        loaded.problems.push_back(text.error().message);
        return loaded;
    }
    return load_config_text(*text, *path, request, environment);
}

std::string shown_value(std::string_view path, const Value& value) {
    if (path.ends_with(".sink.url")) return mask_http_url(value.text);
    if (path.starts_with("auth.tokens[") && path.ends_with(".sha256"))
        return "***";  // a short token could be guessed from it
    if (value.setting == nullptr || !value.setting->secret) return value.text;
    return path == "database.url" ? mask_url(value.text) : "***";
}

}  // namespace deliverd::config
