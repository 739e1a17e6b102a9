#include "daemon/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "api/api.h"
#include "api/openapi.h"
#include "api/orders_routes.h"
#include "base/mutex.h"
#include "base/text.h"
#include "base/try.h"
#include "config/load.h"

namespace deliverd::daemon {

namespace {

constexpr Duration kReadyDeadline = std::chrono::milliseconds(800);  // within the second a prober usually waits
constexpr Duration kGaugeInterval = std::chrono::seconds(5);
constexpr Duration kServerStopPatience = std::chrono::seconds(5);

std::string shown_host(const std::string& host) {
    return host.find(':') == std::string::npos || host.starts_with('[') ? host : "[" + host + "]";
}

}  // namespace

Result<std::unique_ptr<Service>> Service::start(const config::Config& config, Log& log, pipeline::Observer* also) {
    std::unique_ptr<Service> service(new Service(log));
    TRY(service->start_all(config, also));
    return service;
}

Service::Service(Log& log) : log_(log) {
    publish_build_info(metrics_);
}

Result<void> Service::start_all(const config::Config& config, pipeline::Observer* also) {
    TRY_ASSIGN(auto database, open_ready_database(config.database, log_));
    database_ = std::move(database);
    SystemRandom random;
    worker_ = make_worker_id(random);
    if (auto added = add_lanes(config, also); !added) return added;
    spool_returns_ = std::make_unique<SpoolReturns>(config.spools);
    TRY_ASSIGN(auto letters, DeadLetterService::make(config, *database_, *spool_returns_, metrics_, log_));
    dead_letters_ = std::move(letters);
    TRY_ASSIGN(auto spools,
               SpoolService::make(config.spools, database_->dead_letters(), *spool_returns_, metrics_, log_));
    spools_ = std::move(spools);
    if (auto opened = open_upkeep(config); !opened) return opened;
    open_intake(config);
    if (auto started = start_server(config); !started) return started;
    log_.open();
    warn_of_orders_nobody_sends(config);
    for (RunningLane& lane : lanes_) lane.unit->lane().start();
    dead_letters_->start();
    spools_->start();
    upkeep_->start();
    refresher_ = std::thread([this] { refresh_gauges(); });
    return {};
}

Service::~Service() {
    stop(Duration::zero());
}

Result<void> Service::add_lanes(const config::Config& config, pipeline::Observer* also) {
    for (const config::LaneConfig& lane : config.lanes) {
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

/// The API takes orders in any case: another process may have the lane.
void Service::warn_of_orders_nobody_sends(const config::Config& config) {
    const bool sends = std::ranges::any_of(
        config.lanes, [](const config::LaneConfig& lane) { return lane.outbox == config::OutboxKind::orders; });
    if (!sends) log_.info("no lane here sends orders: those posted wait for a process that has one", {});
}

Result<void> Service::start_server(const config::Config& config) {
    const std::vector<api::ReadyCheck> checks{
        {"service", [this] { return std::string(stopping_ ? "stopping" : ""); }},
        api::cached_check({"database", [this] { return database_problem(); }}, clock_)};
    std::vector<api::Route> routes = api::service_routes(checks, metrics_, config.auth);
    std::ranges::move(api::openapi_routes(), std::back_inserter(routes));
    std::ranges::move(api::orders_routes(*intake_, *orders_, log_), std::back_inserter(routes));
    std::ranges::move(dead_letters_->routes(), std::back_inserter(routes));
    api::AuthOptions auth = config.auth;
    start_jwks(config, auth);
    auto handler = api::make_handler(std::move(routes), std::move(auth), log_, &metrics_);
    http::ServerOptions options = config.server;
    // Liveness is not a question of how busy the handlers are.
    options.is_quick = [](const http::Request& request) { return request.path == "/healthz"; };
    options.refuse = std::move(handler.refuse);
    TRY_ASSIGN(auto server, http::Server::start(options, std::move(handler.handle), api::make_error_body()));
    server_ = std::move(server);
    watch_files(config);
    address_ = fmt::format("{}://{}:{}", config.server.tls ? "https" : "http", shown_host(config.server.host),
                           server_->port());
    return {};
}

/// A file that cannot be read or is wrong is reported, and what it was read for stays as it is.
void Service::watch_files(const config::Config& config) {
    if (const auto list = config.auth.file_tokens) {
        const auto read_tokens = [this, file = config.tokens_file, list] {
            std::vector<std::string> problems;
            auto tokens = config::read_tokens_file(file, problems);
            if (!problems.empty()) {
                return log_.error("the tokens file is wrong; the tokens stay as they were",
                                  {{"problem", problems.front()}});
            }
            log_.info("the tokens file was read", {{"file", file}, {"tokens", tokens.size()}});
            list->set(std::move(tokens));
        };
        tokens_watch_ = std::make_unique<FileWatch>(std::vector{config.tokens_file}, read_tokens);
    }
    if (const auto& tls = config.server.tls) {
        const auto read_certificate = [this, file = tls->cert_file] {
            const auto until = server_->reload_tls();
            if (!until) {
                return log_.error("the TLS files are wrong; the certificate stays as it was",
                                  {{"problem", until.error().message}});
            }
            log_.info("the TLS files were read", {{"file", file}, {"valid_until", rfc3339_millis(*until)}});
        };
        tls_watch_ = std::make_unique<FileWatch>(std::vector{tls->cert_file, tls->key_file, tls->client_ca_file},
                                                 read_certificate);
    }
}

void Service::start_jwks(const config::Config& config, api::AuthOptions& auth) {
    if (!auth.jwt) return;
    const auto load = [source = config.jwks](const std::atomic<bool>& stopped) { return load_jwks(source, stopped); };
    const auto reader = std::make_shared<JwksReader>(load, config.jwks.name(), auth.jwt->keys, log_);
    if (config.jwks.url.empty()) {
        jwks_watch_ = std::make_unique<FileWatch>(std::vector{config.jwks.file}, [reader] { reader->look(); });
        return;
    }
    jwks_refresh_ = std::make_unique<JwksRefresh>(reader, kJwksTimes);
    auth.jwt->on_unknown_key = [this] { jwks_refresh_->hurry(); };
}

std::string Service::database_problem() {
    if (const auto answer = database_->ping(kReadyDeadline); !answer) return answer.error().message;
    const auto report = database_->schema();
    return report ? report->advice : report.error().message;
}

void Service::refresh_gauges() {
    MutexLock lock(refresh_mutex_);
    while (!refresh_ends_) {
        lock.unlock();
        for (const RunningLane& lane : lanes_) {
            // The lane and /readyz report an unreachable database; the gauge keeps its last value.
            if (const auto lag = lane.unit->lag_seconds()) lane.metrics->set_oldest_due(*lag);
        }
        dead_letters_->refresh();
        lock.lock();
        refresh_wake_.wait_for(refresh_mutex_, kGaugeInterval,
                               [this]() REQUIRES(refresh_mutex_) { return refresh_ends_; });
    }
}

void Service::stop(Duration patience) {
    // Once /readyz says "stopping", nothing more is sent.
    for (RunningLane& lane : lanes_) lane.unit->lane().drain();
    if (stopping_.exchange(true)) return;
    if (database_ == nullptr) return;  // start() failed before it
    database_->limit_waits(patience + kDatabaseStopGrace);
    std::vector<std::thread> stoppers;
    for (RunningLane& lane : lanes_) {
        stoppers.emplace_back([&lane, patience] { lane.unit->stop(patience); });
    }
    if (dead_letters_) stoppers.emplace_back([this, patience] { dead_letters_->stop(patience); });
    if (spools_) stoppers.emplace_back([this, patience] { spools_->stop(patience); });
    for (std::thread& stopper : stoppers) stopper.join();
    {
        const MutexLock lock(refresh_mutex_);
        refresh_ends_ = true;
    }
    refresh_wake_.notify_all();
    if (refresher_.joinable()) refresher_.join();
    if (upkeep_) upkeep_->stop();
    if (server_) server_->stop(hurried_ || patience == Duration::zero() ? Duration::zero() : kServerStopPatience);
    if (intake_) intake_->stop();
}

void Service::hurry() {
    hurried_ = true;
    for (RunningLane& lane : lanes_) lane.unit->lane().hurry();
    if (dead_letters_) dead_letters_->hurry();
    if (spools_) spools_->hurry();
    database_->limit_waits(pipeline::kHurriedGrace);
}

pipeline::LaneTotals Service::totals() const {
    pipeline::LaneTotals sum;
    for (const RunningLane& lane : lanes_) sum += lane.unit->lane().totals();
    return sum;
}

pipeline::LaneTotals Service::totals_of(std::string_view lane) const {
    for (const RunningLane& running : lanes_) {
        if (running.unit->name() == lane) return running.unit->lane().totals();
    }
    return {};
}

}  // namespace deliverd::daemon
