#include "daemon/service.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <iterator>

#include "api/openapi.h"
#include "api/orders_routes.h"
#include "base/text.h"
#include "base/try.h"
#include "config/load.h"

namespace deliverd::daemon {

namespace {

constexpr Duration kReadyDeadline = std::chrono::milliseconds(800);  // within the second a prober usually waits
constexpr Duration kGaugeInterval = std::chrono::seconds(5);
constexpr Duration kServerStopPatience = std::chrono::seconds(5);
constexpr Duration kFileInterval = std::chrono::seconds(1);
/// Database connections, connections to receivers, files, and connections that are just being refused.
constexpr rlim_t kOwnDescriptors = 512;

/// Never lowers the limit of open files.
void make_room_for_connections(std::size_t connections, Log& log) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlim_t needed = connections + kOwnDescriptors;
    if (limit.rlim_cur < needed) {
        limit.rlim_cur = std::min(needed, limit.rlim_max);
        ::setrlimit(RLIMIT_NOFILE, &limit);
        ::getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= needed) return;
    log.warn(
        "too few open files are allowed for server.max_connections: raise the limit (ulimit -n) or lower the setting",
        {{"max_connections", connections}, {"needed", needed}, {"allowed", limit.rlim_cur}});
}

/// The API takes orders in any case: another process may have the lane.
void note_orders_nobody_sends(const config::Config& config, Log& log) {
    const bool sends = std::ranges::any_of(
        config.lanes, [](const config::LaneConfig& lane) { return lane.outbox == config::OutboxKind::orders; });
    if (!sends) log.info("this process has no lane of orders: posted orders wait for a process that has one", {});
}

std::string version_of(const std::string& path) {
    struct stat found{};
    if (stat(path.c_str(), &found) != 0) return "none";
    return fmt::format("{} {} {} {}.{}", found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec,
                       found.st_mtim.tv_nsec);
}

/// Calls `read` at once, and then whenever one of the files is changed, replaced, created or removed.
std::unique_ptr<Periodic> watch_files(std::vector<std::string> paths, std::function<void()> read) {
    return std::make_unique<Periodic>(
        [paths = std::move(paths), read = std::move(read), seen = std::string()]() mutable -> Duration {
            std::string versions;  // taken before the read: a change during the read is read again
            for (const std::string& path : paths) versions += version_of(path) + "\n";
            if (versions != std::exchange(seen, versions)) read();
            return kFileInterval;
        });
}

}  // namespace

Result<std::unique_ptr<Service>> Service::start(const config::Config& config, Log& log, pipeline::Observer* also) {
    std::unique_ptr<Service> service(new Service(log));
    TRY(service->start_all(config, also));
    return service;
}

Result<void> Service::start_all(const config::Config& config, pipeline::Observer* also) {
    metrics_.gauge("deliverd_build_info", "The program's version.", {{"version", std::string(version())}}).set(1);
    TRY_ASSIGN(database_, open_ready_database(config.database, log_));
    SystemRandom random;
    worker_ = make_worker_id(random);
    // Nothing of what follows runs yet: whatever is wrong with the configuration must be found before anything is sent.
    TRY(add_lanes(config, also));
    spool_returns_ = std::make_unique<SpoolReturns>(config.spools);
    TRY_ASSIGN(dead_letters_, DeadLetterService::make(config, *database_, *spool_returns_, metrics_, log_));
    TRY_ASSIGN(spools_, SpoolService::make(config.spools, database_->dead_letters(), *spool_returns_, metrics_, log_));
    TRY(open_upkeep(config));
    open_intake(config);
    // Before anything is sent: where the port is taken, nothing must have happened.
    TRY(start_server(config));
    log_.open();
    make_room_for_connections(config.server.max_connections, log_);
    note_orders_nobody_sends(config, log_);
    for (RunningLane& lane : lanes_) lane.unit->lane().start();
    dead_letters_->start();
    spools_->start();
    upkeep_->start();
    gauges_ = std::make_unique<Periodic>([this] {
        refresh_gauges();
        return kGaugeInterval;
    });
    return {};
}

Result<void> Service::add_lanes(const config::Config& config, pipeline::Observer* also) {
    for (const config::LaneConfig& lane : config.lanes) {
        // On the heap: the lane keeps a reference to its metrics, and the list grows.
        auto metrics = std::make_unique<LaneMetrics>(metrics_, lane.options.name, also);
        TRY_ASSIGN(auto unit, LaneUnit::make(lane, config.orders, fmt::format("{}-{}", worker_, lane.options.name),
                                             *database_, *metrics, log_));
        lanes_.push_back({std::move(metrics), std::move(unit)});
    }
    return {};
}

void Service::open_intake(const config::Config& config) {
    orders_ = database_->orders(config.orders);
    orders::IntakeOptions options = config.intake;
    const auto posted = [this](const char* result) {
        return metrics_.counter("orders_posted_total", "Posted orders, by what they turned out to be.",
                                {{"result", result}});
    };
    options.on_stored = [this, fresh = posted("accepted"), known = posted("known"),
                         conflict = posted("conflict")](store::AcceptKind kind) {
        if (kind == store::AcceptKind::fresh) ++orders_accepted_;
        (kind == store::AcceptKind::fresh ? fresh : kind == store::AcceptKind::known ? known : conflict).add(1);
    };
    intake_ = std::make_unique<orders::Intake>(options, *orders_, log_);
}

Result<void> Service::open_upkeep(const config::Config& config) {
    upkeep_store_ = database_->upkeep();
    std::vector<lane::Chore> chores{{"purge_ledger", config.upkeep.ledger_purge_interval, config.upkeep.batch_size,
                                     [this](std::int32_t piece) { return upkeep_store_->purge_ledger(piece); }}};
    for (const config::LaneConfig& lane : config.lanes) {
        if (lane.outbox != config::OutboxKind::events) continue;
        TRY_ASSIGN(auto outbox, database_->event_outbox(lane.events.table));
        const auto purge = [events = outbox.get(), keep = lane.events.keep_published](std::int32_t piece) {
            return events->remove_published(keep, piece);
        };
        event_tables_.push_back(std::move(outbox));
        chores.push_back({"purge_published_" + lane.options.name, config.upkeep.outbox_purge_interval,
                          config.upkeep.batch_size, purge});
    }
    std::ranges::move(dead_letters_->chores(), std::back_inserter(chores));
    upkeep_ = std::make_unique<lane::Upkeep>(std::move(chores), *upkeep_store_, worker_, clock_, log_);
    return {};
}

Result<void> Service::start_server(const config::Config& config) {
    const std::vector<api::ReadyCheck> checks{
        {"service", [this] { return std::string(stopping_ ? "stopping" : ""); }},
        api::cached_check({"database", [this] { return database_problem(); }}, clock_)};
    std::vector<api::Route> routes = api::service_routes(checks, metrics_, config.auth);
    for (auto& more : {api::openapi_routes(), api::orders_routes(*intake_, *orders_, log_), dead_letters_->routes()}) {
        std::ranges::copy(more, std::back_inserter(routes));
    }
    // A copy, which gets a function that reports unknown keys. Tokens and keys that change are shared with `config`.
    api::AuthOptions auth = config.auth;
    start_jwks(config, auth);
    auto handler = api::make_handler(std::move(routes), std::move(auth), log_, &metrics_);
    http::ServerOptions options = config.server;
    // Liveness must not depend on how busy the handlers are: a prober would restart a process that only has much to do.
    options.is_quick = [](const http::Request& request) { return request.path == "/healthz"; };
    options.refuse = std::move(handler.refuse);
    TRY_ASSIGN(server_, http::Server::start(options, std::move(handler.handle), api::make_error_body()));
    if (config.auth.file_tokens) watch_tokens(config);
    if (config.server.tls) watch_certificate(*config.server.tls);
    const std::string& host = config.server.host;
    const bool needs_brackets = host.find(':') != std::string::npos && !host.starts_with('[');
    address_ = fmt::format("{}://{}:{}", config.server.tls ? "https" : "http", needs_brackets ? "[" + host + "]" : host,
                           server_->port());
    return {};
}

// A watched file that cannot be read or is wrong is reported, and what was read from it before stays in use: a mistake
// in it must not lock everybody out.

void Service::watch_tokens(const config::Config& config) {
    const auto read = [this, file = config.tokens_file, list = config.auth.file_tokens] {
        std::vector<std::string> problems;
        auto tokens = config::read_tokens_file(file, problems);
        if (!problems.empty()) {
            return log_.error("the tokens file is invalid; the tokens were not changed",
                              {{"problem", problems.front()}});
        }
        log_.info("the tokens file was read", {{"file", file}, {"tokens", tokens.size()}});
        list->set(std::move(tokens));
    };
    file_watches_.push_back(watch_files({config.tokens_file}, read));
}

void Service::watch_certificate(const http::TlsFiles& files) {
    const auto read = [this, file = files.cert_file] {
        const auto until = server_->reload_tls();
        if (!until) {
            return log_.error("the TLS files are invalid; the certificate was not changed",
                              {{"problem", until.error().message}});
        }
        log_.info("the TLS files were read", {{"file", file}, {"valid_until", rfc3339_millis(*until)}});
    };
    file_watches_.push_back(watch_files({files.cert_file, files.key_file, files.client_ca_file}, read));
}

void Service::start_jwks(const config::Config& config, api::AuthOptions& auth) {
    if (!auth.jwt) return;
    const auto load = [source = config.jwks](const std::atomic<bool>& stopped) { return load_jwks(source, stopped); };
    const auto reader = std::make_shared<JwksReader>(load, config.jwks.name(), auth.jwt->keys, log_);
    if (config.jwks.url.empty()) {
        file_watches_.push_back(watch_files({config.jwks.file}, [reader] { reader->look(); }));
        return;
    }
    // A file is looked at every second in any case. A URL is not asked that often; a token by an unknown key is the
    // sign that it is worth it.
    jwks_refresh_ = std::make_unique<JwksRefresh>(reader, kJwksTimes);
    auth.jwt->on_unknown_key = [this] { jwks_refresh_->hurry(); };
}

std::string Service::database_problem() {
    // The ping has a deadline of its own, and the schema is read only from a database that answers.
    if (const auto answer = database_->ping(kReadyDeadline); !answer) return answer.error().message;
    const auto report = database_->schema();
    return report ? report->advice : report.error().message;
}

void Service::refresh_gauges() {
    for (const RunningLane& lane : lanes_) {
        // The lane and /readyz report an unreachable database; the gauge keeps its last value.
        if (const auto lag = lane.unit->lag_seconds()) lane.metrics->set_oldest_due(*lag);
    }
    dead_letters_->refresh();
}

void Service::stop(Duration patience) {
    // Once /readyz says "stopping", nothing more is sent.
    for (RunningLane& lane : lanes_) lane.unit->lane().drain();
    if (stopping_.exchange(true)) return;
    if (database_ == nullptr) return;  // start() failed before it
    // Otherwise a database call that hangs would keep the process for longer than the patience.
    database_->limit_waits(patience + kDatabaseStopGrace);
    // Each on a thread, so that all of them together take no longer than the patience.
    std::vector<std::thread> stoppers;
    for (RunningLane& lane : lanes_) {
        stoppers.emplace_back([&lane, patience] { lane.unit->lane().stop(patience); });
    }
    if (dead_letters_) stoppers.emplace_back([this, patience] { dead_letters_->stop(patience); });
    if (spools_) stoppers.emplace_back([this, patience] { spools_->stop(patience); });
    for (std::thread& stopper : stoppers) stopper.join();
    gauges_.reset();
    if (upkeep_) upkeep_->stop();
    if (server_) server_->stop(hurried_ || patience == Duration::zero() ? Duration::zero() : kServerStopPatience);
    if (intake_) intake_->stop();  // after the server, whose last requests wait for their orders to be stored
}

void Service::hurry() {
    hurried_ = true;
    for (RunningLane& lane : lanes_) lane.unit->lane().hurry();
    if (dead_letters_) dead_letters_->hurry();
    if (spools_) spools_->hurry();
    database_->limit_waits(pipeline::kHurriedGrace);
}

}  // namespace deliverd::daemon
