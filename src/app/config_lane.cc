#include "app/config_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <ranges>
#include <utility>

#include "app/config_sink.h"

namespace deliverd::app {

namespace {

constexpr double kSecondsAMinute = 60;
constexpr Duration kRescueInterval = std::chrono::seconds(30);  // between looks for stuck orders

class LaneBuilder {
public:
    LaneBuilder(const Values& values, std::vector<Problem>& problems) : values_(values), problems_(problems) {}

    std::vector<LaneConfig> build() {
        std::vector<LaneConfig> lanes;
        check_lane_settings();
        for (const std::string& name : values_.names_below("lanes")) lanes.push_back(lane(name));
        check_outboxes();
        return lanes;
    }

private:
    void problem(const std::string& where, std::string message) {
        problems_.push_back({values_.line_of(where), std::move(message)});
    }

    /// Lanes on one table would take each other's rows: which sink gets a message would be chance.
    void check_outboxes() {
        std::map<std::string, std::string> lane_of;
        for (const std::string& name : values_.names_below("lanes")) {
            const std::string path = "lanes." + name + ".outbox";
            if (!values_.has(path)) continue;
            std::string table = "outbox " + values_.text(path);
            if (values_.text(path) == "events") table += ", table " + whole_name("lanes." + name + ".table");
            const auto [first, fresh] = lane_of.emplace(std::move(table), name);
            if (fresh) continue;
            problem(path, fmt::format("{}: lane \"{}\" has {} already, and the two would take each other's "
                                      "messages; keep one of them",
                                      path, first->second, first->first));
        }
    }

    /// However it is spelt: SQLite's names have no capitals, and both databases have a schema for names without one.
    [[nodiscard]] std::string whole_name(const std::string& path) const {
        std::string table = values_.text(path);
        const std::string url = values_.text("database.url");
        const bool sqlite = !values_.has("database.host") && url.starts_with("sqlite:");
        const std::string schema = sqlite ? "main" : values_.text("database.schema");
        if (table.find('.') == std::string::npos) table.insert(0, schema + ".");
        if (sqlite) {
            std::ranges::transform(table, table.begin(),
                                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
        }
        return table;
    }

    LaneConfig lane(const std::string& name) {
        const std::string path = "lanes." + name;
        LaneConfig lane;
        lane.options.name = name;
        lane.options.batch_size = count_of<std::int32_t>(values_, path + ".batch_size");
        lane.options.parallelism = count_of<std::int32_t>(values_, path + ".parallelism");
        lane.options.throttle = values_.boolean(path + ".throttle");
        const auto max_retries = count_of<std::int32_t>(values_, path + ".retry.max");
        RetryPolicy& retry = lane.options.retry;
        if (values_.text(path + ".outbox") == "orders") {
            lane.outbox = OutboxKind::orders;
            lane.options.lease = from_seconds(values_.number(path + ".stuck_threshold_min") * kSecondsAMinute);
            lane.options.rescue_interval = std::min(kRescueInterval, lane.options.lease);
            lane.options.idle_poll = values_.millis(path + ".idle_sleep_ms");
            retry = RetryPolicy::orders(max_retries);
        } else if (values_.text(path + ".outbox") == "events") {
            lane.outbox = OutboxKind::events;
            lane.options.lease = values_.seconds(path + ".lease_seconds");
            lane.options.idle_poll = values_.millis(path + ".idle_poll_ms");
            retry = RetryPolicy::events();
            retry.dead_at_failures = std::max(max_retries, 1);
        } else {
            lane.options.lease = values_.seconds(path + ".lease_seconds");
            lane.options.idle_poll = values_.seconds(path + ".loop_interval_seconds");
            retry = RetryPolicy::leases(max_retries);
        }
        lane.options.busy_poll = std::min(lane.options.busy_poll, lane.options.idle_poll);
        retry.base_seconds = to_seconds(values_.seconds(path + ".retry.base_seconds"));
        retry.factor = values_.number(path + ".retry.factor");
        retry.cap_seconds = to_seconds(values_.seconds(path + ".retry.cap_seconds"));
        retry.jitter = values_.number(path + ".retry.jitter");
        if (!values_.has(path + ".outbox") && !has_problem_at(problems_, path + ".outbox")) {
            problem(path, fmt::format("{} needs an outbox, such as `outbox: memory`", path));
        }
        if (lane.outbox == OutboxKind::events) lane.events = events(path, lane.options);
        lane.sink = make_sink_config(values_, path, problems_);
        return lane;
    }

    EventsConfig events(const std::string& path, const lane::LaneOptions& options) {
        EventsConfig events;
        relay::RelayOptions& relay = events.relay;
        relay.name = options.name;
        relay.batch_size = options.batch_size;
        relay.parallelism = options.parallelism;
        if (values_.sink_of(path) == "http") {  // more would only wait for a connection
            relay.parallelism =
                std::min(relay.parallelism, count_of<std::int32_t>(values_, path + ".sink.max_connections"));
        }
        relay.lease = options.lease;
        relay.retry = options.retry;
        relay.throttle = options.throttle;
        relay.idle_poll = options.idle_poll;
        relay.busy_poll = std::min(values_.millis(path + ".busy_poll_ms"), relay.idle_poll);
        relay.listen = values_.boolean(path + ".listen");
        relay.strict_order = values_.boolean(path + ".strict_order");
        relay.block_behind_dead = values_.text(path + ".on_dead") == "block";
        relay.topic = topic(path + ".sink.topic");
        events.table = table(path);
        events.table.block_behind_dead = relay.block_behind_dead;
        events.keep_published = values_.seconds(path + ".keep_published");
        return events;
    }

    TopicTemplate topic(const std::string& path) {
        auto parsed = TopicTemplate::parse(values_.text(path));
        if (parsed) return std::move(*parsed);
        problem(path, fmt::format("{} {}", path, parsed.error().message));
        return {};
    }

    store::EventTable table(const std::string& path) {
        store::EventTable table;
        table.lane = path.substr(std::string_view("lanes.").size());
        table.table = values_.text(path + ".table");
        table.shards = count_of<std::int32_t>(values_, path + ".shards");
        table.columns = columns(path + ".columns");
        const bool given = values_.has(path + ".after_publish");
        const bool remove = given ? values_.text(path + ".after_publish") == "delete" : table.columns.published.empty();
        table.after_publish = remove ? store::AfterPublish::remove : store::AfterPublish::mark;
        if (!remove && table.columns.published.empty()) {
            problem(path + ".after_publish", path +
                                                 ".after_publish is mark, but the table has no column for it: map "
                                                 "`published`, or write after_publish: delete");
        }
        return table;
    }

    store::EventColumns columns(const std::string& path) {
        if (values_.text(path) == "debezium") return store::EventColumns::debezium();
        store::EventColumns columns;
        const std::map<std::string_view, std::string*> known{
            {"id", &columns.id},
            {"aggregate_id", &columns.aggregate_id},
            {"aggregate_type", &columns.aggregate_type},
            {"event_type", &columns.event_type},
            {"payload", &columns.payload},
            {"event_id", &columns.event_id},
            {"metadata", &columns.metadata},
            {"created_at", &columns.created_at},
            {"published", &columns.published},
            {"published_at", &columns.published_at},
            {"retry_count", &columns.retry_count},
            {"next_attempt_at", &columns.next_attempt_at},
            {"last_error", &columns.last_error},
            {"dead_at", &columns.dead_at},
        };
        for (const auto& [name, text] : values_.text_map(path)) {
            const auto found = known.find(name);
            if (found == known.end()) {
                problem(path + "." + name, fmt::format("{}: no column is called \"{}\" here; there are: {}", path, name,
                                                       fmt::join(std::views::keys(known), ", ")));
                continue;
            }
            *found->second = text;
        }
        check_columns(columns, path);
        return columns;
    }

    void check_columns(const store::EventColumns& columns, const std::string& path) {
        if (columns.id.empty() || columns.aggregate_id.empty() || columns.event_type.empty() ||
            columns.payload.empty()) {
            problem(path, path + ": id, aggregate_id, event_type and payload are needed");
        }
        const std::array state{columns.retry_count.empty(), columns.next_attempt_at.empty(), columns.last_error.empty(),
                               columns.dead_at.empty()};
        if (std::ranges::count(state, true) % std::ssize(state) != 0) {
            problem(path, path +
                              ": retry_count, next_attempt_at, last_error and dead_at go together; map all four, or "
                              "write all four as \"\"");
        }
    }

    /// A setting of another kind of outbox or sink would be without effect: its writer means something else.
    void check_lane_settings() {
        for (const auto& [path, value] : values_.all()) {
            if (value.setting == nullptr) continue;
            const std::string name = value.origin.starts_with("--") ? value.origin : path;
            const auto check = [&](std::string_view only, const std::string& kind, std::string_view what) {
                if (only.empty() || kind.empty() || is_listed(only, kind)) return;
                problem(path, fmt::format("{} is for lanes with {} {}, and this one has {}{}", name, what,
                                          or_list(only), kind, counterpart(value.setting->path, kind)));
            };
            check(value.setting->only_outbox, values_.outbox_of(path), "outbox");
            check(value.setting->only_sink, values_.sink_of(path), "sink");
        }
    }

    /// "memory|events" → "memory or events".
    static std::string or_list(std::string_view words) {
        std::string text(words);
        for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos;) text.replace(at, 1, " or ");
        return text;
    }

    static std::string_view counterpart(std::string_view pattern, std::string_view outbox) {
        const bool about_lease = pattern == "lanes.*.lease_seconds" || pattern == "lanes.*.stuck_threshold_min";
        const bool about_poll = pattern == "lanes.*.loop_interval_seconds" || pattern == "lanes.*.idle_sleep_ms" ||
                                pattern == "lanes.*.idle_poll_ms";
        if (about_lease) {
            return outbox == "orders" ? "; stuck_threshold_min is what you look for"
                                      : "; lease_seconds is what you look for";
        }
        if (!about_poll) return "";
        if (outbox == "orders") return "; idle_sleep_ms is what you look for";
        return outbox == "events" ? "; idle_poll_ms is what you look for"
                                  : "; loop_interval_seconds is what you look for";
    }

    const Values& values_;
    std::vector<Problem>& problems_;
};

}  // namespace

std::vector<LaneConfig> make_lanes(const Values& values, std::vector<Problem>& problems) {
    return LaneBuilder(values, problems).build();
}

}  // namespace deliverd::app
