// `serve`, `worker`, `demo` and `bench`: the commands that run lanes.
#include <boost/json.hpp>

#include "base/text.h"
#include "cli/command_tree.h"
#include "daemon/parts.h"
#include "daemon/service.h"
#include "daemon/stop_signals.h"
#include "demo/demo.h"

namespace deliverd::cli {

namespace {

Status run_serve(const Call& call) {
    const config::Config& config = call.config();
    daemon::StopSignals signals;  // before the service: its threads must inherit the blocked signals
    const auto log = make_stderr_log(config.log.level, config.log.format);
    TRY_ASSIGN(const auto service, daemon::Service::start(config, *log, nullptr));

    std::vector<std::string_view> lanes;
    for (const config::LaneConfig& lane : config.lanes) lanes.emplace_back(lane.options.name);
    log->info("serving", {{"version", daemon::version()},
                          {"name", config.app_name},
                          {"environment", config.environment},
                          {"api", service->address()},
                          {"database", service->database().describe()},
                          {"lanes", lanes.empty() ? "none" : fmt::format("{}", fmt::join(lanes, ", "))}});
    signals.wait();
    log->info("stopping: a second signal stops at once", {{"patience_seconds", to_seconds(config.shutdown_patience)}});
    signals.on_signal(2, [&service] { service->hurry(); });
    service->stop(config.shutdown_patience);
    // The second signal's action refers to the service, which ends first.
    signals.clear_actions();
    const pipeline::LaneTotals totals = service->totals();
    log->info("stopped", {{"claimed", totals.claimed},
                          {"sent", totals.sent},
                          {"duplicates", totals.duplicates},
                          {"retried", totals.retried},
                          {"dead", totals.dead},
                          {"released", totals.released},
                          {"abandoned", totals.abandoned}});
    return kDone;
}

struct WorkerArguments {
    std::string lane;
    bool once = false;
    bool loop = false;
    std::optional<std::string> worker_id;
};

Failure no_such_lane(const config::Config& config, const std::string& name) {
    std::vector<std::string_view> names;
    for (const config::LaneConfig& lane : config.lanes) names.emplace_back(lane.options.name);
    if (names.empty()) {
        return misused("no lane \"{}\": the configuration has no lanes; add it below `lanes:`", name);
    }
    const auto meant = nearest(name, names);
    return misused(
        "no lane \"{}\"; {}", name,
        meant ? fmt::format("did you mean \"{}\"?", *meant) : fmt::format("the lanes are: {}", fmt::join(names, ", ")));
}

using Totals = pipeline::LaneTotals;
constexpr std::pair<std::string_view, std::uint64_t Totals::*> kTotals[] = {
    {"claimed", &Totals::claimed},
    {"sent", &Totals::sent},
    {"duplicates", &Totals::duplicates},
    {"retried", &Totals::retried},
    {"dead", &Totals::dead},
    {"conflicts", &Totals::conflicts},
    {"abandoned", &Totals::abandoned},
    {"released", &Totals::released},
    {"put_off", &Totals::put_off},
    {"database_errors", &Totals::database_errors},
};

int print_summary(const Call& call, const std::string& lane, const std::string& worker_id, const Totals& totals) {
    boost::json::object object{{"lane", lane}, {"worker_id", worker_id}};
    std::string line;
    for (const auto& [name, total] : kTotals) {
        object[name] = totals.*total;
        // JSON keeps the name as it is, a person reads it as words.
        std::string words(name);
        std::ranges::replace(words, '_', ' ');
        line += fmt::format("{}{} {}", line.empty() ? "" : ", ", words, totals.*total);
    }
    return call.answer(boost::json::serialize(object), fmt::format("lane {}: {}", lane, line));
}

Status run_worker(const Call& call, const WorkerArguments& worker) {
    const config::Config& config = call.config();
    const config::LaneConfig* lane = config.find_lane(worker.lane);
    // Checked here and not by the option: the lanes are known only when the configuration is read.
    if (lane == nullptr) return no_such_lane(config, worker.lane);
    // A loop may wait for a database that somebody creates later; one batch of a missing one is a mistyped path.
    if (worker.once) TRY(daemon::require_existing(config.database));
    daemon::StopSignals signals;  // before the first thread, which must inherit the blocked signals
    const auto stderr_log = make_stderr_log(config.log.level, config.log.format);
    daemon::StartupLog log(*stderr_log);
    TRY_ASSIGN(const auto database, daemon::open_ready_database(config.database, log));
    SystemRandom random;
    // Two workers with one id would take each other's leases for their own: a made one has a random part.
    const std::string worker_id = worker.worker_id.value_or(daemon::make_worker_id(random));
    pipeline::Observer observer;
    TRY_ASSIGN(const auto unit, daemon::LaneUnit::make(*lane, config.orders, worker_id, *database, observer, log));
    // Until here the command itself reports what failed, in one line.
    log.open();

    const auto stop_at_once = [&] {
        unit->lane().hurry();
        database->limit_waits(pipeline::kHurriedGrace);
    };
    pipeline::LaneTotals totals;
    if (worker.once) {
        // run_once() blocks this thread, so here the first signal needs an action too.
        signals.on_signal(1, [&unit] { unit->lane().drain(); });
        signals.on_signal(2, stop_at_once);
        totals = unit->lane().run_once(config.shutdown_patience);
    } else {
        unit->lane().start();
        log.info("worker started", {{"lane", worker.lane}, {"worker_id", worker_id}});
        signals.wait();
        log.info("stopping: a second signal stops at once", {});
        signals.on_signal(2, stop_at_once);
        // A database call that hangs must not keep the worker beyond the patience that was promised.
        database->limit_waits(config.shutdown_patience + daemon::kDatabaseStopGrace);
        unit->lane().stop(config.shutdown_patience);
        totals = unit->lane().totals();
    }
    signals.clear_actions();  // they refer to the unit and the database, which end before the signals do
    print_summary(call, worker.lane, worker_id, totals);
    return worker.once && totals.anything_failed() ? kFailed : kDone;
}

}  // namespace

void add_serve(CommandTree& tree) {
    tree.add(nullptr,
             {"serve", "Run the API and all lanes",
              "  deliverd serve\n  deliverd serve --config /etc/deliverd.yaml\n"
              "SIGTERM or Ctrl-C finishes the work in progress, then stops; a second one stops at once."},
             run_serve);
}

void add_worker(CommandTree& tree) {
    const auto worker = std::make_shared<WorkerArguments>();
    CLI::App* app = tree.add(nullptr,
                             {"worker", "Run one lane, without the API",
                              "  deliverd worker --lane memories --once\n"
                              "  deliverd worker --lane memories --loop --batch-size 500 --worker-id blue-1\n"
                              "--once processes one batch. Exits with 1 if anything failed.",
                              "print the summary as JSON"},
                             [worker](const Call& call) { return run_worker(call, *worker); });
    app->add_option("--lane", worker->lane, "a name below `lanes:` in the configuration")->required();
    app->add_flag("--once", worker->once, "process one batch, then exit");
    app->add_flag("--loop", worker->loop, "run until SIGTERM or Ctrl-C");
    app->add_option("--worker-id", worker->worker_id, "unique on the table; otherwise host-pid-random");
    // Each overrides a setting of the lane, whose name is complete only when all words are read: see the callback.
    config::ConfigRequest& request = tree.request();
    const auto setting = [&](const std::string& flag, const std::string& path, const char* about) {
        app->add_option_function<std::string>(
               flag,
               [&request, flag, path](const std::string& text) { request.overrides.push_back({path, text, flag}); },
               about)
            ->type_name("N");
    };
    setting("--batch-size", "batch_size", "rows per claim");
    setting("--max-retries", "retry.max", "failures until a row is dead; orders: retries after the first send");
    setting("--base-backoff", "retry.base_seconds",
            "seconds; the wait after n failures is base * 2^n, orders: base * 2^(n-1)");
    setting("--loop-interval", "loop_interval_seconds", "longest wait between polls of an empty table, in seconds");
    setting("--lease-seconds", "lease_seconds", "seconds after which a claimed row is free again");
    app->callback([worker, &request] {
        if (worker->once == worker->loop) throw CLI::ValidationError("worker needs either --once or --loop");
        if (worker->worker_id && worker->worker_id->empty()) {
            throw CLI::ValidationError("--worker-id must not be empty");
        }
        // Options are read in any order, so --lane may come after the flags whose paths need its name.
        for (config::ConfigOverride& override : request.overrides) {
            override.path = fmt::format("lanes.{}.{}", worker->lane, override.path);
        }
    });
}

void add_demo(CommandTree& tree) {
    // Shared with `run`: the options write into it when the words are parsed, after this function has returned.
    const auto demo = std::make_shared<demo::DemoArguments>();
    const auto run = [demo](const Call& call) -> Status {
        const bool colour = !call.context.environment("NO_COLOR");
        TRY(demo::run_demo(*demo, call.context.out, colour));
        return kDone;
    };
    CLI::App* app = tree.add(nullptr,
                             {"demo", "Show deliverd at work with a temporary database and an unreliable receiver",
                              "  deliverd demo\n  deliverd demo --seconds 20 --rate 100"},
                             run, Needs::nothing);
    seconds(app, "--seconds", demo->seconds, 86400, "stop after this long");
    bounded<double>(app, "--rate", demo->rate, config::parse_number, "a number", 0.1, 5000, "memories per second");
    whole(app, "--port", demo->port, 0, 65535, "port of the API; otherwise 8080 if it is free, else any");
}

void add_bench(CommandTree& tree) {
    const auto bench = std::make_shared<demo::BenchArguments>();
    const auto run = [bench](const Call& call) -> Status {
        TRY(demo::run_bench(call.loaded, *bench, call.context.out, call.context.err));
        return kDone;
    };
    CLI::App* app =
        tree.add(nullptr,
                 {"bench", "Measure a lane with a sink that discards messages",
                  "  deliverd bench --database postgres:///scratch --rows 200000\n"
                  "Without a database it uses a temporary SQLite file. Otherwise the outbox table must be empty, and\n"
                  "its rows are removed at the end; --existing delivers the rows that are there, and keeps them."},
                 run);
    whole(app, "--rows", bench->rows, 1, 100'000'000, "rows to deliver");
    whole(app, "--batch-size", bench->batch_size, 1, 10000, "rows per claim and per settle");
    app->add_flag("--existing", bench->existing, "deliver the pending rows that are there");
    // A file and not a flag as elsewhere: people read the figures while they are kept.
    text(app, "--json FILE", bench->json_file, "also write the figures to this file");
}

}  // namespace deliverd::cli
