#include <array>

#include "app/settings_tables.h"

namespace deliverd::app {

namespace {

using enum SettingType;

constexpr double kLongest = 3650 * kDay;
constexpr double kMaxCount = 1'000'000;

// NOLINTNEXTLINE(cert-err58-cpp): constexpr data
constexpr auto kGeneralSettings = std::to_array<Setting>({
    {"app.name", text, "deliverd", "Shown in logs and `config show`."},
    {"app.version", text, "", "Accepted for older files; without effect: `deliverd --version` tells."},
    {"app.environment", text, "production", "Shown in logs and `config show`."},

    {"server.host", text, "127.0.0.1", "Address the API listens on. Anything but loopback needs `auth`."},
    {"server.port", integer, "8080", "Port the API listens on; 0 takes any free one.", 0, 65535},
    {"server.allowed_hosts", text_list, "",
     "Names by which the API may be called without `auth.tokens`, beside loopback addresses and `localhost`: `name` or "
     "`name:port`."},
    {"server.tls.cert_file", text, "",
     "Serve TLS 1.2 and 1.3: the PEM file with the certificate, followed by those between it and its authority. The "
     "files of `server.tls` are read again when they change."},
    {"server.tls.key_file", text, "", "The certificate's private key, PEM without a passphrase."},
    {"server.tls.client_ca_file", text, "",
     "Mutual TLS: clients need a certificate that one of the authorities in this PEM file has signed."},
    {"server.insecure_http", boolean, "false",
     "States that tokens may cross the network in plain HTTP, because something in front speaks TLS. Needed for tokens "
     "on an address that is not loopback, unless there is `server.tls`."},
    {"server.shutdown_seconds", seconds, "30", "How long a stop waits for what is under way.", 0, kDay, "", "s"},
    {"server.open_metrics", boolean, "false", "`/metrics` without a token."},
    {"server.handler_threads", integer, "4", "Requests worked on at once.", 1, 256},
    {"server.max_connections", integer, "1024",
     "A further connection takes the place of the one that has waited longest for a request, or else for its body; "
     "when "
     "all have one, it is answered 503.",
     1, 65535},
    {"server.max_queued_requests", integer, "1024", "Requests waiting for a handler; further ones get 503.", 1,
     kMaxCount},
    {"server.max_header_bytes", integer, "16384", "Longest request header.", 512, kMaxBytes, "", "bytes"},
    {"server.max_body_bytes", integer, "1048576", "Longest request body; more is 413.", 1024, kMaxBytes, "", "bytes"},
    {"server.max_total_body_bytes", integer, "67108864",
     "The bodies of all requests that are read or handled; what comes on top gets 503.", 1024, kMaxBytes, "", "bytes"},
    {"server.header_timeout_seconds", seconds, "10", "A client must have sent its header by then.", 0.1, kDay, "", "s"},
    {"server.body_timeout_seconds", seconds, "30", "And its body by then.", 0.1, kDay, "", "s"},
    {"server.idle_timeout_seconds", seconds, "60", "A connection without a request is closed.", 0.1, kDay, "", "s"},
    {"server.write_timeout_seconds", seconds, "30", "A client must have taken its answer by then.", 0.1, kDay, "", "s"},

    {.path = "database.url",
     .type = text,
     .fallback = "sqlite:./deliverd.db",
     .doc = "`postgres://user@host:5432/name` or `sqlite:PATH`. `DATABASE_URL` wins over it, `--database` over both.",
     .secret = true},
    {"database.host", text, "", "Instead of `url`: the PostgreSQL server. Not together with `url`."},
    {"database.port", integer, "5432", "With `host`.", 1, 65535},
    {"database.name", text, "", "With `host`: the database."},
    {"database.user", text, "", "With `host`: the role."},
    {.path = "database.password",
     .type = text,
     .fallback = "",
     .doc = "Used for the URL in force unless that carries one itself.",
     .secret = true},
    {.path = "database.ssl_mode",
     .type = choice,
     .fallback = "",
     .doc = "With `host`: as in libpq; without it, libpq's default.",
     .choices = "disable|allow|prefer|require|verify-ca|verify-full"},
    {"database.ssl_ca_file", text, "",
     "With `host`: certificates of who signs the server's, for `verify-ca` and `verify-full`. Without it, libpq's file "
     "`~/.postgresql/root.crt`."},
    {"database.max_open_conns", integer, "8", "PostgreSQL connections this process opens at most.", 1, 1000},
    {"database.max_idle_conns", integer, "", "Accepted for older files; without effect: open connections are kept.", 0,
     1000},
    {"database.conn_max_lifetime", seconds, "",
     "Accepted for older files; without effect: broken connections are replaced.", 0, kDay, "", "s"},
    {"database.schema", text, "public", "PostgreSQL schema of the outbox tables."},
    {"database.auto_migrate", boolean, "false",
     "Let `serve` and `worker` upgrade a PostgreSQL schema. SQLite is always upgraded."},
    {"database.connect_timeout_seconds", seconds, "5", "PostgreSQL.", 0.1, 3600, "", "s"},
    {"database.statement_timeout_seconds", seconds, "30", "PostgreSQL cancels a statement after this.", 0.1, 3600, "",
     "s"},
    {"database.lock_timeout_seconds", seconds, "5", "PostgreSQL gives up waiting for a lock after this.", 0.1, 3600, "",
     "s"},
    {"database.pool_wait_seconds", seconds, "10", "Longest wait for a free connection.", 0.1, 3600, "", "s"},
    {"database.busy_timeout_seconds", seconds, "5", "Longest wait for SQLite's write lock.", 0.1, 3600, "", "s"},

    {.path = "auth.mode",
     .type = choice,
     .fallback = "",
     .doc = "`none` states that something else guards the door; `tokens` is what a list of tokens means anyway.",
     .choices = "none|tokens"},
    {"auth.tokens[].name", text, "", "Who it is: stands in logs and in the audit."},
    {.path = "auth.tokens[].role",
     .type = choice,
     .fallback = "viewer",
     .doc = "viewer reads, operator also changes, admin also deletes.",
     .choices = "viewer|operator|admin"},
    {"auth.tokens[].sha256", text, "", "Hex SHA-256 of the token. `deliverd token new` makes a token and prints this."},
    {"auth.tokens[].expires_at", text, "", "From then on it is refused: `2027-01-31T00:00:00Z`."},
    {"auth.tokens[].topics", text_list, "",
     "Topics it may see and act on: names or patterns with `*` and `?`. It may then use dead letters only. Without it: "
     "everything its role may."},
    {"auth.tokens_file", text, "",
     "A YAML list of such tokens, beside `auth.tokens`, in a file of at most 64 KiB. It is read again when it changes, "
     "so "
     "that a token can be revoked without a restart."},
    {"auth.audit_reads", boolean, "false",
     "Write a line into the log for each order, dead letter and listing that was read: who, what, from where."},
    {"auth.jwt.issuer", text, "",
     "Accepts tokens of an OpenID provider: its URL, exactly as the tokens have it in `iss`."},
    {"auth.jwt.audience", text, "", "What `aud` of a token must be, or hold."},
    {"auth.jwt.jwks_url", text, "",
     "Where the provider's keys are: https, or http to loopback. Fetched at start, every five minutes, and when a "
     "token "
     "names an unknown key."},
    {"auth.jwt.jwks_file", text, "",
     "Instead of `jwks_url`: a file with the keys, of at most 64 KiB. It is read again when it changes."},
    {"auth.jwt.ca_file", text, "", "With `jwks_url`: PEM file of the authorities to trust, instead of the system's."},
    {"auth.jwt.role_claim", text, "roles",
     "The claim that has the roles, a text or a list; dots lead into objects: `realm_access.roles`."},
    {"auth.jwt.roles", text_map, "",
     "Which value of that claim is which role: `{ deliverd-ops: operator }`. Of several the highest counts."},

    {.path = "log.level",
     .type = choice,
     .fallback = "info",
     .doc = "The least that is written.",
     .choices = "debug|info|warn|error"},
    {.path = "log.format",
     .type = choice,
     .fallback = "auto",
     .doc = "auto: human on a terminal, JSON otherwise.",
     .choices = "auto|human|json"},

    {"kafka.brokers", text_list, "",
     "Where dead letters are read and sent back, and where the kafka sinks go that name no brokers themselves."},
    {"kafka.consumer_group", text, "dlq-manager.default", "The group that reads the dead-letter topics."},
    {"kafka.dlq_topic_pattern", text, "*.dlq.v1",
     "Which topics are for dead letters: `*` stands for any text, `?` for one character."},
    {"kafka.replay_topics", text_list, "",
     "Topics that dead letters may be sent back to: names or patterns with `*` and `?`. Without any: every topic that "
     "is "
     "not for dead letters."},
    {"kafka.max_value_bytes", integer, "8388608",
     "Of a longer dead letter only so much is kept, and it cannot be sent back.", 1024, kMaxBytes, "", "bytes"},
    {.path = "kafka.security_protocol",
     .type = choice,
     .fallback = "PLAINTEXT",
     .doc = "How the brokers are spoken to.",
     .choices = "PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL"},
    {.path = "kafka.sasl_mechanism",
     .type = choice,
     .fallback = "",
     .doc = "With SASL. Others stand in `librdkafka`. Kafka 4 takes no SCRAM from librdkafka before 2.6.1.",
     .choices = "PLAIN|SCRAM-SHA-256|SCRAM-SHA-512"},
    {"kafka.sasl_username", text, "", "With SASL."},
    {.path = "kafka.sasl_password",
     .type = text,
     .fallback = "",
     .doc = "With SASL. Its file is read again when it changes.",
     .secret = true},
    {"kafka.ssl_ca_file", text, "", "With SSL: who signed the brokers' certificates, if not the system's."},
    {.path = "kafka.librdkafka",
     .type = text_map,
     .fallback = "",
     .doc = "librdkafka's own settings for whatever speaks to Kafka, over the above. The values are shown masked.",
     .secret = true},

    {"dead_letters.ingest", boolean, "true",
     "Read the dead-letter topics here. Without `kafka.brokers` there is nothing to read."},
    {"dead_letters.replay_timeout_seconds", seconds, "5", "A retry that no broker acknowledged by then has failed.",
     0.1, 300, "", "s"},
    {"dead_letters.retry_lease_seconds", seconds, "30",
     "A retry whose process died may be made again after this; more than three times the timeout.", 1, kDay, "", "s"},
    {.path = "dead_letters.keep_resolved",
     .type = seconds,
     .fallback = "30d",
     .doc = "RESOLVED ones are deleted so long after their last change.",
     .most = kLongest,
     .choices = "never",
     .unit = "s"},
    {.path = "dead_letters.keep_dead",
     .type = seconds,
     .fallback = "never",
     .doc = "The same for DEAD ones. `never`: they are kept.",
     .most = kLongest,
     .choices = "never",
     .unit = "s"},
    {.path = "dead_letters.keep_pending",
     .type = seconds,
     .fallback = "never",
     .doc = "The same for PENDING and RETRYING ones, which nobody has dealt with yet.",
     .most = kLongest,
     .choices = "never",
     .unit = "s"},
    {.path = "dead_letters.keep_audit",
     .type = seconds,
     .fallback = "365d",
     .doc = "How long is kept what was done to dead letters, also to those that are gone.",
     .most = kLongest,
     .choices = "never",
     .unit = "s"},

    {"orders.ledger_ttl_hours", number, "48", "How long the ledger keeps a broker's answer for callers who ask again.",
     0.0001, 24 * 3650},
    {"orders.max_waiting", integer, "4096", "Orders waiting to be stored; further ones get 503.", 1, kMaxCount},
    {"orders.group_size", integer, "64", "Orders stored with one commit at most.", 1, 10000},
    {"orders.writers", integer, "2", "Commits on their way at once.", 1, 64},

    {"upkeep.ledger_purge_seconds", seconds, "3600", "How often expired ledger rows are deleted.", 0.1, kDay, "", "s"},
    {"upkeep.outbox_purge_seconds", seconds, "60",
     "How often published events past their `keep_published` are deleted.", 0.1, kDay, "", "s"},
    {"upkeep.dead_letters_purge_seconds", seconds, "600", "How often dead letters past their time are deleted.", 0.1,
     kDay, "", "s"},
    {"upkeep.batch_size", integer, "1000", "Rows a delete takes, so that none holds locks for long.", 1, 100000},
});

}  // namespace

std::span<const Setting> general_settings() {
    return kGeneralSettings;
}

}  // namespace deliverd::app
