#include <array>
#include <ranges>

#include "base/text.h"
#include "config/finish.h"

namespace deliverd::config {

namespace {

constexpr Duration kRescueInterval = std::chrono::seconds(30);  // between searches for stuck orders

/// A table's name in one spelling: SQLite ignores case, and both databases have a schema for names without one.
std::string whole_name(std::string table, const Draft& draft) {
    const bool sqlite = draft.config.database.kind == DatabaseTarget::Kind::sqlite;
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
        // A flag of `worker` stands for a path that the user has not written.
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
            problems.add(path + "." + name, "{}: no column is called \"{}\"; known are: {}", path, name,
                         fmt::join(std::views::keys(known), ", "));
        }
    }
    check_columns(columns, path, problems);
    return columns;
}

void finish_events(LaneDraft& draft, const std::string& path, Problems& problems) {
    store::EventTable& table = draft.lane.events.table;
    table.lane = draft.lane.options.name;
    table.columns = make_columns(draft.columns, path + ".columns", problems);
    const bool no_mark = table.columns.published.empty();
    // Without the column only deleting can record that an event was published, so that is the default then.
    if (no_mark && !problems.values().has(path + ".after_publish")) table.after_publish = store::AfterPublish::remove;
    problems.require(!no_mark || table.after_publish != store::AfterPublish::mark, path + ".after_publish",
                     " is mark, but the table has no column for it: map `published`, or write after_publish: delete");

    relay::RelayOptions& relay = draft.lane.events.relay;
    // The settings fill the options of lanes that claim; the engine's part of them is the same for a relay.
    const pipeline::EngineOptions& engine = draft.lane.options;
    static_cast<pipeline::EngineOptions&>(relay) = engine;
    if (draft.lane.sink.type == SinkConfig::Type::http) {  // more would only wait for a connection
        const auto connections = static_cast<std::int32_t>(draft.lane.sink.http.max_connections);
        relay.parallelism = std::min(relay.parallelism, connections);
    }
    auto topic = TopicTemplate::parse(draft.topic);
    problems.require(topic, path + ".sink.topic", " {}");
    if (topic) relay.topic = std::move(*topic);
}

LaneDraft make_lane(const std::string& name, const Draft& all, Problems& problems) {
    const std::string path = "lanes." + name;
    LaneDraft draft;
    lane::LaneOptions& options = draft.lane.options;
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
        draft.config.lanes.push_back(std::move(lane.lane));
    }
    // Lanes of memories share one table, and whoever stores a memory does not know which lane will send it.
    if (longest > 0) database.postgres.max_payload_bytes = database.sqlite.max_payload_bytes = longest;
    check_tables(draft, problems);
}

}  // namespace deliverd::config
