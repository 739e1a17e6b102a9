#include <fmt/format.h>

#include <boost/json.hpp>

#include "app/command.h"
#include "app/parts.h"
#include "app/stop_signals.h"
#include "base/text.h"

namespace deliverd::app {

namespace {

int no_such_lane(const Context& context, const Config& config, const std::string& name) {
    std::vector<std::string_view> names;
    for (const LaneConfig& lane : config.lanes) names.emplace_back(lane.options.name);
    if (names.empty()) {
        return complain(context, kWrongUsage,
                        fmt::format("no lane \"{}\": the configuration has none; add it below `lanes:`", name));
    }
    const auto meant = nearest(name, names);
    return complain(context, kWrongUsage,
                    fmt::format("no lane \"{}\"; {}", name,
                                meant ? fmt::format("did you mean \"{}\"?", *meant)
                                      : fmt::format("there are: {}", fmt::join(names, ", "))));
}

void print_summary(const Context& context, const std::string& lane, const std::string& worker_id,
                   const pipeline::LaneTotals& t, bool json) {
    if (json) {
        const boost::json::object object{
            {"lane", lane},           {"worker_id", worker_id},     {"claimed", t.claimed},
            {"sent", t.sent},         {"duplicates", t.duplicates}, {"retried", t.retried},
            {"dead", t.dead},         {"conflicts", t.conflicts},   {"abandoned", t.abandoned},
            {"released", t.released}, {"put_off", t.put_off},       {"database_errors", t.database_errors},
        };
        context.out << boost::json::serialize(object) << "\n";
        return;
    }
    context.out << fmt::format(
        "lane {}: claimed {}, sent {}, duplicates {}, retried {}, dead {}, conflicts {}, abandoned {}, released {}, "
        "put off {}, database errors {}\n",
        lane, t.claimed, t.sent, t.duplicates, t.retried, t.dead, t.conflicts, t.abandoned, t.released, t.put_off,
        t.database_errors);
}

}  // namespace

int run_worker(const Context& context, const Config& config, const Arguments& arguments) {
    const WorkerArguments& worker = arguments.worker;
    const LaneConfig* lane = config.find_lane(worker.lane);
    if (lane == nullptr) return no_such_lane(context, config, worker.lane);

    if (worker.once) {
        if (const auto there = require_existing(config.database); !there) return complain(context, there.error());
    }
    StopSignals signals;
    const auto stderr_log = make_stderr_log(config.log.level, config.log.format);
    StartupLog log(*stderr_log);
    auto database = open_ready_database(config.database, log);
    if (!database) return complain(context, database.error());
    SystemRandom random;
    const std::string worker_id = worker.worker_id.value_or(make_worker_id(random));
    pipeline::Observer observer;
    auto unit = LaneUnit::make(*lane, config.orders, worker_id, **database, observer, log);
    if (!unit) return complain(context, unit.error());
    log.open();

    const auto stop_at_once = [&] {
        (*unit)->lane().hurry();
        (*database)->limit_waits(pipeline::kHurriedGrace);
    };
    pipeline::LaneTotals totals;
    if (worker.once) {
        signals.on_signal(1, [&unit] { (*unit)->lane().drain(); });
        signals.on_signal(2, stop_at_once);
        totals = (*unit)->lane().run_once(config.shutdown_patience);
    } else {
        (*unit)->lane().start();
        log.info("worker started", {{"lane", worker.lane}, {"worker_id", worker_id}});
        signals.wait();
        log.info("stopping: a second signal stops at once", {});
        signals.on_signal(2, stop_at_once);
        (*database)->limit_waits(config.shutdown_patience + kDatabaseStopGrace);
        (*unit)->stop(config.shutdown_patience);
        totals = (*unit)->lane().totals();
    }
    signals.clear_actions();
    print_summary(context, worker.lane, worker_id, totals, arguments.json);
    return worker.once && totals.anything_failed() ? kFailed : kDone;
}

}  // namespace deliverd::app
