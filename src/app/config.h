// The configuration as the program uses it: typed, complete, checked.
//
// Which one is in force: --config, else CONFIG_PATH, else ./deliverd.yaml, else built-in defaults (SQLite file
// ./deliverd.db, API on 127.0.0.1:8080). The database: --database, else DATABASE_URL, else the file's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/api.h"
#include "app/config_values.h"
#include "app/database_url.h"
#include "app/jwks_refresh.h"
#include "base/stderr_log.h"
#include "http/server.h"
#include "lane/lane_options.h"
#include "orders/intake.h"
#include "relay/relay_options.h"
#include "sink/http/http_sink.h"
#include "sink/kafka/kafka_sink.h"
#include "sink/nats/nats_sink.h"
#include "sink/rabbitmq/rabbitmq_sink.h"
#include "store/postgres/postgres.h"
#include "store/sqlite/sqlite.h"

namespace deliverd::app {

struct DatabaseConfig {
    DatabaseTarget::Kind kind = DatabaseTarget::Kind::sqlite;
    store::PostgresOptions postgres;  // when kind is postgres
    store::SqliteOptions sqlite;      // when kind is sqlite
    bool auto_migrate = false;
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

/// What a lane of events has beside the others.
struct EventsConfig {
    store::EventTable table;
    relay::RelayOptions relay;  // without owner
    Duration keep_published{};
};

struct LaneConfig {
    OutboxKind outbox = OutboxKind::memory;
    lane::LaneOptions options;  // without worker_id; of events only the name counts
    EventsConfig events;        // when outbox is events
    SinkConfig sink;
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

/// The brokers that dead letters are read from and sent back to.
struct KafkaConfig {
    bool configured = false;  // there is a section `kafka`
    std::string brokers;      // host:port,host:port; empty: none
    std::string consumer_group;
    std::string topic_pattern;               // empty: not configured
    std::vector<std::string> replay_topics;  // patterns; none: every topic that is not for dead letters
    std::size_t max_value_bytes = 0;
    std::vector<std::pair<std::string, std::string>> librdkafka;  // SASL, TLS, …; may hold secrets
    std::string password_file;  // that `sasl.password` among them is from; empty: none
};

struct DeadLettersConfig {
    KafkaConfig kafka;
    bool ingest = true;
    Duration replay_timeout{};
    Duration retry_lease{};
    std::optional<Duration> keep_resolved;  // none: for ever
    std::optional<Duration> keep_dead;
    std::optional<Duration> keep_pending;  // PENDING and RETRYING
    std::optional<Duration> keep_audit;    // and finished retries of topics
};

struct SpoolConfig {
    std::string name;
    std::string path;
    std::string token_env;                 // the variable that `token` comes from; empty: none
    std::string token;                     // secret; empty with a token_env: it is not there
    std::vector<std::string> token_hosts;  // who may have it
    bool allow_private = false;
    Duration retry_interval{};
    Duration cleanup_interval{};
    Duration timeout{};
};

struct Config {
    std::string app_name;
    std::string environment;
    http::ServerOptions server;
    Duration shutdown_patience{};
    DatabaseConfig database;
    api::AuthOptions auth;
    std::string tokens_file;     // that auth.file_tokens come from; empty: none
    JwksSource jwks;             // that the keys of auth.jwt come from; empty: none
    bool insecure_http = false;  // tokens may cross the network in plain HTTP
    LogConfig log;
    store::OrdersOptions orders;
    orders::IntakeOptions intake;
    DeadLettersConfig dead_letters;
    UpkeepConfig upkeep;
    std::vector<LaneConfig> lanes;
    std::vector<SpoolConfig> spools;

    [[nodiscard]] const LaneConfig* find_lane(std::string_view name) const;
};

/// A flag that replaces one setting of the file, checked like it.
struct ConfigOverride {
    std::string path;  // of an existing setting: "lanes.memories.batch_size"
    std::string text;
    std::string flag;  // "--batch-size"
};

struct ConfigRequest {
    std::optional<std::string> config_path;   // --config
    std::optional<std::string> database_url;  // --database
    std::vector<ConfigOverride> overrides;
};

struct LoadedConfig {
    Config config;  // only to be used when there are no problems
    Values values;
    std::string source;                 // the file, or "built-in defaults"
    std::vector<std::string> problems;  // one line each: "deliverd.yaml:12: unknown key …"
};

[[nodiscard]] LoadedConfig load_config(const ConfigRequest& request, const Environment& environment);

/// The same from text, for tests; `file` stands in the messages.
[[nodiscard]] LoadedConfig load_config_text(const std::string& yaml, const std::string& file,
                                            const ConfigRequest& request, const Environment& environment);

/// A value as it may be shown: secrets masked.
[[nodiscard]] std::string shown_value(std::string_view path, const Value& value);

}  // namespace deliverd::app
