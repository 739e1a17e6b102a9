// The parts a command is made of, built from the configuration.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/log.h"
#include "base/random.h"
#include "config/config.h"
#include "deliverd/result.h"
#include "lane/lane_options.h"
#include "pipeline/engine.h"
#include "pipeline/observer.h"
#include "relay/relay_options.h"
#include "sink/sink.h"
#include "store/database.h"

namespace deliverd::daemon {

/// Keeps warnings back until open(): a start that fails is told by the command, in one line, and what
/// the parts warn of on the way there would only repeat it. Thread-safe.
class StartupLog final : public Log {
public:
    explicit StartupLog(Log& log) : log_(log) {}
    void open() { open_ = true; }
    void write(LogLevel level, std::string_view event, Fields fields) override {
        if (open_ || level != LogLevel::warn) log_.write(level, event, fields);
    }

private:
    Log& log_;
    std::atomic<bool> open_ = false;
};

/// Opens lazily (see store/postgres/postgres.h): an unreachable server is the first call's error.
[[nodiscard]] Result<std::unique_ptr<store::Database>> open_database(const config::DatabaseConfig& config, Log& log);

/// For commands that only make sense on a database somebody made before: a SQLite file that is not there is an
/// error that names it, so that a mistyped path does not become an empty database. PostgreSQL says so itself.
[[nodiscard]] Result<void> require_existing(const config::DatabaseConfig& config);

/// Makes sure the schema is the one this program knows: SQLite is upgraded, PostgreSQL only with
/// `database.auto_migrate`. Otherwise an error that names the command to type.
[[nodiscard]] Result<void> require_schema(store::Database& database, const config::DatabaseConfig& config, Log& log);

/// Both of the above.
[[nodiscard]] Result<std::unique_ptr<store::Database>> open_ready_database(const config::DatabaseConfig& config,
                                                                           Log& log);

[[nodiscard]] Result<std::unique_ptr<sink::Sink>> make_sink(const config::SinkConfig& config, Log& log);

/// host-pid-random: unique among all processes on a table.
[[nodiscard]] std::string make_worker_id(Random& random);

/// "cli:ann": who changes something from the shell.
[[nodiscard]] std::string cli_actor();

/// After the patience of a stop, what a database call under way may still take.
inline constexpr Duration kDatabaseStopGrace = std::chrono::seconds(3);

/// One lane with everything it needs, put together and taken apart in the right order.
class LaneUnit {
public:
    /// `database`, `observer` and `log` outlive the unit.
    static Result<std::unique_ptr<LaneUnit>> make(const config::LaneConfig& config, const store::OrdersOptions& orders,
                                                  std::string worker_id, store::Database& database,
                                                  pipeline::Observer& observer, Log& log);

    /// A lane that claims rows.
    LaneUnit(lane::LaneOptions options, std::unique_ptr<store::RowQueue> outbox, std::unique_ptr<sink::Sink> sink,
             pipeline::Observer& observer, Log& log);
    /// A lane that relays events in order.
    LaneUnit(relay::RelayOptions options, std::unique_ptr<store::EventOutbox> outbox, std::unique_ptr<sink::Sink> sink,
             pipeline::Observer& observer, Log& log);

    [[nodiscard]] pipeline::Engine& lane() { return *runner_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    /// The outbox's lag_seconds().
    [[nodiscard]] Result<double> lag_seconds();

    /// The lane's stop(), then the sink's.
    void stop(Duration patience);

private:
    std::string name_;
    std::unique_ptr<store::RowQueue> outbox_;     // one of the two
    std::unique_ptr<store::EventOutbox> events_;  // is set
    std::unique_ptr<sink::Sink> sink_;
    SystemClock clock_;
    SystemRandom random_;
    std::unique_ptr<pipeline::Engine> runner_;
};

}  // namespace deliverd::daemon
