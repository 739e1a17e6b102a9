#include <boost/json.hpp>

#include "base/try.h"
#include "cli/command_tree.h"
#include "daemon/parts.h"

namespace deliverd::cli {

namespace {

Status run_migrate(const Call& call, bool dry_run) {
    const auto log = make_stderr_log(LogLevel::error, call.config().log.format);
    // Not open_ready_database(), which refuses the schema that this command is there to change.
    TRY_ASSIGN(const auto database, daemon::open_database(call.config().database, *log));
    TRY_ASSIGN(const auto steps, database->migrate(dry_run));
    if (call.json) {
        boost::json::array array;
        for (const store::MigrationStep& step : steps) {
            boost::json::object object{{"version", step.version}, {"name", step.name}, {"applied", !dry_run}};
            // The text of what was applied is in the program; only who has to run it by hand needs it.
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
