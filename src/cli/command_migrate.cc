#include <fmt/format.h>

#include <boost/json.hpp>

#include "cli/command_tree.h"
#include "cli/commands.h"
#include "daemon/parts.h"

namespace deliverd::cli {

namespace {

int run_migrate(const Call& call, bool dry_run) {
    const Context& context = call.context;
    const config::Config& config = call.config();
    const auto log = make_stderr_log(LogLevel::error, config.log.format);
    auto database = daemon::open_database(config.database, *log);
    if (!database) return complain(context, database.error());
    const auto steps = (*database)->migrate(dry_run);
    if (!steps) return complain(context, steps.error());

    if (call.json) {
        boost::json::array array;
        for (const store::MigrationStep& step : *steps) {
            boost::json::object object{{"version", step.version}, {"name", step.name}, {"applied", !dry_run}};
            if (dry_run) object["sql"] = step.sql;
            array.push_back(object);
        }
        context.out << boost::json::serialize(array) << "\n";
        return kDone;
    }
    if (dry_run) {
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

}  // namespace

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
