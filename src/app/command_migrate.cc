#include <fmt/format.h>

#include <boost/json.hpp>

#include "app/command.h"
#include "app/parts.h"

namespace deliverd::app {

int run_migrate(const Context& context, const Config& config, const Arguments& arguments) {
    const auto log = make_stderr_log(LogLevel::error, config.log.format);
    auto database = open_database(config.database, *log);
    if (!database) return complain(context, database.error());
    const auto steps = (*database)->migrate(arguments.dry_run);
    if (!steps) return complain(context, steps.error());

    if (arguments.json) {
        boost::json::array array;
        for (const store::MigrationStep& step : *steps) {
            boost::json::object object{{"version", step.version}, {"name", step.name}, {"applied", !arguments.dry_run}};
            if (arguments.dry_run) object["sql"] = step.sql;
            array.push_back(object);
        }
        context.out << boost::json::serialize(array) << "\n";
        return kDone;
    }
    if (arguments.dry_run) {
        for (const store::MigrationStep& step : *steps) {
            context.out << fmt::format("-- {:04} {}\n{}\n", step.version, step.name, step.sql);
        }
        if (steps->empty()) context.out << "-- nothing to do\n";
        return kDone;
    }
    for (const store::MigrationStep& step : *steps) {
        context.out << fmt::format("applied {:04} {}\n", step.version, step.name);
    }
    const auto report = (*database)->schema();
    if (!report) return complain(context, report.error());
    context.out << fmt::format("{}: {} version {}\n", (*database)->describe(),
                               steps->empty() ? "schema is up to date at" : "schema upgraded to",
                               report->found_version);
    return kDone;
}

}  // namespace deliverd::app
