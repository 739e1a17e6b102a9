#include <fmt/format.h>

#include "cli/command_tree.h"
#include "cli/commands.h"
#include "demo/bench.h"
#include "demo/demo.h"

namespace deliverd::cli {

namespace {

int status_of(const Context& context, const Result<void>& ran) {
    return ran ? kDone : complain(context, ran.error());
}

}  // namespace

void add_demo(CommandTree& tree) {
    const auto demo = std::make_shared<demo::DemoArguments>();
    CLI::App* app = tree.add(
        nullptr,
        {"demo", "Watch it work: throw-away database, unreliable receiver",
         "  deliverd demo\n  deliverd demo --seconds 20 --rate 100"},
        [demo](const Call& call) {
            const bool colour = !call.context.environment("NO_COLOR");
            return status_of(call.context, demo::run_demo(*demo, call.context.out, colour));
        },
        Needs::nothing);
    seconds(app, "--seconds", demo->seconds, 86400, "end after this long");
    bounded<double>(app, "--rate", demo->rate, config::parse_number, "a number", 0.1, 5000, "memories per second");
    whole(app, "--port", demo->port, 0, 65535, "port of the API; otherwise 8080 if it is free, else any");
}

void add_bench(CommandTree& tree) {
    const auto bench = std::make_shared<demo::BenchArguments>();
    CLI::App* app = tree.add(
        nullptr,
        {"bench", "Measure a lane with a sink that does nothing",
         "  deliverd bench --database postgres:///scratch --rows 200000\n"
         "Without a database it makes a throw-away SQLite file. Otherwise the outbox table must be empty, and its "
         "rows\n"
         "are removed at the end; --existing delivers the rows that are there, and keeps them."},
        [bench](const Call& call) {
            return status_of(call.context, demo::run_bench(call.loaded, *bench, call.context.out, call.context.err));
        });
    whole(app, "--rows", bench->rows, 1, 100'000'000, "rows to deliver")->default_str(std::to_string(bench->rows));
    whole(app, "--batch-size", bench->batch_size, 1, 10000, "rows per claim and per settle")
        ->default_str(std::to_string(bench->batch_size));
    app->add_flag("--existing", bench->existing, "deliver the pending rows that are there");
    app->add_option("--json", bench->json_file, "also write the figures to this file")->type_name("FILE");
}

}  // namespace deliverd::cli
