#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <vector>

#include "app/command.h"
#include "app/settings.h"

namespace deliverd::app {

namespace {

struct Row {
    std::string path;
    std::string value;
    std::string origin;
};

/// Whether the setting means anything in a lane with this outbox and this sink.
bool applies(const Setting& setting, const std::string& outbox, const std::string& sink) {
    const auto fits = [](std::string_view only, const std::string& kind) {
        return only.empty() || kind.empty() || is_listed(only, kind);
    };
    return fits(setting.only_outbox, outbox) && fits(setting.only_sink, sink);
}

void add_row(const Values& values, const std::string& path, const Setting& setting, std::vector<Row>& rows) {
    if (setting.type == SettingType::text_map && !values.has(path)) {
        for (const auto& [name, text] : values.text_map(path)) {
            const Value* value = values.find(path + "." + name);
            rows.push_back({path + "." + name, shown_value(path, *value), value->origin});
        }
    } else if (const Value* value = values.find(path)) {
        rows.push_back({path, shown_value(path, *value), value->origin});
    } else if (!values.fallback_of(path).empty() && applies(setting, values.outbox_of(path), values.sink_of(path))) {
        rows.push_back({path, std::string(values.fallback_of(path)), "default"});
    }
}

/// Every value in force, in the order of the list of settings, lane by lane, spool by spool and token by token.
std::vector<Row> effective_rows(const Values& values) {
    std::vector<Row> rows;
    const auto add_all = [&](std::string_view pattern_start, std::string_view placeholder, const std::string& with) {
        for (const Setting& setting : settings()) {
            if (!setting.path.starts_with(pattern_start)) continue;
            std::string path(setting.path);
            path.replace(path.find(placeholder), placeholder.size(), with);
            add_row(values, path, setting, rows);
        }
    };
    for (const Setting& setting : settings()) {
        const bool plain = setting.path.find_first_of("*[") == std::string_view::npos;
        if (plain) add_row(values, std::string(setting.path), setting, rows);
    }
    for (std::size_t i = 0; i < values.entries("auth.tokens"); ++i) {
        add_all("auth.tokens[]", "[]", fmt::format("[{}]", i));
    }
    for (const std::string& name : values.names_below("lanes")) add_all("lanes.*", "*", name);
    for (const std::string& name : values.names_below("spools")) add_all("spools.*", "*", name);
    return rows;
}

}  // namespace

int run_config_show(const Context& context, const LoadedConfig& loaded, bool json) {
    std::vector<Row> rows = effective_rows(loaded.values);
    if (loaded.values.has("database.host") && !loaded.values.has("database.url")) {
        std::erase_if(rows, [](const Row& row) { return row.path == "database.url"; });
    }
    if (json) {
        boost::json::array array;
        for (const Row& row : rows) {
            array.push_back({{"setting", row.path}, {"value", row.value}, {"origin", row.origin}});
        }
        context.out << boost::json::serialize(array) << "\n";
        return kDone;
    }
    std::size_t path_width = 0;
    std::size_t value_width = 0;
    for (const Row& row : rows) {
        path_width = std::max(path_width, row.path.size());
        value_width = std::max(value_width, std::min<std::size_t>(row.value.size(), 40));
    }
    context.out << fmt::format("# {}\n", loaded.source);
    for (const Row& row : rows) {
        context.out << fmt::format("{:<{}}  {:<{}}  {}\n", row.path, path_width, row.value, value_width, row.origin);
    }
    return kDone;
}

}  // namespace deliverd::app
