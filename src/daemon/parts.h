// The parts a command is made of, built from the configuration.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "base/uuid.h"
#include "config/config.h"
#include "deadletter/manager.h"
#include "deliverd/result.h"
#include "pipeline/engine.h"
#include "pipeline/observer.h"
#include "sink/sink.h"
#include "store/database.h"

namespace deliverd::daemon {

/// Drops warnings until open(): if the start fails, the command reports that in one line, and earlier warnings would
/// only repeat it. Thread-safe.
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

/// For commands that only make sense on an existing database: a missing SQLite file is an error that names it, so that
/// a mistyped path does not become an empty database. PostgreSQL reports a missing database itself.
[[nodiscard]] Result<void> require_existing(const config::DatabaseConfig& config);

/// Whether opening the database upgrades its schema: SQLite always, PostgreSQL only with `database.auto_migrate`.
[[nodiscard]] bool is_upgraded_by_itself(const config::DatabaseConfig& config, const store::SchemaReport& report);

/// open_database(), with the schema that this program knows: an old one is upgraded where is_upgraded_by_itself().
/// Otherwise an error that names the command to type.
[[nodiscard]] Result<std::unique_ptr<store::Database>> open_ready_database(const config::DatabaseConfig& config,
                                                                           Log& log);

[[nodiscard]] Result<std::unique_ptr<sink::Sink>> make_sink(const config::SinkConfig& config, Log& log);

/// The program's version, as CMakeLists.txt has it: "0.1.0".
[[nodiscard]] std::string_view version();

/// The name of this machine, at most 255 bytes.
[[nodiscard]] std::string host_name();

/// host-pid-random: unique among all processes on a table.
[[nodiscard]] std::string make_worker_id(Random& random);

/// "cli:ann": who is named in the audit for a change made by a command.
[[nodiscard]] std::string cli_actor();

/// `result`; the message of a failure then begins with what it is about: "WHAT: …".
template <typename Value>
[[nodiscard]] Result<Value> about(std::string_view what, Result<Value> result) {
    if (!result) result.error().message.insert(0, std::string(what) + ": ");
    return result;
}

/// After the patience of a stop, what a database call under way may still take.
inline constexpr Duration kDatabaseStopGrace = std::chrono::seconds(3);

/// One lane with everything it needs.
class LaneUnit {
public:
    /// `database`, `observer` and `log` outlive the unit.
    static Result<std::unique_ptr<LaneUnit>> make(const config::LaneConfig& config, const store::OrdersOptions& orders,
                                                  std::string worker_id, store::Database& database,
                                                  pipeline::Observer& observer, Log& log);

    /// Its stop() stops the sink too.
    [[nodiscard]] pipeline::Engine& lane() { return *runner_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    /// The outbox's lag_seconds().
    [[nodiscard]] Result<double> lag_seconds() { return outbox_ ? outbox_->lag_seconds() : events_->lag_seconds(); }

private:
    LaneUnit(std::string name, std::unique_ptr<sink::Sink> sink) : name_(std::move(name)), sink_(std::move(sink)) {}

    const std::string name_;
    std::unique_ptr<store::RowQueue> outbox_;     // one of the two
    std::unique_ptr<store::EventOutbox> events_;  // is set
    const std::unique_ptr<sink::Sink> sink_;
    SystemClock clock_;
    SystemRandom random_;
    std::unique_ptr<pipeline::Engine> runner_;
};

/// What happens to a redrive that Manager::close() interrupts: another process resumes it, or it ends permanently.
enum class WhenStopped { leave_redrives, end_redrives };

/// The dead-letter manager with what it needs of the database and of Kafka.
class DeadLetterUnit {
public:
    /// Without brokers, letters of Kafka cannot be sent. Connects by itself. `database`, `spools` and `log` outlive it.
    static Result<std::unique_ptr<DeadLetterUnit>> make(const config::DeadLettersConfig& config,
                                                        store::Database& database, deadletter::Spools* spools, Log& log,
                                                        WhenStopped when_stopped = WhenStopped::leave_redrives);

    [[nodiscard]] store::DeadLetters& letters() { return *letters_; }
    [[nodiscard]] deadletter::Manager& manager() { return manager_; }

    /// Begins no retry from now on. Waits up to `patience` for what is being published, then cuts it off: it ends in
    /// doubt. Callers of the manager may still be in it afterwards. Idempotent.
    void stop(Duration patience);
    /// A stop() under way no longer waits for a broker. Safe from any thread.
    void hurry() {
        if (replayer_) replayer_->stop();
    }

private:
    DeadLetterUnit(const deadletter::ManagerOptions& options, std::unique_ptr<store::DeadLetters> letters,
                   std::unique_ptr<deadletter::Replayer> replayer, deadletter::Spools* spools, Log& log)
        : letters_(std::move(letters)),
          replayer_(std::move(replayer)),
          manager_(options, *letters_, replayer_.get(), log, uuid_source(), spools) {}

    std::unique_ptr<store::DeadLetters> letters_;
    std::unique_ptr<deadletter::Replayer> replayer_;  // may be null
    deadletter::Manager manager_;
};

}  // namespace deliverd::daemon
