// The configuration as the program uses it: typed, complete, checked. load.h makes one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api.h"
#include "base/stderr_log.h"
#include "deadletter/kafka/record_source_options.h"
#include "deadletter/kafka/replayer.h"
#include "http/server.h"
#include "lane/lane_options.h"
#include "orders/intake.h"
#include "relay/relay_options.h"
#include "sink/http/http_poster.h"
#include "sink/http/http_sink.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/nats/nats_sink.h"
#include "sink/rabbitmq/rabbitmq_sink.h"
#include "store/postgres/postgres.h"
#include "store/sqlite/sqlite.h"

namespace deliverd::config {

struct DatabaseTarget {
    enum class Kind { postgres, sqlite };
    Kind kind = Kind::sqlite;
    std::string target;  // SQLite: the path; PostgreSQL: what libpq takes, password included
};

/// postgres://…, postgresql://… or sqlite:PATH; refuses anything else with the reason (permanent, `bad_url`). Adds
/// `password`, unless it is empty, to a PostgreSQL URL without one.
[[nodiscard]] Result<DatabaseTarget> parse_database_url(std::string_view url, std::string_view password);

/// A database URL with every password replaced by "***"; only "***" for text that is no URL but may hold a password.
[[nodiscard]] std::string mask_url(std::string_view url);

/// An http URL in which "***" replaces its password, a user name without one, and each value of its query: all of them
/// may be keys.
[[nodiscard]] std::string mask_http_url(std::string_view url);

struct DatabaseConfig {
    DatabaseTarget::Kind kind = DatabaseTarget::Kind::sqlite;
    store::PostgresOptions postgres;  // when kind is postgres
    store::SqliteOptions sqlite;      // when kind is sqlite
    bool auto_migrate = false;

    [[nodiscard]] bool is_sqlite() const { return kind == DatabaseTarget::Kind::sqlite; }
};

struct SinkConfig {
    enum class Type { http, kafka, rabbitmq, nats, console, none };
    Type type = Type::none;
    sink::HttpSinkOptions http;          // when type is http
    sink::KafkaSinkOptions kafka;        // when type is kafka
    sink::RabbitmqSinkOptions rabbitmq;  // when type is rabbitmq
    sink::NatsSinkOptions nats;          // when type is nats
};

enum class OutboxKind { memory, orders, events };

/// What only a lane of events has.
struct EventsConfig {
    store::EventTable table;
    relay::RelayOptions relay;  // without worker_id
    Duration keep_published{};
};

struct LaneConfig {
    OutboxKind outbox = OutboxKind::memory;
    lane::LaneOptions options;  // without worker_id; a lane of events has a copy of the engine's in events.relay
    EventsConfig events;        // when outbox is events
    SinkConfig sink;
};

/// Where the keys of an OpenID provider (`auth.jwt`) are: one of the two.
struct JwksSource {
    std::string file;
    std::string url;
    std::string ca_file;  // for `url`; empty: the system's authorities

    /// For logs and messages: a user and a password in the URL are masked.
    [[nodiscard]] std::string name() const { return file.empty() ? mask_http_url(url) : file; }
};

struct LogConfig {
    LogLevel level = LogLevel::info;
    LogFormat format = LogFormat::automatic;
};

struct UpkeepConfig {
    Duration ledger_purge_interval{};
    Duration outbox_purge_interval{};
    Duration dead_letters_interval{};
    std::int32_t batch_size = 0;
};

/// The brokers that dead letters are read from and sent back to; `brokers` may be empty.
struct KafkaConfig : sink::KafkaClientOptions {
    bool configured = false;  // there is a section `kafka`
    std::string consumer_group;
    std::string topic_pattern;               // empty: not configured
    std::vector<std::string> replay_topics;  // patterns; none: every topic but dead-letter topics
    std::size_t max_value_bytes = 0;
};

struct DeadLettersConfig {
    KafkaConfig kafka;
    bool ingest = true;
    Duration replay_timeout{};
    Duration retry_lease{};
    std::optional<Duration> keep_resolved;  // none: never deleted
    std::optional<Duration> keep_dead;
    std::optional<Duration> keep_pending;  // PENDING and RETRYING
    std::optional<Duration> keep_audit;    // also finished retries of topics
};

/// The longest publish, in multiples of `replay_timeout` (deadletter/kafka/replayer.h).
inline constexpr int kLongestPublishTimeouts = 3;

/// How the configured brokers are read and written; only with brokers.
[[nodiscard]] deadletter::RecordSourceOptions record_source_options(const KafkaConfig& kafka);
[[nodiscard]] deadletter::ReplayerOptions replayer_options(const DeadLettersConfig& config);

struct SpoolConfig {
    std::string name;
    std::string path;
    std::string token_env;           // the variable with the poster's token; empty: none
    sink::HttpPosterOptions poster;  // without a token although there is a token_env: the variable is not set
    Duration retry_interval{};
    Duration cleanup_interval{};
};

/// What to say about a spool whose token is sent to no host, if this is one.
[[nodiscard]] std::optional<std::string> token_note(const SpoolConfig& spool);

struct Config {
    std::string app_name;
    std::string environment;
    http::ServerOptions server;
    Duration shutdown_patience{};
    DatabaseConfig database;
    api::AuthOptions auth;
    std::string tokens_file;     // where auth.file_tokens came from; empty: none
    JwksSource jwks;             // where the keys of auth.jwt come from; empty: none
    bool insecure_http = false;  // tokens may cross the network in plain HTTP
    LogConfig log;
    store::OrdersOptions orders;
    orders::IntakeOptions intake;
    DeadLettersConfig dead_letters;
    UpkeepConfig upkeep;
    std::vector<LaneConfig> lanes;
    std::vector<SpoolConfig> spools;

    /// Null when there is none with this name.
    [[nodiscard]] const LaneConfig* find_lane(std::string_view name) const {
        const auto found = std::ranges::find(
            lanes, name, [](const LaneConfig& lane) -> const std::string& { return lane.options.name; });
        return found == lanes.end() ? nullptr : &*found;
    }
};

}  // namespace deliverd::config
