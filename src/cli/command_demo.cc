#include "base/try.h"
#include "cli/command_tree.h"
#include "demo/demo.h"

namespace deliverd::cli {

void add_demo(CommandTree& tree) {
    // Shared with `run`: the options write into it when the words are parsed, after this function has returned.
    const auto demo = std::make_shared<demo::DemoArguments>();
    const auto run = [demo](const Call& call) -> Status {
        const bool colour = !call.context.environment("NO_COLOR");
        TRY(demo::run_demo(*demo, call.context.out, colour));
        return kDone;
    };
    CLI::App* app = tree.add(nullptr,
                             {"demo", "Watch it work: throw-away database, unreliable receiver",
                              "  deliverd demo\n  deliverd demo --seconds 20 --rate 100"},
                             run, Needs::nothing);
    seconds(app, "--seconds", demo->seconds, 86400, "end after this long");
    bounded<double>(app, "--rate", demo->rate, config::parse_number, "a number", 0.1, 5000, "memories per second");
    whole(app, "--port", demo->port, 0, 65535, "port of the API; otherwise 8080 if it is free, else any");
}

void add_bench(CommandTree& tree) {
    const auto bench = std::make_shared<demo::BenchArguments>();
    const auto run = [bench](const Call& call) -> Status {
        TRY(demo::run_bench(call.loaded, *bench, call.context.out, call.context.err));
        return kDone;
    };
    CLI::App* app = tree.add(
        nullptr,
        {"bench", "Measure a lane with a sink that does nothing",
         "  deliverd bench --database postgres:///scratch --rows 200000\n"
         "Without a database it makes a throw-away SQLite file. Otherwise the outbox table must be empty, and its "
         "rows\n"
         "are removed at the end; --existing delivers the rows that are there, and keeps them."},
        run);
    whole(app, "--rows", bench->rows, 1, 100'000'000, "rows to deliver");
    whole(app, "--batch-size", bench->batch_size, 1, 10000, "rows per claim and per settle");
    app->add_flag("--existing", bench->existing, "deliver the pending rows that are there");
    // A file and not a flag as elsewhere: people read the figures while they are kept.
    text(app, "--json FILE", bench->json_file, "also write the figures to this file");
}

}  // namespace deliverd::cli
