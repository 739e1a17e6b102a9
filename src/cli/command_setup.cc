// `config`, `token` and `migrate`: the commands that set an installation up.
#include <fmt/ranges.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>

#include "base/sha256.h"
#include "base/text.h"
#include "cli/command_tree.h"
#include "daemon/parts.h"
#include "deadletter/topic_pattern.h"

namespace deliverd::cli {

namespace {

struct Row {
    std::string path;
    std::string value;
    std::string origin;
};

void add_row(const config::Values& values, const std::string& path, const config::Setting& setting,
             std::vector<Row>& rows) {
    const auto add = [&](const std::string& at, const config::Value& value) {
        rows.push_back({at, config::shown_value(path, value), value.origin});
    };
    // Each entry comes from a line of its own.
    if (setting.type == config::SettingType::text_map && !values.has(path)) {
        for (const auto& [name, text] : values.text_map(path)) add(path + "." + name, *values.find(path + "." + name));
    } else if (const config::Value* value = values.find(path)) {
        add(path, *value);
    } else {
        const std::string outbox = values.outbox_of(path);
        const std::string sink = values.sink_of(path);
        const std::string_view fallback = setting.fallback_for(outbox, sink);
        if (!fallback.empty() && setting.applies(outbox, sink)) {
            rows.push_back({path, std::string(fallback), "default"});
        }
    }
}

/// Every value in force, in the order of the list of settings, token by token, lane by lane and spool by spool.
std::vector<Row> effective_rows(const config::Values& values) {
    std::vector<Row> rows;
    const auto add = [&](const config::Setting& setting, const std::string& path) {
        add_row(values, path, setting, rows);
    };
    config::each_setting("", "", add);
    for (std::size_t i = 0; i < values.entries("auth.tokens"); ++i) {
        config::each_setting("auth.tokens[]", fmt::format("auth.tokens[{}]", i), add);
    }
    for (const std::string& name : values.names_below("lanes")) config::each_setting("lanes.*", "lanes." + name, add);
    for (const std::string& name : values.names_below("spools"))
        config::each_setting("spools.*", "spools." + name, add);
    return rows;
}

Status show_config(const Call& call) {
    const config::LoadedConfig& loaded = call.loaded;
    std::vector<Row> rows = effective_rows(loaded.values);
    // Without a URL the database is named by its parts: the default URL is not in force.
    if (loaded.values.has("database.host") && !loaded.values.has("database.url")) {
        std::erase_if(rows, [](const Row& row) { return row.path == "database.url"; });
    }
    if (call.json) {
        boost::json::array array;
        for (const Row& row : rows) {
            array.push_back({{"setting", row.path}, {"value", row.value}, {"origin", row.origin}});
        }
        return call.print_line(boost::json::serialize(array));
    }
    const std::size_t path_width = widest(rows, &Row::path);
    // One long value, such as a URL, must not push the origins of all others off the screen.
    const std::size_t value_width = std::min<std::size_t>(widest(rows, &Row::value), 40);
    call.print("# {}\n", loaded.source);
    for (const Row& row : rows) {
        call.print("{:<{}}  {:<{}}  {}\n", row.path, path_width, row.value, value_width, row.origin);
    }
    return kDone;
}

Status check_config(const Call& call) {
    const config::LoadedConfig& loaded = call.loaded;
    const bool ok = loaded.problems.empty();
    // Also with --json: a person who runs a script by hand reads the error stream.
    for (const std::string& problem : loaded.problems) complain(call.context, problem);
    // Only a remark: without token_hosts the spool works, for receivers that want no token.
    for (const config::SpoolConfig& spool : loaded.config.spools) {
        if (const auto note = config::token_note(spool); ok && note) complain(call.context, *note);
    }
    std::vector<std::string_view> lanes;
    for (const config::LaneConfig& lane : loaded.config.lanes) lanes.emplace_back(lane.options.name);
    if (call.json) {
        call.print_line(boost::json::serialize(
            boost::json::object{{"source", loaded.source},
                                {"ok", ok},
                                {"lanes", boost::json::array(lanes.begin(), lanes.end())},
                                {"problems", boost::json::array(loaded.problems.begin(), loaded.problems.end())}}));
    } else if (ok) {
        call.print("{}: ok; lanes: {}\n", loaded.source,
                   lanes.empty() ? "none" : fmt::format("{}", fmt::join(lanes, ", ")));
    }
    return ok ? kDone : kWrongUsage;
}

Status print_docs(const Call& call) {
    call.print("{}", config::settings_markdown());
    return kDone;
}

struct TokenArguments {
    std::string name;
    std::string role;
    std::vector<std::string> topics;
};

constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kMaxTokenNameBytes = 64;

/// What needs no quotes in YAML, in logs and in the audit.
bool is_token_name(std::string_view name) {
    const auto fits = [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; };
    return !name.empty() && name.size() <= kMaxTokenNameBytes && std::ranges::all_of(name, fits);
}

Status make_token(const Call& call, const TokenArguments& asked) {
    if (!is_token_name(asked.name)) {
        return misused("--name must be 1 to {} letters, digits, '-', '_' and '.'", kMaxTokenNameBytes);
    }
    for (const std::string& pattern : asked.topics) {
        if (auto ok = deadletter::check_topic_pattern(pattern); !ok) {
            return misused("--topic: {}", ok.error().message);
        }
    }
    // Straight from the kernel: base/random.h is not made for secrets.
    std::string bytes(kTokenBytes, '\0');
    if (getentropy(bytes.data(), bytes.size()) != 0) {
        return failed("cannot get random bytes from the system: {}", std::strerror(errno));
    }
    // The prefix lets scanners for leaked secrets recognise a token.
    const std::string token = "dlv_" + hex_text(bytes);
    // Only the hash is configured: a reader of the configuration cannot use it. A random token needs no slow hash.
    const std::string sha256 = sha256_hex(token);
    if (call.json) {
        boost::json::object object{{"token", token}, {"name", asked.name}, {"role", asked.role}, {"sha256", sha256}};
        if (!asked.topics.empty()) object["topics"] = boost::json::value_from(asked.topics);
        return call.print_line(boost::json::serialize(object));
    }
    // Quoted: a pattern may begin with "*", which YAML reads as an alias.
    const std::string topics =
        asked.topics.empty() ? "" : fmt::format(", topics: [\"{}\"]", fmt::join(asked.topics, "\", \""));
    call.print(
        "# The token, shown this once; callers send it as 'Authorization: Bearer …':\n{}\n"
        "# Its line for auth.tokens or auth.tokens_file:\n- {{ name: \"{}\", role: {}, sha256: \"{}\"{} }}\n",
        token, asked.name, asked.role, sha256, topics);
    return kDone;
}

Status run_migrate(const Call& call, bool dry_run) {
    const auto log = make_stderr_log(LogLevel::error, call.config().log.format);
    // Not open_ready_database(), which refuses the schema that this command is there to change.
    TRY_ASSIGN(const auto database, daemon::open_database(call.config().database, *log));
    TRY_ASSIGN(const auto steps, database->migrate(dry_run));
    if (call.json) {
        boost::json::array array;
        for (const store::MigrationStep& step : steps) {
            boost::json::object object{{"version", step.version}, {"name", step.name}, {"applied", !dry_run}};
            // Only a user who runs the steps by hand needs their SQL.
            if (dry_run) object["sql"] = step.sql;
            array.push_back(object);
        }
        return call.print_line(boost::json::serialize(array));
    }
    if (dry_run) {
        for (const store::MigrationStep& step : steps) {
            call.print("-- {:04} {}\n{}\n", step.version, step.name, step.sql);
        }
        // A comment: psql must accept the output in any case.
        return steps.empty() ? call.print_line("-- nothing to do") : kDone;
    }
    for (const store::MigrationStep& step : steps) call.print("applied {:04} {}\n", step.version, step.name);
    TRY_ASSIGN(const auto report, database->schema());
    call.print("{}: {} version {}\n", database->describe(),
               steps.empty() ? "schema is up to date at" : "schema upgraded to", report.found_version);
    return kDone;
}

}  // namespace

void add_config(CommandTree& tree) {
    CLI::App* group = tree.group("config", "Check and show the configuration",
                                 "Examples:\n  deliverd config check\n  deliverd config show --json");
    tree.add(group,
             {"check", "Check the configuration and print each problem with its line",
              "  deliverd config check --config deliverd.yaml", "an object: source, ok, lanes, problems"},
             check_config, Needs::configuration);
    tree.add(group,
             {"show", "Show the values in force and where each comes from",
              "  deliverd config show\n  deliverd config show --json", "an array of objects"},
             show_config);
    tree.add(group, {"docs", "Print the settings as Markdown", "  deliverd config docs"}, print_docs, Needs::nothing);
}

void add_token(CommandTree& tree) {
    const auto token = std::make_shared<TokenArguments>();
    CLI::App* group =
        tree.group("token", "Create tokens for the API", "Examples:\n  deliverd token new --name ops --role operator");
    CLI::App* app = tree.add(
        group,
        {"new", "Create a random token and its line for the configuration",
         "  deliverd token new --name ops --role operator\n"
         "  deliverd token new --name orders-team --role operator --topic 'orders.*'\n"
         "The token is shown only once; the configuration has only its SHA-256.",
         "an object: token, name, role, sha256, with --topic also topics"},
        [token](const Call& call) { return make_token(call, *token); }, Needs::nothing);
    app->add_option("--name", token->name, "its owner's name, for logs and the audit")->required();
    text(app, "--role ROLE", token->role, "viewer, operator or admin", {"viewer", "operator", "admin"})->required();
    text(app, "--topic PATTERN", token->topics,
         "a topic it may see and act on, a name or a pattern with * and ?; may be repeated")
        ->expected(1)
        ->take_all();
}

void add_migrate(CommandTree& tree) {
    const auto dry_run = std::make_shared<bool>(false);
    tree.add(nullptr,
             {"migrate", "Create or upgrade the schema",
              "  deliverd migrate --database postgres://app@db/app\n  deliverd migrate --dry-run > upgrade.sql",
              "an array of the steps"},
             [dry_run](const Call& call) { return run_migrate(call, *dry_run); })
        ->add_flag("--dry-run", *dry_run, "print the SQL, change nothing");
}

}  // namespace deliverd::cli
