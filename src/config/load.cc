#include "config/load.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/text.h"
#include "config/finish.h"
#include "sink/http/http_url.h"

namespace deliverd::config {

namespace {

constexpr const char* kDefaultFile = "deliverd.yaml";

/// In the file's order. Tokens come from `environment`; a missing one is a problem of who sends, not of every command.
void finish_spools(Config& config, const Environment& environment, Problems& problems) {
    for (const std::string& name : problems.values().names_below("spools")) {
        const std::string section = "spools." + name;
        SpoolConfig spool;
        fill(problems.values(), "spools.*", section, &spool);
        spool.name = name;
        problems.require(!spool.path.empty(), section, " needs a path");
        if (!spool.token_env.empty()) spool.poster.token = environment(spool.token_env).value_or("");
        for (const std::string& text : spool.poster.token_hosts) {
            problems.require(sink::read_token_host(text), section, ".token_hosts: {}");
        }
        config.spools.push_back(std::move(spool));
    }
}

/// Turns checked values into the typed configuration.
Config build(const Values& values, const Environment& environment, std::vector<Problem>& list) {
    // Every part is finished whatever the ones before it found, so that one run reports all problems. The order
    // matters: auth looks at the certificate, lanes at the database and at the brokers of dead letters.
    Problems problems(values, list);
    Draft draft;
    fill(values, "", "", &draft);
    Config& config = draft.config;
    problems.require(config.server.max_total_body_bytes >= config.server.max_body_bytes, "server.max_total_body_bytes",
                     " is less than server.max_body_bytes, so the longest body could never be read; raise the one or "
                     "lower the other");
    finish_tls(draft, problems);
    finish_auth(draft, problems);
    finish_database(draft, problems);
    finish_dead_letters(draft, problems);
    finish_lanes(draft, problems);
    finish_spools(config, environment, problems);
    return std::move(config);
}

// An empty variable counts as none: deployments declare variables that they have no value for.
std::optional<std::string> non_empty(std::optional<std::string> text) {
    return text && !text->empty() ? std::move(text) : std::nullopt;
}

Result<std::string> read_file(const std::string& path) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored))
        return permanent("unreadable", path + ": is a folder, not a file");
    const auto unreadable = [&path] {
        return permanent("unreadable", fmt::format("{}: cannot read the configuration: {}", path,
                                                   errno == 0 ? "unknown I/O error" : std::strerror(errno)));
    };
    // Streams set errno on this platform, but never clear it.
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file) return unreadable();
    // One byte more than allowed, so that parse_yaml() sees that the file is too long.
    std::string text(kMaxConfigBytes + 1, '\0');
    errno = 0;
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    // Half a file could be valid YAML: it would run with the settings of the other half at their defaults.
    if (file.bad()) return unreadable();
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

/// `name` is where `text` was given.
bool is_good(const Setting& setting, const std::string& name, const std::string& text, std::vector<Problem>& problems) {
    const std::string wrong = check_text(setting, name, text);
    if (!wrong.empty()) problems.push_back({0, wrong});
    return wrong.empty();
}

void apply_overrides(Values& values, const ConfigRequest& request, std::vector<Problem>& problems) {
    for (const ConfigOverride& override : request.overrides) {
        const Setting* setting = find_setting(pattern_of(override.path));
        if (setting == nullptr) continue;  // of a lane whose name cannot be one: the command refuses it
        if (!is_good(*setting, override.flag, override.text, problems)) continue;
        values.set(override.path, {override.text, override.flag, 0, setting});
    }
}

/// OUTBOX_BATCH_SIZE and the like override the file for every lane of orders.
void override_orders_lanes(Values& values, const Environment& environment, std::vector<Problem>& problems) {
    for (const Setting& setting : settings()) {
        if (setting.orders_environment.empty()) continue;
        const std::string variable(setting.orders_environment);
        const auto text = non_empty(environment(variable));
        if (!text || !is_good(setting, variable, *text, problems)) continue;
        for (const std::string& name : values.names_below("lanes")) {
            const std::string path = "lanes." + name + setting.path.substr(std::string_view("lanes.*").size());
            // The variables are documented for orders only (docs/orders.md); a lane of events must not take them over.
            if (values.outbox_of(path) != "orders") continue;
            const int line = values.has(path) ? values.line_of(path) : 0;
            values.set(path, {*text, variable, line, &setting});
        }
    }
}

void override_database(Values& values, const ConfigRequest& request, const Environment& environment) {
    const auto variable = non_empty(environment("DATABASE_URL"));
    const auto url = request.database_url ? request.database_url : variable;
    if (!url) return;
    const char* origin = request.database_url ? "--database" : "DATABASE_URL";
    values.set("database.url", {*url, origin, 0, find_setting("database.url")});
}

}  // namespace

LoadedConfig load_config_text(const std::string& yaml, const std::string& file, const ConfigRequest& request,
                              const Environment& environment) {
    LoadedConfig loaded;
    loaded.source = file;
    std::vector<Problem> problems;
    const Node root = parse_yaml(yaml, problems);
    loaded.values = read_values(root, file, environment, problems);
    // Each replaces what was there: the file, then the environment, then the flags, which are nearest to the user.
    override_database(loaded.values, request, environment);
    override_orders_lanes(loaded.values, environment, problems);
    apply_overrides(loaded.values, request, problems);
    loaded.config = build(loaded.values, environment, problems);
    // Checks find problems in an order of their own; a user reads the file from top to bottom.
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
    // Only the default may be missing: a file that somebody named must be there.
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
    // A URL may have a password or a key although it is no secret setting.
    if (path.ends_with(".sink.url") || path == "auth.jwt.jwks_url") return mask_http_url(value.text);
    if (path.starts_with("auth.tokens[") && path.ends_with(".sha256")) return "***";  // short tokens could be guessed
    if (!value.setting->secret) return value.text;
    return path == "database.url" ? mask_url(value.text) : "***";
}

std::optional<std::string> token_note(const SpoolConfig& spool) {
    if (spool.token_env.empty() || !spool.poster.token_hosts.empty()) return std::nullopt;
    return fmt::format(
        "spools.{0} has no token_hosts, so the token of {1} is sent to no host; name the hosts that may have it, such "
        "as `token_hosts: [example.com]`",
        spool.name, spool.token_env);
}

}  // namespace deliverd::config
