#include "daemon/parts.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "base/try.h"
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

namespace {

/// For benchmarks (`sink: {type: none}`): what a lane costs without a receiver.
class NullSink final : public sink::Sink {
public:
    void send(std::span<const Message* const> messages, sink::OutcomeReceiver& receiver) override {
        for (const Message* message : messages) receiver.on_outcome(*message, {.kind = OutcomeKind::delivered});
    }
    void stop(Duration /*patience*/) override {}
    Result<void> check(Duration /*deadline*/) override { return {}; }
};

}  // namespace

Result<std::unique_ptr<store::Database>> open_database(const config::DatabaseConfig& config, Log& log) {
    if (config.is_sqlite()) return store::open_sqlite(config.sqlite, log);
    return store::open_postgres(config.postgres, log);
}

Result<void> require_existing(const config::DatabaseConfig& config) {
    if (!config.is_sqlite()) return {};
    std::error_code fault;
    if (std::filesystem::exists(config.sqlite.path, fault) || fault) return {};  // opening reports other faults
    return permanent("db_missing", fmt::format("SQLite database {} does not exist; correct the path, or create the "
                                               "database with `deliverd migrate`",
                                               config.sqlite.path));
}

bool is_upgraded_by_itself(const config::DatabaseConfig& config, const store::SchemaReport& report) {
    const bool upgradable = report.state == store::SchemaState::missing || report.state == store::SchemaState::old;
    return upgradable && (config.is_sqlite() || config.auto_migrate);
}

Result<std::unique_ptr<store::Database>> open_ready_database(const config::DatabaseConfig& config, Log& log) {
    TRY_ASSIGN(auto database, open_database(config, log));
    TRY_ASSIGN(const auto report, database->schema());
    if (report.state == store::SchemaState::current) return database;
    if (!is_upgraded_by_itself(config, report)) return permanent("schema", report.advice);
    TRY_ASSIGN(const auto steps, database->migrate(false));
    for (const store::MigrationStep& step : steps) {
        log.info("migration applied", {{"version", step.version}, {"name", step.name}});
    }
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
            return std::make_unique<NullSink>();
    }
    return bad_argument("unknown type of sink");
}

std::string_view version() {
    return DELIVERD_VERSION;
}

std::string host_name() {
    constexpr std::size_t kMaxHostName = 256;
    std::array<char, kMaxHostName> host{};
    // One byte less: a name that is cut may come without its end.
    return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "host";
}

std::string make_worker_id(Random& random) {
    return fmt::format("{}-{}-{:08x}", host_name(), getpid(), random.next() >> 32U);
}

std::string cli_actor() {
    // sysconf(_SC_GETPW_R_SIZE_MAX) is only a hint, and -1 on some systems. A user without an entry is named by number.
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
    const std::string& name = config.options.name;
    TRY_ASSIGN(auto sink, about(fmt::format("lanes.{}.sink", name), make_sink(config.sink, log)));
    std::unique_ptr<LaneUnit> unit(new LaneUnit(name, std::move(sink)));
    if (config.outbox == config::OutboxKind::events) {
        TRY_ASSIGN(unit->events_, database.event_outbox(config.events.table));
        relay::RelayOptions options = config.events.relay;
        // A person may give the same --worker-id to two processes, which would then share the shards.
        options.worker_id = fmt::format("{}-{:08x}", worker_id, SystemRandom().next() >> 32U);
        unit->runner_ = std::make_unique<relay::Relay>(std::move(options), *unit->events_, *unit->sink_, unit->clock_,
                                                       unit->random_, observer, log);
        return unit;
    }
    lane::LaneOptions options = config.options;
    options.worker_id = std::move(worker_id);
    unit->outbox_ = config.outbox == config::OutboxKind::orders ? database.orders_outbox(orders, name)
                                                                : database.memory_outbox(name);
    unit->runner_ = std::make_unique<lane::Lane>(std::move(options), *unit->outbox_, *unit->sink_, unit->clock_,
                                                 unit->random_, observer, log);
    return unit;
}

Result<std::unique_ptr<DeadLetterUnit>> DeadLetterUnit::make(const config::DeadLettersConfig& config,
                                                             store::Database& database, deadletter::Spools* spools,
                                                             Log& log, WhenStopped when_stopped) {
    std::unique_ptr<deadletter::Replayer> replayer;
    if (!config.kafka.brokers.empty()) {
        TRY_ASSIGN(replayer, about("kafka", deadletter::make_replayer(config::replayer_options(config), log)));
    }
    deadletter::ManagerOptions options;
    options.dead_letter_pattern = config.kafka.topic_pattern;
    options.replay_topics = config.kafka.replay_topics;
    options.retry_lease = config.retry_lease;
    options.publish_at_most = config::kLongestPublishTimeouts * config.replay_timeout;
    options.close_ends_redrives = when_stopped == WhenStopped::end_redrives;
    return std::unique_ptr<DeadLetterUnit>(
        new DeadLetterUnit(options, database.dead_letters(), std::move(replayer), spools, log));
}

void DeadLetterUnit::stop(Duration patience) {
    // Before the manager waits: without patience, a publish under way must not be waited for at all.
    if (patience == Duration::zero()) hurry();
    manager_.stop(patience);
    hurry();
}

}  // namespace deliverd::daemon
