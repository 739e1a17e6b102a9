#include <array>
#include <ranges>

#include "base/text.h"
#include "config/finish.h"

namespace deliverd::config {

namespace {

constexpr Duration kRescueInterval = std::chrono::seconds(30);  // between searches for stuck orders

/// A table's name in one spelling: SQLite ignores case, and both databases have a schema for names without one.
std::string whole_name(std::string table, const Draft& draft) {
    const bool sqlite = draft.config.database.is_sqlite();
    const std::string schema = sqlite ? "main" : draft.config.database.postgres.schema;
    // A name with its schema and the same name without must not count as two tables.
    if (table.find('.') == std::string::npos) table.insert(0, schema + ".");
    return sqlite ? ascii_lower(table) : table;
}

/// Two lanes on one table would take each other's rows, and chance would decide which sink gets a message.
void check_tables(const Draft& draft, Problems& problems) {
    std::map<std::string, std::string> lane_of;
    for (const LaneConfig& lane : draft.config.lanes) {
        const std::string& name = lane.options.name;
        const std::string path = "lanes." + name + ".outbox";
        const std::string outbox = problems.values().outbox_of(path);
        if (outbox.empty()) continue;
        std::string table = "outbox " + outbox;
        if (lane.outbox == OutboxKind::events) table += ", table " + whole_name(lane.events.table.table, draft);
        const auto [first, fresh] = lane_of.emplace(std::move(table), name);
        if (fresh) continue;
        problems.about(path,
                       ": lane \"{}\" has {} already, and the two would take each other's messages; keep one of them",
                       first->second, first->first);
    }
}

/// The setting with the same meaning in a lane of the other kind.
std::string_view counterpart(std::string_view pattern, std::string_view outbox) {
    const bool about_lease = pattern == "lanes.*.lease_seconds" || pattern == "lanes.*.stuck_threshold_min";
    const bool about_poll = pattern == "lanes.*.loop_interval_seconds" || pattern == "lanes.*.idle_sleep_ms" ||
                            pattern == "lanes.*.idle_poll_ms";
    if (about_lease) return outbox == "orders" ? "stuck_threshold_min" : "lease_seconds";
    if (!about_poll) return "";
    if (outbox == "orders") return "idle_sleep_ms";
    return outbox == "events" ? "idle_poll_ms" : "loop_interval_seconds";
}

/// A setting for another kind of outbox or sink has no effect here: the user means another one.
void check_kinds(Problems& problems) {
    const Values& values = problems.values();
    for (const auto& [path, value] : values.all()) {
        // A flag of `worker` sets a path that the user has not written.
        const std::string name = value.origin.starts_with("--") ? value.origin : path;
        const auto check = [&](const Words& only, const std::string& kind, std::string_view what) {
            if (only.empty() || kind.empty() || is_listed(only, kind)) return;
            const std::string_view instead = counterpart(value.setting->path, kind);
            problems.add(path, "{} is for lanes with {} {}, and this one has {}{}", name, what, fmt::join(only, " or "),
                         kind, instead.empty() ? "" : fmt::format("; use {} instead", instead));
        };
        check(value.setting->only_outbox, values.outbox_of(path), "outbox");
        check(value.setting->only_sink, values.sink_of(path), "sink");
    }
}

void check_columns(const store::EventColumns& columns, const std::string& path, Problems& problems) {
    const bool enough =
        !columns.id.empty() && !columns.aggregate_id.empty() && !columns.event_type.empty() && !columns.payload.empty();
    problems.require(enough, path, ": id, aggregate_id, event_type and payload are needed");
    const std::array state{columns.retry_count.empty(), columns.next_attempt_at.empty(), columns.last_error.empty(),
                           columns.dead_at.empty()};
    problems.require(std::ranges::count(state, true) % std::ssize(state) == 0, path,
                     ": retry_count, next_attempt_at, last_error and dead_at belong together; map all four, or write "
                     "all four as \"\"");
}

store::EventColumns make_columns(const Given& given, const std::string& path, Problems& problems) {
    if (given.text == "debezium") return store::EventColumns::debezium();
    store::EventColumns columns;
    const std::map known(store::kEventColumns.begin(), store::kEventColumns.end());  // by name, for the message below
    for (const auto& [name, text] : given.entries) {
        const auto found = known.find(name);
        if (found != known.end()) {
            columns.*found->second = text;
        } else {
            problems.add(path + "." + name, "{}: no column is called \"{}\"; the columns are: {}", path, name,
                         fmt::join(std::views::keys(known), ", "));
        }
    }
    check_columns(columns, path, problems);
    return columns;
}

void finish_events(LaneDraft& draft, const std::string& path, Problems& problems) {
    store::EventTable& table = draft.events.table;
    table.lane = draft.options.name;
    table.columns = make_columns(draft.columns, path + ".columns", problems);
    const bool no_mark = table.columns.published.empty();
    // Without the column only deleting can record that an event was published, so that is the default then.
    if (no_mark && !problems.values().has(path + ".after_publish")) table.after_publish = store::AfterPublish::remove;
    problems.require(!no_mark || table.after_publish != store::AfterPublish::mark, path + ".after_publish",
                     " is mark, but the table has no column for it: map `published`, or write after_publish: delete");

    relay::RelayOptions& relay = draft.events.relay;
    // The settings fill the options of lanes that claim; the engine's part of them is the same for a relay.
    const pipeline::EngineOptions& engine = draft.options;
    static_cast<pipeline::EngineOptions&>(relay) = engine;
    if (draft.sink.type == SinkConfig::Type::http) {  // more would only wait for a connection
        const auto connections = static_cast<std::int32_t>(draft.sink.http.max_connections);
        relay.parallelism = std::min(relay.parallelism, connections);
    }
    auto topic = TopicTemplate::parse(draft.topic);
    problems.require(topic, path + ".sink.topic", " {}");
    if (topic) relay.topic = std::move(*topic);
}

/// Headers that describe an event. Those of its metadata are not known in advance.
bool names_an_event(std::string_view name) {
    constexpr std::array<std::string_view, 6> kNames{"webhook-id",     "webhook-timestamp", "webhook-signature",
                                                     "x-aggregate-id", "x-event-type",      "x-created-at"};
    return std::ranges::any_of(kNames, [&](std::string_view known) { return equal_ignoring_case(name, known); }) ||
           (name.size() > 3 && equal_ignoring_case(name.substr(0, 3), "ce-"));
}

class SinkChecks {
public:
    SinkChecks(LaneDraft& draft, const Draft& all, std::string path, Problems& problems)
        : draft_(draft), all_(all), sink_(draft.sink), path_(std::move(path)), problems_(problems) {}

    void finish() {
        using enum SinkConfig::Type;
        if (draft_.attributes.source.empty()) draft_.attributes.source = "/deliverd/" + draft_.options.name;
        // In this order: receivers of the lease protocol answer with `memory_id`, others with `id`.
        sink_.http.receipt_fields = {"memory_id", "id"};
        sink_.kafka.attributes = sink_.rabbitmq.attributes = sink_.nats.attributes = draft_.attributes;
        if (sink_.type == http) finish_http();
        if (sink_.type == kafka) finish_kafka();
        if (sink_.type == rabbitmq) take_over(sink::check_rabbitmq_options(sink_.rabbitmq), "url");
        if (sink_.type == nats) take_over(sink::check_nats_options(sink_.nats), "url");
    }

private:
    /// What a sink itself refuses about its options is a problem of the setting that the message begins with.
    void take_over(const Result<void>& checked, const std::string& setting) {
        const std::string where = path_ + "." + setting;
        // A setting that was refused while it was read is missing here; saying so would be a second message about it.
        if (!checked && !problems_.are_about(where)) problems_.about(where, " {}", checked.error().message);
    }

    void finish_http() {
        sink::HttpSinkOptions& http = sink_.http;
        take_over(sink::check_http_url(http.url), "url");
        check_headers(http.headers);
        if (draft_.token) {
            if (!http.token_file.empty()) both_given("token");
            const std::string bearer = "Bearer " + *draft_.token;
            problems_.require(sink::check_http_header("Authorization", bearer).has_value(), path_ + ".token",
                              " has a line break or another control character");
            // After check_headers(), which would take it for a header that the user gave twice.
            http.headers.emplace_back("Authorization", bearer);
        }
        if (draft_.outbox == OutboxKind::orders) http.broker = draft_.processed;
        if (draft_.outbox != OutboxKind::events) return;
        http.events = draft_.attributes;
        if (http.secret.empty()) return;
        if (!http.secret_file.empty()) both_given("secret");
        take_over(sink::check_http_secret(http.secret), "secret");
    }

    void both_given(std::string_view name) {
        problems_.about(path_, ": {0} and {0}_file are both given; keep one", name);
    }

    void check_headers(const TextMap& headers) {
        for (const auto& [name, value] : headers) {
            const std::string where = path_ + ".headers." + name;
            if (const auto good = sink::check_http_header(name, value); !good) {
                problems_.add(where, "{}.headers: {}", path_, good.error().message);
            } else if (is_set_by_us(name)) {
                problems_.add(where, "{}.headers: deliverd sets {} itself, so it would be sent twice; remove it here",
                              path_, name);
            }
        }
    }

    [[nodiscard]] bool is_set_by_us(std::string_view name) const {
        if (equal_ignoring_case(name, "Idempotency-Key") || equal_ignoring_case(name, "Content-Type")) return true;
        if (equal_ignoring_case(name, "X-Trace-Id")) return draft_.outbox == OutboxKind::orders;
        if (draft_.outbox == OutboxKind::events && names_an_event(name)) return true;
        return (draft_.token || !sink_.http.token_file.empty()) && equal_ignoring_case(name, "Authorization");
    }

    void finish_kafka() {
        sink::KafkaSinkOptions& kafka = sink_.kafka;
        // An empty list that was given is refused below; only a missing one means the brokers for all.
        if (!problems_.values().has(path_ + ".brokers")) kafka.brokers = all_.config.dead_letters.kafka.brokers;
        // The lane's own settings come last: librdkafka keeps the last value of a name.
        const TextMap own = std::exchange(kafka.librdkafka, kafka_client_settings(all_.kafka));
        kafka.librdkafka.insert(kafka.librdkafka.end(), own.begin(), own.end());
        kafka.password_file = kafka_password_file(problems_.values(), kafka.librdkafka);
        if (kafka.brokers.empty()) {
            problems_.about(path_, " needs brokers, such as `brokers: 127.0.0.1:9092`, or kafka.brokers for all");
        } else {
            take_over(sink::check_kafka_options(kafka), "librdkafka");
        }
    }

    LaneDraft& draft_;
    const Draft& all_;
    SinkConfig& sink_;
    const std::string path_;
    Problems& problems_;
};

/// `lane` is the lane's path, "lanes.events".
void finish_sink(LaneDraft& draft, const Draft& all, const std::string& lane, Problems& problems) {
    const std::string path = lane + ".sink";
    const std::string sink = problems.values().sink_of(path);
    if (sink.empty()) {
        if (problems.are_about(path + ".type")) return;
        return problems.add(path, "{} needs a sink, such as `sink: {{ type: http, url: http://… }}`", lane);
    }
    const std::string outbox = problems.values().outbox_of(path);
    const bool only_events = sink == "kafka" || sink == "rabbitmq" || sink == "nats";
    problems.require(!only_events || outbox.empty() || outbox == "events", path + ".type",
                     ": {} is for lanes with outbox events", sink);
    SinkChecks(draft, all, path, problems).finish();
}

LaneDraft make_lane(const std::string& name, const Draft& all, Problems& problems) {
    const std::string path = "lanes." + name;
    LaneDraft draft;
    lane::LaneOptions& options = draft.options;
    const std::string outbox = problems.values().outbox_of(path);
    // Of the policy, the settings replace only the numbers that they name.
    if (outbox == "orders") options.retry = RetryPolicy::orders();
    if (outbox == "events") options.retry = RetryPolicy::events();
    fill(problems.values(), "lanes.*", path, &draft);
    options.name = name;
    // Somebody who asks for very short waits means all of them.
    options.busy_poll = std::min(options.busy_poll, options.idle_poll);
    options.retry.dead_at_failures = draft.retry_max;
    // For orders `retry.max` counts the retries after the first attempt, for the others all failures.
    if (outbox == "orders") {
        options.retry.dead_at_failures = draft.retry_max + 1;
        options.rescue_interval = std::min(kRescueInterval, options.lease);
    } else if (outbox == "events") {
        options.retry.dead_at_failures = std::max(draft.retry_max, 1);
        finish_events(draft, path, problems);
    } else if (outbox.empty() && !problems.are_about(path + ".outbox")) {
        problems.about(path, " needs an outbox, such as `outbox: memory`");
    }
    finish_sink(draft, all, path, problems);
    return draft;
}

}  // namespace

void finish_lanes(Draft& draft, Problems& problems) {
    // First, so that a setting that has no effect is reported even where its lane cannot be made.
    check_kinds(problems);
    DatabaseConfig& database = draft.config.database;
    std::int64_t longest = 0;
    for (const std::string& name : problems.values().names_below("lanes")) {
        LaneDraft lane = make_lane(name, draft, problems);
        longest = std::max(longest, lane.max_payload_bytes);
        LaneConfig& config = lane;
        draft.config.lanes.push_back(std::move(config));
    }
    // Lanes of memories share one table, and the writer of a memory does not know which lane will send it.
    if (longest > 0) database.postgres.max_payload_bytes = database.sqlite.max_payload_bytes = longest;
    check_tables(draft, problems);
}

}  // namespace deliverd::config
