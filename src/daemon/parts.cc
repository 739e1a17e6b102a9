#include "daemon/parts.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "base/try.h"
#include "daemon/null_sink.h"
#include "lane/lane.h"
#include "relay/relay.h"
#include "sink/console/console_sink.h"
#include "sink/http/http_sink.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/nats/nats_sink.h"
#include "sink/rabbitmq/rabbitmq_sink.h"
#include "store/postgres/postgres.h"
#include "store/sqlite/sqlite.h"

namespace deliverd::daemon {

Result<std::unique_ptr<store::Database>> open_database(const config::DatabaseConfig& config, Log& log) {
    if (config.kind == config::DatabaseTarget::Kind::sqlite) return store::open_sqlite(config.sqlite, log);
    return store::open_postgres(config.postgres, log);
}

Result<void> require_existing(const config::DatabaseConfig& config) {
    if (config.kind != config::DatabaseTarget::Kind::sqlite) return {};
    std::error_code fault;
    if (std::filesystem::exists(config.sqlite.path, fault) || fault) return {};  // opening tells of other faults
    return permanent("db_missing", fmt::format("there is no SQLite database {}; is the path right? "
                                               "`deliverd migrate` makes a new one",
                                               config.sqlite.path));
}

Result<void> require_schema(store::Database& database, const config::DatabaseConfig& config, Log& log) {
    TRY_ASSIGN(const auto report, database.schema());
    if (report.state == store::SchemaState::current) return {};
    const bool upgradable = report.state == store::SchemaState::missing || report.state == store::SchemaState::old;
    const bool allowed = config.kind == config::DatabaseTarget::Kind::sqlite || config.auto_migrate;
    if (!upgradable || !allowed) return permanent("schema", report.advice);
    TRY_ASSIGN(const auto steps, database.migrate(false));
    for (const store::MigrationStep& step : steps) {
        log.info("migration applied", {{"version", step.version}, {"name", step.name}});
    }
    return {};
}

Result<std::unique_ptr<store::Database>> open_ready_database(const config::DatabaseConfig& config, Log& log) {
    auto database = open_database(config, log);
    if (!database) return database;
    TRY(require_schema(**database, config, log));
    return database;
}

Result<std::unique_ptr<sink::Sink>> make_sink(const config::SinkConfig& config, Log& log) {
    switch (config.type) {
        case config::SinkConfig::Type::http:
            return sink::make_http_sink(config.http, log);
        case config::SinkConfig::Type::kafka:
            return sink::make_kafka_sink(config.kafka, log);
        case config::SinkConfig::Type::rabbitmq:
            return sink::make_rabbitmq_sink(config.rabbitmq, log);
        case config::SinkConfig::Type::nats:
            return sink::make_nats_sink(config.nats, log);
        case config::SinkConfig::Type::console:
            return sink::make_console_sink(stdout);
        case config::SinkConfig::Type::none:
            return make_null_sink();
    }
    return bad_argument("unknown type of sink");
}

std::string make_worker_id(Random& random) {
    constexpr std::size_t kMaxHostName = 256;
    std::array<char, kMaxHostName> host{};
    if (gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
    return fmt::format("{}-{}-{:08x}", host.data(), getpid(), random.next() >> 32U);
}

std::string cli_actor() {
    constexpr std::size_t kBufferBytes = 16 * 1024;
    std::string buffer(kBufferBytes, '\0');
    passwd entry{};
    passwd* found = nullptr;
    if (getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
        return fmt::format("cli:{}", found->pw_name);
    }
    return fmt::format("cli:{}", geteuid());
}

Result<std::unique_ptr<LaneUnit>> LaneUnit::make(const config::LaneConfig& config, const store::OrdersOptions& orders,
                                                 std::string worker_id, store::Database& database,
                                                 pipeline::Observer& observer, Log& log) {
    auto sink = make_sink(config.sink, log);
    if (!sink) {
        return tl::unexpected(Error{sink.error().error_class, sink.error().code,
                                    fmt::format("lanes.{}.sink: {}", config.options.name, sink.error().message)});
    }
    if (config.outbox == config::OutboxKind::events) {
        TRY_ASSIGN(auto outbox, database.event_outbox(config.events.table));
        relay::RelayOptions options = config.events.relay;
        // What a person chose with --worker-id may be used twice, and two that are called the same would share the
        // shards.
        options.worker_id = fmt::format("{}-{:08x}", worker_id, SystemRandom().next() >> 32U);
        return std::make_unique<LaneUnit>(std::move(options), std::move(outbox), std::move(*sink), observer, log);
    }
    lane::LaneOptions options = config.options;
    options.worker_id = std::move(worker_id);
    auto outbox = config.outbox == config::OutboxKind::orders ? database.orders_outbox(orders, options.name)
                                                              : database.memory_outbox(options.name);
    return std::make_unique<LaneUnit>(std::move(options), std::move(outbox), std::move(*sink), observer, log);
}

LaneUnit::LaneUnit(lane::LaneOptions options, std::unique_ptr<store::RowQueue> outbox, std::unique_ptr<sink::Sink> sink,
                   pipeline::Observer& observer, Log& log)
    : name_(options.name),
      outbox_(std::move(outbox)),
      sink_(std::move(sink)),
      runner_(std::make_unique<lane::Lane>(std::move(options), *outbox_, *sink_, clock_, random_, observer, log)) {}

LaneUnit::LaneUnit(relay::RelayOptions options, std::unique_ptr<store::EventOutbox> outbox,
                   std::unique_ptr<sink::Sink> sink, pipeline::Observer& observer, Log& log)
    : name_(options.name),
      events_(std::move(outbox)),
      sink_(std::move(sink)),
      runner_(std::make_unique<relay::Relay>(std::move(options), *events_, *sink_, clock_, random_, observer, log)) {}

Result<double> LaneUnit::lag_seconds() {
    return outbox_ != nullptr ? outbox_->lag_seconds() : events_->lag_seconds();
}

void LaneUnit::stop(Duration patience) {
    runner_->stop(patience);
    sink_->stop(Duration::zero());
}

}  // namespace deliverd::daemon
