#include <fmt/format.h>

#include "base/try.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "daemon/descriptors.h"
#include "daemon/service.h"
#include "daemon/stop_signals.h"
#include "daemon/version.h"

namespace deliverd::cli {

namespace {

Status run_serve(const Call& call) {
    const config::Config& config = call.config();
    daemon::StopSignals signals;  // before the service: its threads must inherit the blocked signals
    const auto log = make_stderr_log(config.log.level, config.log.format);
    TRY_ASSIGN(const auto service, daemon::Service::start(config, *log, nullptr));
    daemon::make_room_for_connections(config.server.max_connections, *log);

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

}  // namespace

void add_serve(CommandTree& tree) {
    tree.add(nullptr,
             {"serve", "Run the API and all lanes",
              "  deliverd serve\n  deliverd serve --config /etc/deliverd.yaml\n"
              "SIGTERM or Ctrl-C drains; a second one stops at once."},
             run_serve);
}

}  // namespace deliverd::cli
