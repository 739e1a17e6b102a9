#include "app/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "app/config_auth.h"
#include "app/config_database.h"
#include "app/config_dead_letters.h"
#include "app/config_jwt.h"
#include "app/config_lane.h"
#include "app/config_spools.h"
#include "base/text.h"

namespace deliverd::app {

namespace {

constexpr const char* kDefaultFile = "deliverd.yaml";
constexpr double kSecondsAnHour = 3600;

http::ServerOptions make_server(const Values& values) {
    http::ServerOptions server;
    server.host = values.text("server.host");
    server.port = count_of<std::uint16_t>(values, "server.port");
    server.handler_threads = count_of(values, "server.handler_threads");
    server.max_connections = count_of(values, "server.max_connections");
    server.max_queued_requests = count_of(values, "server.max_queued_requests");
    server.max_header_bytes = count_of(values, "server.max_header_bytes");
    server.max_body_bytes = count_of(values, "server.max_body_bytes");
    server.max_total_body_bytes = count_of(values, "server.max_total_body_bytes");
    server.header_timeout = values.seconds("server.header_timeout_seconds");
    server.body_timeout = values.seconds("server.body_timeout_seconds");
    server.idle_timeout = values.seconds("server.idle_timeout_seconds");
    server.write_timeout = values.seconds("server.write_timeout_seconds");
    return server;
}

LogConfig make_log(const Values& values) {
    LogConfig log;
    const std::string level = values.text("log.level");
    log.level = level == "debug"   ? LogLevel::debug
                : level == "warn"  ? LogLevel::warn
                : level == "error" ? LogLevel::error
                                   : LogLevel::info;
    const std::string format = values.text("log.format");
    log.format = format == "human" ? LogFormat::human : format == "json" ? LogFormat::json : LogFormat::automatic;
    return log;
}

/// Turns checked values into the typed configuration, and finds what only shows in combination.
class Builder {
public:
    Builder(const Values& values, std::vector<Problem>& problems) : values_(values), problems_(problems) {}

    Config build() {
        Config config;
        config.app_name = values_.text("app.name");
        config.environment = values_.text("app.environment");
        config.server = make_server(values_);
        config.server.tls = make_tls(values_, problems_);
        if (config.server.max_total_body_bytes < config.server.max_body_bytes) {
            problem(
                "server.max_total_body_bytes",
                "server.max_total_body_bytes is less than server.max_body_bytes, so that the longest body could never "
                "be read; raise the one or lower the other");
        }
        config.shutdown_patience = values_.seconds("server.shutdown_seconds");
        config.log = make_log(values_);
        config.auth = make_auth(values_, problems_);
        config.tokens_file = values_.text("auth.tokens_file");
        config.jwks = jwks_source(values_);
        config.insecure_http = values_.boolean("server.insecure_http");
        config.database = database();
        config.orders.ledger_ttl = from_seconds(values_.number("orders.ledger_ttl_hours") * kSecondsAnHour);
        config.intake.max_waiting = count_of(values_, "orders.max_waiting");
        config.intake.batch_size = count_of(values_, "orders.group_size");
        config.intake.writers = count_of(values_, "orders.writers");
        config.upkeep.ledger_purge_interval = values_.seconds("upkeep.ledger_purge_seconds");
        config.upkeep.outbox_purge_interval = values_.seconds("upkeep.outbox_purge_seconds");
        config.upkeep.dead_letters_interval = values_.seconds("upkeep.dead_letters_purge_seconds");
        config.dead_letters = make_dead_letters(values_, problems_);
        config.upkeep.batch_size = count_of<std::int32_t>(values_, "upkeep.batch_size");
        config.lanes = make_lanes(values_, problems_);
        std::int64_t most = 0;
        for (const std::string& name : values_.names_below("lanes")) {
            most = std::max(most, values_.integer("lanes." + name + ".max_payload_bytes"));
        }
        if (most > 0) config.database.postgres.max_payload_bytes = config.database.sqlite.max_payload_bytes = most;
        return config;
    }

private:
    void problem(const std::string& where, std::string message) {
        problems_.push_back({values_.line_of(where), std::move(message)});
    }

    DatabaseConfig database() {
        DatabaseConfig database;
        database.auto_migrate = values_.boolean("database.auto_migrate");
        database.sqlite.busy_timeout = values_.seconds("database.busy_timeout_seconds");
        store::PostgresOptions& postgres = database.postgres;
        postgres.schema = values_.text("database.schema");
        if (postgres.schema.empty()) problem("database.schema", "database.schema must not be empty");
        postgres.max_connections = count_of(values_, "database.max_open_conns");
        postgres.connect_timeout = values_.seconds("database.connect_timeout_seconds");
        postgres.statement_timeout = values_.seconds("database.statement_timeout_seconds");
        postgres.lock_timeout = values_.seconds("database.lock_timeout_seconds");
        postgres.pool_wait = values_.seconds("database.pool_wait_seconds");
        const auto target = database_target(values_);
        if (!target) {
            const bool about_url = values_.has("database.url") || !values_.has("database.host");
            problem(about_url ? "database.url" : "database.host", target.error().message);
            return database;
        }
        database.kind = target->kind;
        (target->kind == DatabaseTarget::Kind::sqlite ? database.sqlite.path : postgres.conninfo) = target->target;
        postgres.refresh_conninfo = conninfo_refresher(values_);
        return database;
    }

    const Values& values_;
    std::vector<Problem>& problems_;
};

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
        const std::string wrong = check_text(*setting, override.flag, override.text);
        if (!wrong.empty())
            problems.push_back({0, wrong});
        else
            values.set(override.path, Value{override.text, override.flag, 0, setting, {}});
    }
}

/// OUTBOX_BATCH_SIZE and its like: for every lane of orders, over what the file says.
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

const LaneConfig* Config::find_lane(std::string_view name) const {
    const auto found = std::ranges::find_if(lanes, [&](const LaneConfig& lane) { return lane.options.name == name; });
    return found == lanes.end() ? nullptr : &*found;
}

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
    loaded.config = Builder(loaded.values, problems).build();
    loaded.config.spools = make_spools(loaded.values, environment, problems);
    std::ranges::sort(problems, {}, [](const Problem& problem) { return std::pair(problem.line, problem.message); });
    for (const Problem& problem : problems) {
        const std::string message = one_line(problem.message);  // it may repeat what the file says
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
        return "***";  // a short token can be guessed from it
    if (value.setting == nullptr || !value.setting->secret) return value.text;
    return path == "database.url" ? mask_url(value.text) : "***";
}

}  // namespace deliverd::app
