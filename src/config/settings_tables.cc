// The settings, section by section.
#include "config/table.h"
#include "store/event_row.h"

namespace deliverd::config {

namespace {

constexpr double kMaxCount = 1'000'000;

void add_server_settings(Table<Draft> app, Table<Draft> server) {
    app.add("name", FIELD(it.config.app_name), "deliverd", "Shown in logs and `config show`.");
    // The dead-letter manager that deliverd replaces had this key. Its files are read as they are, also the keys below
    // that have no meaning here, and its names are the defaults of `kafka`.
    app.accept(SettingType::text, "version", "", "Accepted for older files, without effect: see `deliverd --version`.");
    app.add("environment", FIELD(it.config.environment), "production", "Shown in logs and `config show`.");

    server.add("host", FIELD(it.config.server.host), "127.0.0.1",
               "Address the API listens on. Any address but loopback needs `auth`.");
    server.add("port", FIELD(it.config.server.port), "8080", "Port the API listens on; 0 takes any free one.",
               {0, 65535});
    server.add("allowed_hosts", FIELD(it.config.auth.doors.allowed_hosts), "",
               "Names by which the API may be called without `auth.tokens`, in addition to loopback addresses and "
               "`localhost`: `name` or `name:port`.");
    server.add("tls.cert_file", FIELD(it.tls.cert_file), "",
               "Serves TLS 1.2 and 1.3: the PEM file with the certificate, followed by its intermediate certificates. "
               "deliverd reloads the files of `server.tls` when they change.");
    server.add("tls.key_file", FIELD(it.tls.key_file), "", "The certificate's private key, PEM without a passphrase.");
    server.add("tls.client_ca_file", FIELD(it.tls.client_ca_file), "",
               "Mutual TLS: each client needs a certificate signed by one of the authorities in this PEM file.");
    // Names its danger, and is off: tokens in plain HTTP must be somebody's decision.
    server.add("insecure_http", FIELD(it.config.insecure_http), "false",
               "Allows tokens to cross the network in plain HTTP, for when something in front terminates TLS. Needed "
               "for tokens on an address that is not loopback, unless `server.tls` is set.");
    server.add("shutdown_seconds", FIELD(it.config.shutdown_patience), "30",
               "How long a stop waits for work in progress.", {0, kDay});
    server.add("open_metrics", FIELD(it.config.auth.open_metrics), "false", "Serves `/metrics` without a token.");
    server.add("handler_threads", FIELD(it.config.server.handler_threads), "4", "Requests handled at the same time.",
               {1, 256});
    server.add("max_connections", FIELD(it.config.server.max_connections), "1024",
               "At this limit a new connection replaces the one that has waited longest for its request's header, or "
               "else for its body. When every connection has a whole request, the new one gets 503.",
               {1, 65535});
    server.add("max_queued_requests", FIELD(it.config.server.max_queued_requests), "1024",
               "Requests waiting for a handler; further ones get 503.", {1, kMaxCount});
    server.add("max_header_bytes", FIELD(it.config.server.max_header_bytes), "16384", "Longest request header.",
               {512, kMaxBytes});
    server.add("max_body_bytes", FIELD(it.config.server.max_body_bytes), "1048576",
               "Longest request body; a longer one gets 413.", {1024, kMaxBytes});
    server.add("max_total_body_bytes", FIELD(it.config.server.max_total_body_bytes), "67108864",
               "Bytes of the bodies of all requests being read or handled; a request beyond it gets 503.",
               {1024, kMaxBytes});
    server.add("header_timeout_seconds", FIELD(it.config.server.header_timeout), "10",
               "Longest wait for a request's header.", {0.1, kDay});
    server.add("body_timeout_seconds", FIELD(it.config.server.body_timeout), "30",
               "Longest wait for a request's body, after its header.", {0.1, kDay});
    server.add("idle_timeout_seconds", FIELD(it.config.server.idle_timeout), "60",
               "A connection without a request is closed after this.", {0.1, kDay});
    server.add("write_timeout_seconds", FIELD(it.config.server.write_timeout), "30",
               "Longest time for a client to receive its answer.", {0.1, kDay});
}

void add_database_settings(Table<Draft> database) {
    Table secret = database.with(&Setting::secret, true);
    secret.add("url", FIELD(it.database.url), "sqlite:./deliverd.db",
               "`postgres://user@host:5432/name` or `sqlite:PATH`. `DATABASE_URL` overrides it, `--database` overrides "
               "both.");
    database.add("host", FIELD(it.database.host), "", "The PostgreSQL server, instead of `url`.");
    database.add("port", FIELD(it.database.port), "5432", "With `host`.", {1, 65535});
    database.add("name", FIELD(it.database.name), "", "With `host`: the database.");
    database.add("user", FIELD(it.database.user), "", "With `host`: the role.");
    secret.add("password", FIELD(it.database.password), "", "Used unless the database URL has a password of its own.");
    database.one_of({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}, "ssl_mode",
                    FIELD(it.database.ssl_mode), "", "With `host`: libpq's `sslmode`; without it, libpq's default.");
    database.add("ssl_ca_file", FIELD(it.database.ssl_ca_file), "",
                 "With `host`: the authorities that sign the server's certificate, for `verify-ca` and `verify-full`. "
                 "Without it, libpq's file `~/.postgresql/root.crt`.");
    // PostgreSQL takes 100 connections in all by default, and every process has a pool of its own.
    database.add("max_open_conns", FIELD(it.config.database.postgres.max_connections), "8",
                 "PostgreSQL connections per process.", {1, 1000});
    database.accept(SettingType::integer, "max_idle_conns", "",
                    "Accepted for older files, without effect: open connections are kept.", {0, 1000});
    database.accept(SettingType::seconds, "conn_max_lifetime", "",
                    "Accepted for older files, without effect: broken connections are replaced.", {0, kDay});
    database.add("schema", FIELD(it.config.database.postgres.schema), "public",
                 "PostgreSQL schema of the outbox tables.");
    database.add("auto_migrate", FIELD(it.config.database.auto_migrate), "false",
                 "Lets `serve` and `worker` upgrade a PostgreSQL schema. SQLite is always upgraded.");
    database.add("connect_timeout_seconds", FIELD(it.config.database.postgres.connect_timeout), "5",
                 "Longest wait for a PostgreSQL connection.", {0.1, 3600});
    database.add("statement_timeout_seconds", FIELD(it.config.database.postgres.statement_timeout), "30",
                 "PostgreSQL cancels a statement after this.", {0.1, 3600});
    database.add("lock_timeout_seconds", FIELD(it.config.database.postgres.lock_timeout), "5",
                 "PostgreSQL stops waiting for a lock after this.", {0.1, 3600});
    database.add("pool_wait_seconds", FIELD(it.config.database.postgres.pool_wait), "10",
                 "Longest wait for a free connection.", {0.1, 3600});
    database.add("busy_timeout_seconds", FIELD(it.config.database.sqlite.busy_timeout), "5",
                 "Longest wait for SQLite's write lock.", {0.1, 3600});
}

void add_auth_settings(Table<Draft> auth, Table<TokenDraft> token) {
    using api::Role;
    auth.one_of({"none", "tokens"}, "mode", FIELD(it.auth.mode), "",
                "`none` states that something else controls access to the API; `tokens` is the same as giving tokens.");
    token.add("name", FIELD(it.token.name), "", "Who uses the token; shown in logs and in the audit.");
    token.choice("role", FIELD(it.token.role),
                 {{"viewer", Role::viewer}, {"operator", Role::operator_}, {"admin", Role::admin}}, "viewer",
                 "viewer reads, operator also changes, admin also deletes.");
    token.add("sha256", FIELD(it.token.sha256), "",
              "Hex SHA-256 of the token. `deliverd token new` makes a token and prints this.");
    // A text here and a time in the token: check_text() knows no times, so make_token() reads it.
    token.add("expires_at", FIELD(it.expires_at), "", "The token is refused from then on: `2027-01-31T00:00:00Z`.");
    token.add("topics", FIELD(it.token.scope.topics), "",
              "Topics the token may see and act on: names or patterns with `*` and `?`. It may then use dead letters "
              "only. Without it: everything its role may.");
    auth.add(
        "tokens_file", FIELD(it.config.tokens_file), "",
        "A file with a YAML list of further tokens, at most 64 KiB. deliverd reloads it when it changes, so that a "
        "token can be revoked without a restart.");
    auth.add("audit_reads", FIELD(it.config.auth.audit_reads), "false",
             "Writes a log line for each order, dead letter and listing that is read: who, what, from where.");
    auth.add("jwt.issuer", FIELD(it.auth.jwt.issuer), "",
             "Accepts tokens of an OpenID provider: its URL, exactly as in the tokens' `iss`.");
    auth.add("jwt.audience", FIELD(it.auth.jwt.audience), "", "A token's `aud` must be or contain this.");
    auth.add("jwt.jwks_url", FIELD(it.config.jwks.url), "",
             "URL of the provider's keys: https, or http to loopback. Fetched at start, every five minutes, and when a "
             "token names an unknown key.");
    auth.add("jwt.jwks_file", FIELD(it.config.jwks.file), "",
             "A file with the keys instead of `jwks_url`, at most 64 KiB. deliverd reloads it when it changes.");
    auth.add("jwt.ca_file", FIELD(it.config.jwks.ca_file), "",
             "With `jwks_url`: PEM file of the authorities to trust instead of the system's.");
    auth.add("jwt.role_claim", FIELD(it.auth.jwt.role_claim), "roles",
             "The claim with the roles, a text or a list; dots select nested members: `realm_access.roles`.");
    auth.add("jwt.roles", FIELD(it.auth.jwt_roles), "",
             "The role for each value of that claim: `{ deliverd-ops: operator }`. Of several, the highest counts.");
}

void add_log_settings(Table<Draft> log) {
    log.choice(
        "level", FIELD(it.config.log.level),
        {{"debug", LogLevel::debug}, {"info", LogLevel::info}, {"warn", LogLevel::warn}, {"error", LogLevel::error}},
        "info", "The lowest level that is written.");
    log.choice("format", FIELD(it.config.log.format),
               {{"auto", LogFormat::automatic}, {"human", LogFormat::human}, {"json", LogFormat::json}}, "auto",
               "auto: human on a terminal, JSON otherwise.");
}

void add_dead_letter_settings(Table<Draft> kafka, Table<Draft> letters) {
    Table secret = kafka.with(&Setting::secret, true);
    kafka
        .add("brokers", FIELD(it.config.dead_letters.kafka.brokers), "",
             "Where dead letters are read and sent back, and the default for kafka sinks.")
        .type = SettingType::text_list;
    kafka.add("consumer_group", FIELD(it.config.dead_letters.kafka.consumer_group), "dlq-manager.default",
              "The group that reads the dead-letter topics.");
    kafka.add("dlq_topic_pattern", FIELD(it.config.dead_letters.kafka.topic_pattern), "*.dlq.v1",
              "The dead-letter topics: `*` matches any text, `?` one character.");
    kafka.add("replay_topics", FIELD(it.config.dead_letters.kafka.replay_topics), "",
              "Topics that dead letters may be sent back to: names or patterns with `*` and `?`. Without any: every "
              "topic that is not a dead-letter topic.");
    kafka.add("max_value_bytes", FIELD(it.config.dead_letters.kafka.max_value_bytes), "8388608",
              "A longer dead letter is cut to this length and cannot be sent back.", {1024, kMaxBytes});
    kafka.one_of({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}, "security_protocol",
                 FIELD(it.kafka.security_protocol), "PLAINTEXT", "How to connect to the brokers.");
    kafka.one_of({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}, "sasl_mechanism", FIELD(it.kafka.sasl_mechanism), "",
                 "With SASL. Set others in `librdkafka`. Kafka 4 refuses SCRAM from librdkafka before 2.6.1.");
    kafka.add("sasl_username", FIELD(it.kafka.sasl_username), "", "With SASL.");
    secret.add("sasl_password", FIELD(it.kafka.sasl_password), "",
               "With SASL. deliverd reloads its file when it changes.");
    kafka.add("ssl_ca_file", FIELD(it.kafka.ssl_ca_file), "",
              "With SSL: the authorities that sign the brokers' certificates, if not the system's.");
    secret.add("librdkafka", FIELD(it.kafka.librdkafka), "",
               "librdkafka's own settings for every Kafka connection; they override those above. The values are shown "
               "masked.");

    letters.add("ingest", FIELD(it.config.dead_letters.ingest), "true",
                "Reads the dead-letter topics. Needs `kafka.brokers`.");
    letters.add("replay_timeout_seconds", FIELD(it.config.dead_letters.replay_timeout), "5",
                "A retry fails when no broker has acknowledged it by then.", {0.1, 300});
    letters.add("retry_lease_seconds", FIELD(it.config.dead_letters.retry_lease), "30",
                "A retry whose process died may be repeated after this; must be more than three times the timeout.",
                {1, kDay});
    letters.add("keep_resolved", FIELD(it.config.dead_letters.keep_resolved), "30d",
                "RESOLVED dead letters are deleted this long after their last change.", {0, kLongest});
    // What nobody has dealt with is never deleted by default: a dead letter may be the only copy of a message.
    letters.add("keep_dead", FIELD(it.config.dead_letters.keep_dead), "never",
                "The same for DEAD ones. `never`: they are kept.", {0, kLongest});
    letters.add("keep_pending", FIELD(it.config.dead_letters.keep_pending), "never",
                "The same for PENDING and RETRYING ones, which nobody has handled yet.", {0, kLongest});
    letters.add("keep_audit", FIELD(it.config.dead_letters.keep_audit), "365d",
                "How long the audit of dead letters is kept, also of deleted ones.", {0, kLongest});
}

void add_upkeep_settings(Table<Draft> orders, Table<Draft> upkeep) {
    orders.count(kHours, "ledger_ttl_hours", FIELD(it.config.orders.ledger_ttl), "48",
                 "How long the ledger keeps a broker's answer for callers who ask again.", {0.0001, 24 * 3650});
    orders.add("max_waiting", FIELD(it.config.intake.max_waiting), "4096",
               "Orders waiting to be stored; further ones get 503.", {1, kMaxCount});
    orders.add("group_size", FIELD(it.config.intake.batch_size), "64", "Orders stored per commit, at most.",
               {1, 10000});
    orders.add("writers", FIELD(it.config.intake.writers), "2", "Commits in progress at the same time.", {1, 64});

    upkeep.add("ledger_purge_seconds", FIELD(it.config.upkeep.ledger_purge_interval), "3600",
               "How often expired ledger rows are deleted.", {0.1, kDay});
    upkeep.add("outbox_purge_seconds", FIELD(it.config.upkeep.outbox_purge_interval), "60",
               "How often published events older than their `keep_published` are deleted.", {0.1, kDay});
    upkeep.add("dead_letters_purge_seconds", FIELD(it.config.upkeep.dead_letters_interval), "600",
               "How often expired dead letters are deleted.", {0.1, kDay});
    // A long delete would hold its row locks, and keep vacuum from the rows, until it ends.
    upkeep.add("batch_size", FIELD(it.config.upkeep.batch_size), "1000",
               "Rows per delete, so that no delete holds locks for long.", {1, 100000});
}

void add_spool_settings(Table<SpoolConfig> spool) {
    spool.add("path", FIELD(it.path), "",
              "Required: the file (docs/spool.md). `serve` retries its due entries, keeps exhausted ones as dead "
              "letters, and cleans it up.");
    spool.add("token_env", FIELD(it.token_env), "",
              "The environment variable with the bearer token; without it none is sent.");
    spool.add(
        "token_hosts", FIELD(it.poster.token_hosts), "",
        "The hosts the token may be sent to, over https, or over http to loopback. Without any, the token is sent "
        "to no host.");
    spool.add("allow_private", FIELD(it.poster.allow_private), "false",
              "Whether endpoints may be loopback, private and link-local addresses.");
    spool.add("retry_seconds", FIELD(it.retry_interval), "60", "Time between two retries of due entries.", {0.1, kDay});
    spool.add("cleanup_seconds", FIELD(it.cleanup_interval), "3600", "Time between two cleanups.", {0.1, kDay});
    spool.add("timeout_seconds", FIELD(it.poster.timeout), "10", "Longest time for a request.", {0.1, 3600});
}

void add_lane_settings(Table<LaneDraft> lane) {
    Table memory = lane.with(&Setting::only_outbox, {"memory"});
    Table orders = lane.with(&Setting::only_outbox, {"orders"});
    Table events = lane.with(&Setting::only_outbox, {"events"});
    lane.choice("outbox", FIELD(it.outbox),
                {{"memory", OutboxKind::memory}, {"orders", OutboxKind::orders}, {"events", OutboxKind::events}}, "",
                "Required: where the messages come from. `memory` is the lease protocol's table `outbox_memory`, "
                "`orders` the order outbox, `events` the event outbox, table `outbox`.");
    lane.add("batch_size", FIELD(it.options.batch_size), {"100", {{"orders", "32"}, {"events", "500"}}},
             "Rows per claim or read, and at most per settle (events: four times as many).", {1, 10000})
        .orders_environment = "OUTBOX_BATCH_SIZE";
    lane.add("parallelism", FIELD(it.options.parallelism), {"16", {{"orders", "4"}, {"events", "1000"}}},
             "Messages at the sink at the same time.", {1, 10000})
        .orders_environment = "OUTBOX_PARALLELISM";
    lane.with(&Setting::only_outbox, {"memory", "events"})
        .add("lease_seconds", FIELD(it.options.lease), {"60", {{"events", "6"}}},
             "How long a process owns a claimed row (memory) or a shard (events) without renewing its lease.",
             {0.1, kDay});
    memory.add("loop_interval_seconds", FIELD(it.options.idle_poll), "0.5",
               "Longest wait between polls of an empty table.", {0.001, kDay});
    memory.add("max_payload_bytes", FIELD(it.max_payload_bytes), "1048576", "Longer payloads cannot be enqueued.",
               {1, kMaxBytes});
    // Orders have names and units of their own for the lease and the wait between polls: those of the OUTBOX_*
    // variables, which users know. counterpart() (lanes.cc) leads from one name to the other.
    orders
        .count(kMinutes, "stuck_threshold_min", FIELD(it.options.lease), "10",
               "Minutes after which an order that is `sending` returns to the queue if its worker has not renewed "
               "it.",
               {0.005, 1440})
        .orders_environment = "OUTBOX_STUCK_THRESHOLD_MIN";
    orders
        .count(kMillis, "idle_sleep_ms", FIELD(it.options.idle_poll), "200",
               "Longest wait between polls of an empty table.", {1, 3'600'000})
        .orders_environment = "OUTBOX_IDLE_SLEEP_MS";
    // Only one value, so that a file can state it, and so that "wal" is refused by name instead of ignored.
    events.accept(SettingType::choice, "relay", "poll", "How new events are found: `poll` polls the table.").choices = {
        "poll"};
    events.add("table", FIELD(it.events.table.table), "outbox", "Another table of events, `name` or `schema.name`.");
    events
        .add(
            "columns", FIELD(it.columns), "",
            "That table's names for `id`, `aggregate_id`, `aggregate_type`, `event_type`, `payload`, `event_id`, "
            "`metadata`, `created_at`, `published`, `published_at`, `retry_count`, `next_attempt_at`, `last_error` and "
            "`dead_at`; an empty text means that it has no such column.")
        .choices = {"debezium"};
    events.add("shards", FIELD(it.events.table.shards), "64",
               "Parts of the table that processes divide among themselves. Use the same number in every process of a "
               "lane.",
               {1, store::kMaxShards});
    events.choice(
        "on_dead", FIELD(it.events.relay.block_behind_dead, it.events.table.block_behind_dead),
        {{"continue", false}, {"block", true}}, "continue",
        "What a dead event does to later ones of its aggregate: `continue` sends them, `block` holds them back.");
    // Off, because it costs: one long transaction anywhere in the database holds back every event behind it.
    events.add("strict_order", FIELD(it.events.relay.strict_order), "false",
               "PostgreSQL: an event waits until no event of its aggregate with a lower id can appear any more "
               "(docs/events.md says when to use it).");
    events.choice("after_publish", FIELD(it.events.table.after_publish),
                  {{"mark", store::AfterPublish::mark}, {"delete", store::AfterPublish::remove}}, "mark",
                  "`mark` sets `published` and `published_at`, `delete` deletes the row.");
    events.add("keep_published", FIELD(it.events.keep_published), "7d", "Published events are deleted after this.",
               {0, kLongest});
    events.add("listen", FIELD(it.events.relay.listen), "true", "PostgreSQL: a writer's NOTIFY wakes an idle lane.");
    events.count(kMillis, "busy_poll_ms", FIELD(it.options.busy_poll), "2", "Shortest wait between polls of the table.",
                 {1, 60'000});
    events.count(kMillis, "idle_poll_ms", FIELD(it.options.idle_poll), "1000",
                 "Longest wait between polls of an empty table.", {1, 3'600'000});
    lane.add("throttle", FIELD(it.options.throttle), {"false", {{"orders", "true"}}},
             "A 429 pauses and slows the whole lane, not only its own message.");
    lane.add("retry.max", FIELD(it.retry_max), {"5", {{"orders", "8"}, {"events", "10"}}},
             "memory, events: the row is dead after this many failures. orders: after this many retries, the next "
             "failure makes the order dead.",
             {0, 10000})
        .orders_environment = "OUTBOX_RETRY_MAX";
    lane.seconds("retry.base_seconds", FIELD(it.options.retry.base_seconds), {"60", {{"orders", "2"}, {"events", "1"}}},
                 "memory: after n failures the wait is base · factor^n, in whole seconds. orders, events: base · "
                 "factor^(n-1).",
                 {0, kDay});
    lane.add("retry.factor", FIELD(it.options.retry.factor), "2", "See `base_seconds`.", {1, 100});
    lane.seconds("retry.cap_seconds", FIELD(it.options.retry.cap_seconds),
                 {"3600", {{"orders", "256"}, {"events", "300"}}}, "Longest wait, before jitter.", {1, 30 * kDay});
    lane.add("retry.jitter", FIELD(it.options.retry.jitter), {"0.3", {{"orders", "0.1"}, {"events", "0.2"}}},
             "Each wait varies by up to this fraction in either direction.", {0, 1});
}

void add_sink_settings(Table<LaneDraft> sink) {
    using Type = SinkConfig::Type;
    Table orders = sink.with(&Setting::only_outbox, {"orders"});
    Table events = sink.with(&Setting::only_outbox, {"events"});
    Table http = sink.with(&Setting::only_sink, {"http"});
    Table secret = http.with(&Setting::secret, true);
    Table webhook = http.with(&Setting::only_outbox, {"events"});
    Table kafka = sink.with(&Setting::only_sink, {"kafka"});
    Table rabbitmq = sink.with(&Setting::only_sink, {"rabbitmq"});
    Table nats = sink.with(&Setting::only_sink, {"nats"});
    Table by_url = sink.with(&Setting::only_sink, {"http", "rabbitmq", "nats"});
    sink.choice("type", FIELD(it.sink.type),
                {{"http", Type::http},
                 {"kafka", Type::kafka},
                 {"rabbitmq", Type::rabbitmq},
                 {"nats", Type::nats},
                 {"console", Type::console},
                 {"none", Type::none}},
                "",
                "Required. kafka, rabbitmq and nats are for events. `console` prints one JSON line per message; `none` "
                "discards every message (for benchmarks).");
    events.add("topic", FIELD(it.topic), "{event_type}",
               "Topic, routing key or subject: text with `{event_type}` (OrderCreated → order.created), "
               "`{event_type_raw}`, `{aggregate_id}`, `{aggregate_type}`.");
    events.choice("format", FIELD(it.attributes.format),
                  {{"plain", EventFormat::plain}, {"cloudevents", EventFormat::cloudevents}}, "plain",
                  "`cloudevents`: CloudEvents 1.0, binary mode.");
    events.add("source", FIELD(it.attributes.source), "",
               "The `source` of CloudEvents, a URI reference; without it `/deliverd/` and the lane's name.");
    by_url.add(
        "url", FIELD(it.sink.http.url, it.sink.rabbitmq.url, it.sink.nats.url), "",
        "Where to send: `http://` or `https://`; `amqp://` or `amqps://user@host:5672/vhost`; `nats://host:4222`.");
    sink.with(&Setting::only_sink, {"http", "kafka", "rabbitmq", "nats"})
        .count(kMillis, "timeout_ms",
               FIELD(it.sink.http.timeout, it.sink.kafka.timeout, it.sink.rabbitmq.timeout, it.sink.nats.timeout),
               {"5000", {{"kafka", "10000"}, {"rabbitmq", "10000"}}},
               "Longest wait for a message's answer or confirmation.", {1, 3'600'000});
    by_url.count(kMillis, "connect_timeout_ms",
                 FIELD(it.sink.http.connect_timeout, it.sink.rabbitmq.connect_timeout, it.sink.nats.connect_timeout),
                 {"3000", {{"rabbitmq", "5000"}}}, "Longest wait for a connection.", {1, 3'600'000});
    secret.add("headers", FIELD(it.sink.http.headers), "",
               "Sent with every request, in addition to deliverd's own. The values are shown masked.");
    secret.add("token", FIELD(it.token), "", "Bearer token.");
    sink.with(&Setting::only_sink, {"http", "nats"})
        .add("token_file", FIELD(it.sink.http.token_file, it.sink.nats.token_file), "",
             "File with the bearer token (http) or the token of NATS, reloaded when it changes.");
    webhook.with(&Setting::secret, true)
        .add("secret", FIELD(it.sink.http.secret), "",
             "Signs each request as Standard Webhooks specify: `whsec_` and base64; several with spaces between them "
             "while you replace a secret.");
    webhook.add("secret_file", FIELD(it.sink.http.secret_file), "", "File with the secret, reloaded when it changes.");
    // A relay sends many events at once, and each failure costs an attempt while the receiver is down.
    http.add("breaker_failures", FIELD(it.sink.http.breaker_failures), {"0", {{"events", "20"}}},
             "After this many failures in a row (no connection, timeout, 5xx) the sink pauses; 0: never.",
             {0, 1'000'000});
    http.add("breaker_seconds", FIELD(it.sink.http.breaker_pause), "10", "Length of the first pause.", {0.01, 3600});
    http.add("max_connections", FIELD(it.sink.http.max_connections), "64", "Connections to the receiver.", {1, 10000});
    http.add("max_answer_bytes", FIELD(it.sink.http.max_answer_bytes), "65536",
             "Bytes of an answer's body that are read; the rest is ignored.", {0, kMaxBytes});
    by_url.add("verify_tls", FIELD(it.sink.http.verify_tls, it.sink.rabbitmq.verify_tls, it.sink.nats.verify_tls),
               "true", "Checks the receiver's certificate.");
    by_url.add("ca_file", FIELD(it.sink.http.ca_file, it.sink.rabbitmq.ca_file, it.sink.nats.ca_file), "",
               "PEM file of the authorities to trust instead of the system's.");
    kafka
        .add("brokers", FIELD(it.sink.kafka.brokers), "", "`host:port`, several as a list; without it `kafka.brokers`.")
        .type = SettingType::text_list;
    kafka.count(kExactMillis, "linger_ms", FIELD(it.sink.kafka.linger), "0", "How long a batch waits to fill.",
                {0, 60'000});
    kafka.one_of({"none", "gzip", "snappy", "lz4", "zstd"}, "compression", FIELD(it.sink.kafka.compression), "none",
                 "Compression of batches.");
    kafka.with(&Setting::secret, true)
        .add("librdkafka", FIELD(it.sink.kafka.librdkafka), "",
             "librdkafka's own settings; they override those of `kafka.librdkafka`. The values are shown masked.");
    rabbitmq.add("exchange", FIELD(it.sink.rabbitmq.exchange), "",
                 "The exchange; without it the default exchange, whose routing keys are names of queues.");
    rabbitmq.add("password_file", FIELD(it.sink.rabbitmq.password_file), "",
                 "File with the password, instead of the URL's, reloaded for each connection.");
    rabbitmq.add("heartbeat_seconds", FIELD(it.sink.rabbitmq.heartbeat), "30",
                 "A connection that is silent for twice as long is replaced.", {1, 3600});
    nats.add("credentials_file", FIELD(it.sink.nats.credentials_file), "", "Credentials of NATS (`.creds`).");
    orders.add(
        "processed_fields", FIELD(it.processed.fields), "code,status",
        "A 409 whose JSON has `processed_value` in one of these fields means that the order was processed before.");
    orders.add("processed_value", FIELD(it.processed.value), "already_processed",
               "See `processed_fields`; compared without regard to case.");
    orders.add("processed_text", FIELD(it.processed.text), "already processed",
               "A 409 whose body contains this means the same.");
}

}  // namespace

std::vector<Setting> make_settings() {
    std::vector<Setting> list;
    add_server_settings({list, "app."}, {list, "server."});
    add_database_settings({list, "database."});
    add_auth_settings({list, "auth."}, {list, "auth.tokens[]."});
    add_log_settings({list, "log."});
    add_dead_letter_settings({list, "kafka."}, {list, "dead_letters."});
    add_upkeep_settings({list, "orders."}, {list, "upkeep."});
    add_lane_settings({list, "lanes.*."});
    add_sink_settings({list, "lanes.*.sink."});
    add_spool_settings({list, "spools.*."});
    return list;
}

}  // namespace deliverd::config
