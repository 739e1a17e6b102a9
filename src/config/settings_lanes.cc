#include "config/table.h"
#include "store/event_row.h"

namespace deliverd::config {

void add_lane_settings(Table<LaneDraft> lane) {
    Table memory = lane.with(&Setting::only_outbox, {"memory"});
    Table orders = lane.with(&Setting::only_outbox, {"orders"});
    Table events = lane.with(&Setting::only_outbox, {"events"});
    lane.choice("outbox", FIELD(it.lane.outbox),
                {{"memory", OutboxKind::memory}, {"orders", OutboxKind::orders}, {"events", OutboxKind::events}}, "",
                "Required: where the messages come from. `memory` is the lease protocol's table `outbox_memory`, "
                "`orders` the order outbox, `events` the event outbox, table `outbox`.");
    lane.add("batch_size", FIELD(it.lane.options.batch_size), {"100", {{"orders", "32"}, {"events", "500"}}},
             "Rows per claim or read, and at most per settle (events: four times as many).", {1, 10000})
        .orders_environment = "OUTBOX_BATCH_SIZE";
    lane.add("parallelism", FIELD(it.lane.options.parallelism), {"16", {{"orders", "4"}, {"events", "1000"}}},
             "Messages at the sink at the same time.", {1, 10000})
        .orders_environment = "OUTBOX_PARALLELISM";
    lane.with(&Setting::only_outbox, {"memory", "events"})
        .add("lease_seconds", FIELD(it.lane.options.lease), {"60", {{"events", "6"}}},
             "How long a process owns a claimed row (memory) or a shard (events) without renewing its lease.",
             {0.1, kDay});
    memory.add("loop_interval_seconds", FIELD(it.lane.options.idle_poll), "0.5",
               "Longest wait between polls of an empty table.", {0.001, kDay});
    memory.add("max_payload_bytes", FIELD(it.max_payload_bytes), "1048576", "Longer payloads cannot be enqueued.",
               {1, kMaxBytes});
    // Orders have names and units of their own for the lease and the wait between polls: those of the OUTBOX_*
    // variables, which users know. counterpart() (lanes.cc) leads from one name to the other.
    orders
        .count(kMinutes, "stuck_threshold_min", FIELD(it.lane.options.lease), "10",
               "Minutes after which an order that is `sending` returns to the queue if its worker has not renewed "
               "it.",
               {0.005, 1440})
        .orders_environment = "OUTBOX_STUCK_THRESHOLD_MIN";
    orders
        .count(kMillis, "idle_sleep_ms", FIELD(it.lane.options.idle_poll), "200",
               "Longest wait between polls of an empty table.", {1, 3'600'000})
        .orders_environment = "OUTBOX_IDLE_SLEEP_MS";
    // Only one value, so that a file can state it, and so that "wal" is refused by name instead of ignored.
    events.accept(SettingType::choice, "relay", "poll", "How new events are found: `poll` polls the table.").choices = {
        "poll"};
    events.add("table", FIELD(it.lane.events.table.table), "outbox",
               "Another table of events, `name` or `schema.name`.");
    events
        .add(
            "columns", FIELD(it.columns), "",
            "That table's names for `id`, `aggregate_id`, `aggregate_type`, `event_type`, `payload`, `event_id`, "
            "`metadata`, `created_at`, `published`, `published_at`, `retry_count`, `next_attempt_at`, `last_error` and "
            "`dead_at`; an empty text means that it has no such column.")
        .choices = {"debezium"};
    events.add("shards", FIELD(it.lane.events.table.shards), "64",
               "Parts of the table that processes divide among themselves. Use the same number in every process of a "
               "lane.",
               {1, store::kMaxShards});
    events.choice(
        "on_dead", FIELD(it.lane.events.relay.block_behind_dead, it.lane.events.table.block_behind_dead),
        {{"continue", false}, {"block", true}}, "continue",
        "What a dead event does to later ones of its aggregate: `continue` sends them, `block` holds them back.");
    // Off, because it costs: one long transaction anywhere in the database holds back every event behind it.
    events.add("strict_order", FIELD(it.lane.events.relay.strict_order), "false",
               "PostgreSQL: an event waits until no event of its aggregate with a lower id can appear any more "
               "(docs/events.md says when to use it).");
    events.choice("after_publish", FIELD(it.lane.events.table.after_publish),
                  {{"mark", store::AfterPublish::mark}, {"delete", store::AfterPublish::remove}}, "mark",
                  "`mark` sets `published` and `published_at`, `delete` deletes the row.");
    events.add("keep_published", FIELD(it.lane.events.keep_published), "7d", "Published events are deleted after this.",
               {0, kLongest});
    events.add("listen", FIELD(it.lane.events.relay.listen), "true",
               "PostgreSQL: a writer's NOTIFY wakes an idle lane.");
    events.count(kMillis, "busy_poll_ms", FIELD(it.lane.options.busy_poll), "2",
                 "Shortest wait between polls of the table.", {1, 60'000});
    events.count(kMillis, "idle_poll_ms", FIELD(it.lane.options.idle_poll), "1000",
                 "Longest wait between polls of an empty table.", {1, 3'600'000});
    lane.add("throttle", FIELD(it.lane.options.throttle), {"false", {{"orders", "true"}}},
             "A 429 pauses and slows the whole lane, not only its own message.");
    lane.add("retry.max", FIELD(it.retry_max), {"5", {{"orders", "8"}, {"events", "10"}}},
             "memory, events: the row is dead after this many failures. orders: after this many retries, the next "
             "failure makes the order dead.",
             {0, 10000})
        .orders_environment = "OUTBOX_RETRY_MAX";
    lane.seconds("retry.base_seconds", FIELD(it.lane.options.retry.base_seconds),
                 {"60", {{"orders", "2"}, {"events", "1"}}},
                 "memory: after n failures the wait is base · factor^n, in whole seconds. orders, events: base · "
                 "factor^(n-1).",
                 {0, kDay});
    lane.add("retry.factor", FIELD(it.lane.options.retry.factor), "2", "See `base_seconds`.", {1, 100});
    lane.seconds("retry.cap_seconds", FIELD(it.lane.options.retry.cap_seconds),
                 {"3600", {{"orders", "256"}, {"events", "300"}}}, "Longest wait, before jitter.", {1, 30 * kDay});
    lane.add("retry.jitter", FIELD(it.lane.options.retry.jitter), {"0.3", {{"orders", "0.1"}, {"events", "0.2"}}},
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
    sink.choice("type", FIELD(it.lane.sink.type),
                {{"http", Type::http},
                 {"kafka", Type::kafka},
                 {"rabbitmq", Type::rabbitmq},
                 {"nats", Type::nats},
                 {"console", Type::console},
                 {"none", Type::none}},
                "",
                "Required. kafka, rabbitmq and nats are for events. `console` prints one JSON line per message; `none` "
                "delivers into nothing (for benchmarks).");
    events.add("topic", FIELD(it.topic), "{event_type}",
               "Topic, routing key or subject: text with `{event_type}` (OrderCreated → order.created), "
               "`{event_type_raw}`, `{aggregate_id}`, `{aggregate_type}`.");
    events.choice("format", FIELD(it.attributes.format),
                  {{"plain", EventFormat::plain}, {"cloudevents", EventFormat::cloudevents}}, "plain",
                  "`cloudevents`: CloudEvents 1.0, binary mode.");
    events.add("source", FIELD(it.attributes.source), "",
               "The `source` of CloudEvents, a URI reference; without it `/deliverd/` and the lane's name.");
    by_url.add(
        "url", FIELD(it.lane.sink.http.url, it.lane.sink.rabbitmq.url, it.lane.sink.nats.url), "",
        "Where to send: `http://` or `https://`; `amqp://` or `amqps://user@host:5672/vhost`; `nats://host:4222`.");
    sink.with(&Setting::only_sink, {"http", "kafka", "rabbitmq", "nats"})
        .count(kMillis, "timeout_ms",
               FIELD(it.lane.sink.http.timeout, it.lane.sink.kafka.timeout, it.lane.sink.rabbitmq.timeout,
                     it.lane.sink.nats.timeout),
               {"5000", {{"kafka", "10000"}, {"rabbitmq", "10000"}}},
               "Longest wait for a message's answer or confirmation.", {1, 3'600'000});
    by_url.count(kMillis, "connect_timeout_ms",
                 FIELD(it.lane.sink.http.connect_timeout, it.lane.sink.rabbitmq.connect_timeout,
                       it.lane.sink.nats.connect_timeout),
                 {"3000", {{"rabbitmq", "5000"}}}, "Longest wait for a connection.", {1, 3'600'000});
    secret.add("headers", FIELD(it.lane.sink.http.headers), "",
               "Sent with every request, in addition to deliverd's own. The values are shown masked.");
    secret.add("token", FIELD(it.token), "", "Bearer token.");
    sink.with(&Setting::only_sink, {"http", "nats"})
        .add("token_file", FIELD(it.lane.sink.http.token_file, it.lane.sink.nats.token_file), "",
             "File with the bearer token (http) or the token of NATS, reloaded when it changes.");
    webhook.with(&Setting::secret, true)
        .add("secret", FIELD(it.lane.sink.http.secret), "",
             "Signs each request as Standard Webhooks specify: `whsec_` and base64; several with spaces between them "
             "while you replace a secret.");
    webhook.add("secret_file", FIELD(it.lane.sink.http.secret_file), "",
                "File with the secret, reloaded when it changes.");
    // A relay sends many events at once, and each failure costs an attempt while the receiver is down.
    http.add("breaker_failures", FIELD(it.lane.sink.http.breaker_failures), {"0", {{"events", "20"}}},
             "After this many failures in a row (no connection, timeout, 5xx) the sink pauses; 0: never.",
             {0, 1'000'000});
    http.add("breaker_seconds", FIELD(it.lane.sink.http.breaker_pause), "10", "Length of the first pause.",
             {0.01, 3600});
    http.add("max_connections", FIELD(it.lane.sink.http.max_connections), "64", "Connections to the receiver.",
             {1, 10000});
    http.add("max_answer_bytes", FIELD(it.lane.sink.http.max_answer_bytes), "65536",
             "Bytes of an answer's body that are read; the rest is ignored.", {0, kMaxBytes});
    by_url.add("verify_tls",
               FIELD(it.lane.sink.http.verify_tls, it.lane.sink.rabbitmq.verify_tls, it.lane.sink.nats.verify_tls),
               "true", "Checks the receiver's certificate.");
    by_url.add("ca_file", FIELD(it.lane.sink.http.ca_file, it.lane.sink.rabbitmq.ca_file, it.lane.sink.nats.ca_file),
               "", "PEM file of the authorities to trust instead of the system's.");
    kafka.list("brokers", FIELD(it.lane.sink.kafka.brokers), "",
               "`host:port`, several as a list; without it `kafka.brokers`.");
    kafka.count(kExactMillis, "linger_ms", FIELD(it.lane.sink.kafka.linger), "0", "How long a batch waits to fill.",
                {0, 60'000});
    kafka.one_of({"none", "gzip", "snappy", "lz4", "zstd"}, "compression", FIELD(it.lane.sink.kafka.compression),
                 "none", "Compression of batches.");
    kafka.with(&Setting::secret, true)
        .add("librdkafka", FIELD(it.lane.sink.kafka.librdkafka), "",
             "librdkafka's own settings; they override those of `kafka.librdkafka`. The values are shown masked.");
    rabbitmq.add("exchange", FIELD(it.lane.sink.rabbitmq.exchange), "",
                 "The exchange; without it the default exchange, whose routing keys are names of queues.");
    rabbitmq.add("password_file", FIELD(it.lane.sink.rabbitmq.password_file), "",
                 "File with the password, instead of the URL's, reloaded for each connection.");
    rabbitmq.add("heartbeat_seconds", FIELD(it.lane.sink.rabbitmq.heartbeat), "30",
                 "A connection that is silent for twice as long is replaced.", {1, 3600});
    nats.add("credentials_file", FIELD(it.lane.sink.nats.credentials_file), "", "Credentials of NATS (`.creds`).");
    orders.add(
        "processed_fields", FIELD(it.processed.fields), "code,status",
        "A 409 whose JSON has `processed_value` in one of these fields means that the order was processed before.");
    orders.add("processed_value", FIELD(it.processed.value), "already_processed",
               "See `processed_fields`; compared without regard to case.");
    orders.add("processed_text", FIELD(it.processed.text), "already processed",
               "A 409 whose body contains this means the same.");
}

}  // namespace deliverd::config
