#include "app/config_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace deliverd::app {

namespace {

constexpr double kSecondsAMinute = 60;
constexpr Duration kRescueInterval = std::chrono::seconds(30);  // between looks for stuck orders

template <typename Size = std::size_t>
Size count_of(const Values& values, const std::string& path) {
    return static_cast<Size>(values.integer(path));
}

/// "code, status" → code and status.
std::vector<std::string> listed(std::string_view text) {
    std::vector<std::string> names;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        std::string_view name = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        while (name.starts_with(' ')) name.remove_prefix(1);
        while (name.ends_with(' ')) name.remove_suffix(1);
        if (!name.empty()) names.emplace_back(name);
    }
    return names;
}

bool equal_names(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

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
            const auto [first, fresh] = lane_of.emplace(values_.text(path), name);
            if (fresh) continue;
            problem(path, fmt::format("{}: lane \"{}\" has outbox {} already, and the two would take each other's "
                                      "messages; keep one of them",
                                      path, first->second, first->first));
        }
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
        if (!values_.has(path + ".outbox") && !has_problem_at(path + ".outbox")) {
            problem(path, fmt::format("{} needs an outbox, such as `outbox: memory`", path));
        }
        lane.sink = sink(path);
        if (lane.outbox == OutboxKind::orders) speak_with_broker(lane.sink.http, path + ".sink");
        return lane;
    }

    /// A setting of another kind of outbox would be without effect: its writer means something else.
    void check_lane_settings() {
        for (const auto& [path, value] : values_.all()) {
            const Setting* setting = value.setting;
            const std::string outbox = values_.outbox_of(path);
            if (setting == nullptr || setting->only_outbox.empty() || outbox.empty() ||
                outbox == setting->only_outbox) {
                continue;
            }
            const bool from_flag = value.origin.starts_with("--");
            problem(path, fmt::format("{} is for lanes with outbox {}, and this one has {}{}",
                                      from_flag ? value.origin : path, setting->only_outbox, outbox,
                                      counterpart(setting->path)));
        }
    }

    static std::string_view counterpart(std::string_view pattern) {
        if (pattern == "lanes.*.lease_seconds") return "; stuck_threshold_min is what you look for";
        if (pattern == "lanes.*.loop_interval_seconds") return "; idle_sleep_ms is what you look for";
        if (pattern == "lanes.*.stuck_threshold_min") return "; lease_seconds is what you look for";
        if (pattern == "lanes.*.idle_sleep_ms") return "; loop_interval_seconds is what you look for";
        return "";
    }

    void speak_with_broker(sink::HttpSinkOptions& http, const std::string& path) {
        http.broker = ProcessedMatch{listed(values_.text(path + ".processed_fields")),
                                     values_.text(path + ".processed_value"), values_.text(path + ".processed_text")};
    }

    /// A key that was given but refused has its own problem already; it is not missing on top of that.
    bool has_problem_at(const std::string& path) const {
        return std::ranges::any_of(problems_, [&](const Problem& p) { return p.message.starts_with(path); });
    }

    SinkConfig sink(const std::string& lane) {
        const std::string path = lane + ".sink";
        SinkConfig sink;
        if (!values_.has(path + ".type")) {
            if (!has_problem_at(path + ".type")) {
                problem(values_.line_of(path) > 0 ? path : lane,
                        fmt::format("{} needs a sink, such as `sink: {{ type: http, url: http://… }}`", lane));
            }
            return sink;
        }
        const std::string type = values_.text(path + ".type");
        sink.type = type == "http"      ? SinkConfig::Type::http
                    : type == "console" ? SinkConfig::Type::console
                                        : SinkConfig::Type::none;
        if (sink.type != SinkConfig::Type::http) return sink;
        sink.http = http_sink(path);
        return sink;
    }

    sink::HttpSinkOptions http_sink(const std::string& path) {
        sink::HttpSinkOptions http;
        http.url = values_.text(path + ".url");
        const auto url = sink::check_http_url(http.url);
        if (!url && !has_problem_at(path + ".url")) {
            problem(values_.has(path + ".url") ? path + ".url" : path,
                    fmt::format("{}.url {}", path, url.error().message));
        }
        http.headers = values_.text_map(path + ".headers");
        check_headers(http.headers, path);
        http.token_file = values_.text(path + ".token_file");
        if (values_.has(path + ".token")) {
            if (!http.token_file.empty()) problem(path, path + ": token and token_file are both given; keep one");
            const std::string bearer = "Bearer " + values_.text(path + ".token");
            if (!sink::check_http_header("Authorization", bearer)) {
                problem(path + ".token", path + ".token has a line break or another control character");
            }
            http.headers.emplace_back("Authorization", bearer);
        }
        http.timeout = values_.millis(path + ".timeout_ms");
        http.connect_timeout = values_.millis(path + ".connect_timeout_ms");
        http.max_connections = count_of(values_, path + ".max_connections");
        http.max_answer_bytes = count_of(values_, path + ".max_answer_bytes");
        http.verify_tls = values_.boolean(path + ".verify_tls");
        http.ca_file = values_.text(path + ".ca_file");
        http.receipt_fields = {"memory_id", "id"};
        return http;
    }

    void check_headers(const std::vector<std::pair<std::string, std::string>>& headers, const std::string& path) {
        for (const auto& [name, value] : headers) {
            if (const auto good = sink::check_http_header(name, value); !good) {
                problem(path + ".headers." + name, fmt::format("{}.headers: {}", path, good.error().message));
            } else if (is_set_by_us(name, path)) {
                problem(path + ".headers." + name,
                        fmt::format("{}.headers: deliverd sets {} itself, and it would go out twice; remove it here",
                                    path, name));
            }
        }
    }

    [[nodiscard]] bool is_set_by_us(std::string_view name, const std::string& path) const {
        if (equal_names(name, "Idempotency-Key") || equal_names(name, "Content-Type")) return true;
        if (equal_names(name, "X-Trace-Id")) return values_.outbox_of(path) == "orders";
        const bool has_token = values_.has(path + ".token") || !values_.text(path + ".token_file").empty();
        return has_token && equal_names(name, "Authorization");
    }

    const Values& values_;
    std::vector<Problem>& problems_;
};

}  // namespace

std::vector<LaneConfig> make_lanes(const Values& values, std::vector<Problem>& problems) {
    return LaneBuilder(values, problems).build();
}

}  // namespace deliverd::app
