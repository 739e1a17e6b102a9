// Everything `serve` runs, started together and stopped in order: lanes, order intake, dead letters, API, upkeep.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "config/config.h"
#include "daemon/dead_letter_service.h"
#include "daemon/jwks_refresh.h"
#include "daemon/lane_metrics.h"
#include "daemon/parts.h"
#include "daemon/periodic.h"
#include "daemon/spool_letters.h"
#include "daemon/spool_service.h"
#include "http/server.h"
#include "lane/upkeep.h"
#include "metrics/metrics.h"
#include "orders/intake.h"
#include "store/database.h"

namespace deliverd::daemon {

class Service {
public:
    /// Opens the database, then starts the API and the lanes. An unreachable database or a wrong schema is an error
    /// here; later outages are survived. Makes room for `server.max_connections`: raises the soft limit of open files,
    /// and warns where the hard limit is too low. `log` outlives it, and so does `also`, which gets what lanes
    /// observe and may be null.
    static Result<std::unique_ptr<Service>> start(const config::Config& config, Log& log, pipeline::Observer* also);

    ~Service() { stop(Duration::zero()); }

    /// Drains all lanes at once, each for up to `patience`, with the API still answering; then stops the API.
    /// Idempotent; one thread at a time.
    void stop(Duration patience);

    /// Makes a stop() under way end within about pipeline::kHurriedGrace. Safe from any thread.
    void hurry();

    /// "http://127.0.0.1:8080"; https with `server.tls`.
    [[nodiscard]] const std::string& address() const { return address_; }
    [[nodiscard]] store::Database& database() { return *database_; }
    [[nodiscard]] std::int64_t orders_accepted() const { return orders_accepted_; }  // over the API, each once
    /// Of the lanes with this name; empty: of all lanes together.
    [[nodiscard]] pipeline::LaneTotals totals(std::string_view lane = {}) const {
        pipeline::LaneTotals sum;
        for (const RunningLane& running : lanes_) {
            if (lane.empty() || running.unit->name() == lane) sum += running.unit->lane().totals();
        }
        return sum;
    }

private:
    struct RunningLane {
        std::unique_ptr<LaneMetrics> metrics;
        std::unique_ptr<LaneUnit> unit;
    };

    explicit Service(Log& log) : log_(log) {}
    Result<void> start_all(const config::Config& config, pipeline::Observer* also);
    Result<void> add_lanes(const config::Config& config, pipeline::Observer* also);
    void open_intake(const config::Config& config);
    Result<void> open_upkeep(const config::Config& config);
    Result<void> start_server(const config::Config& config);
    void watch_tokens(const config::Config& config);
    void watch_certificate(const http::TlsFiles& files);
    /// Begins to keep the keys of auth.jwt up to date, and makes `auth` report tokens by unknown keys.
    void start_jwks(const config::Config& config, api::AuthOptions& auth);
    void refresh_gauges();
    [[nodiscard]] std::string database_problem();

    StartupLog log_;
    std::unique_ptr<store::Database> database_;
    metrics::Metrics metrics_;
    std::vector<RunningLane> lanes_;
    std::atomic<std::int64_t> orders_accepted_ = 0;
    std::unique_ptr<store::Orders> orders_;
    std::unique_ptr<orders::Intake> intake_;
    std::unique_ptr<SpoolReturns> spool_returns_;
    std::unique_ptr<DeadLetterService> dead_letters_;
    std::unique_ptr<SpoolService> spools_;
    std::unique_ptr<JwksRefresh> jwks_refresh_;
    std::unique_ptr<http::Server> server_;  // after those in which its requests end
    std::vector<std::unique_ptr<Periodic>> file_watches_;
    std::string address_;
    std::string worker_;
    const SystemClock clock_;
    std::unique_ptr<store::Upkeep> upkeep_store_;
    std::vector<std::unique_ptr<store::EventOutbox>> event_tables_;  // those the upkeep cleans
    std::unique_ptr<lane::Upkeep> upkeep_;
    std::atomic<bool> stopping_ = false;
    std::atomic<bool> hurried_ = false;
    std::unique_ptr<Periodic> gauges_;
};

}  // namespace deliverd::daemon
