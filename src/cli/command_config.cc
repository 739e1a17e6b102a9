#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json.hpp>
#include <vector>

#include "cli/command_tree.h"
#include "config/settings.h"

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

Status show(const Call& call) {
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

Status check(const Call& call) {
    const config::LoadedConfig& loaded = call.loaded;
    const bool ok = loaded.problems.empty();
    // Also with --json: whoever runs a script by hand reads the error stream.
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

Status docs(const Call& call) {
    call.print("{}", config::settings_markdown());
    return kDone;
}

}  // namespace

void add_config(CommandTree& tree) {
    CLI::App* group = tree.group("config", "Look at the configuration",
                                 "Examples:\n  deliverd config check\n  deliverd config show --json");
    tree.add(group,
             {"check", "Validate it: prints every problem with its line",
              "  deliverd config check --config deliverd.yaml", "an object: source, ok, lanes, problems"},
             check, Needs::configuration);
    tree.add(group,
             {"show", "Show the values in force and where each comes from",
              "  deliverd config show\n  deliverd config show --json", "an array of objects"},
             show);
    tree.add(group, {"docs", "Print the settings as Markdown", "  deliverd config docs"}, docs, Needs::nothing);
}

}  // namespace deliverd::cli
