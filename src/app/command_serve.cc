#include <fmt/format.h>

#include "app/command.h"
#include "app/descriptors.h"
#include "app/service.h"
#include "app/stop_signals.h"

namespace deliverd::app {

int run_serve(const Context& context, const Config& config) {
    StopSignals signals;
    const auto log = make_stderr_log(config.log.level, config.log.format);
    auto service = Service::start(config, *log, nullptr);
    if (!service) return complain(context, service.error());
    make_room_for_connections(config.server.max_connections, *log);

    std::string lanes;
    for (const LaneConfig& lane : config.lanes) lanes += (lanes.empty() ? "" : ", ") + lane.options.name;
    log->info("serving", {{"version", version()},
                          {"name", config.app_name},
                          {"environment", config.environment},
                          {"api", (*service)->address()},
                          {"database", (*service)->database().describe()},
                          {"lanes", lanes.empty() ? std::string("none") : lanes}});
    signals.wait();
    log->info("stopping: a second signal stops at once", {{"patience_seconds", to_seconds(config.shutdown_patience)}});
    signals.on_signal(2, [&service] { (*service)->hurry(); });
    (*service)->stop(config.shutdown_patience);
    signals.clear_actions();
    const pipeline::LaneTotals totals = (*service)->totals();
    log->info("stopped", {{"claimed", totals.claimed},
                          {"sent", totals.sent},
                          {"duplicates", totals.duplicates},
                          {"retried", totals.retried},
                          {"dead", totals.dead},
                          {"released", totals.released},
                          {"abandoned", totals.abandoned}});
    return kDone;
}

}  // namespace deliverd::app
