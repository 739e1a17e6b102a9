#include "app/config_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "app/config_dead_letters.h"

namespace deliverd::app {

namespace {

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

/// Headers that say what an event is. Those of its metadata are not known beforehand.
bool names_an_event(std::string_view name) {
    constexpr std::array<std::string_view, 6> kNames{"webhook-id",     "webhook-timestamp", "webhook-signature",
                                                     "x-aggregate-id", "x-event-type",      "x-created-at"};
    return std::ranges::any_of(kNames, [&](std::string_view known) { return equal_names(name, known); }) ||
           (name.size() > 3 && equal_names(name.substr(0, 3), "ce-"));
}

class SinkBuilder {
public:
    SinkBuilder(const Values& values, std::string lane, std::vector<Problem>& problems)
        : values_(values),
          lane_(std::move(lane)),
          path_(lane_ + ".sink"),
          is_events_(values.outbox_of(path_) == "events"),
          problems_(problems) {}

    SinkConfig build() {
        using enum SinkConfig::Type;
        static const std::map<std::string_view, SinkConfig::Type> kTypes{{"http", http},         {"kafka", kafka},
                                                                         {"rabbitmq", rabbitmq}, {"nats", nats},
                                                                         {"console", console},   {"none", none}};
        SinkConfig sink;
        if (!values_.has(path_ + ".type")) {
            if (!has_problem_at(problems_, path_ + ".type")) {
                problem(values_.line_of(path_) > 0 ? path_ : lane_,
                        fmt::format("{} needs a sink, such as `sink: {{ type: http, url: http://… }}`", lane_));
            }
            return sink;
        }
        const std::string type = values_.text(path_ + ".type");
        sink.type = kTypes.at(type);
        const bool only_events = sink.type == kafka || sink.type == rabbitmq || sink.type == nats;
        if (only_events && !is_events_ && values_.has(lane_ + ".outbox")) {
            problem(path_ + ".type", fmt::format("{}.type: {} is for lanes with outbox events", path_, type));
        }
        if (sink.type == http) sink.http = http_sink();
        if (sink.type == kafka) sink.kafka = kafka_sink();
        if (sink.type == rabbitmq) sink.rabbitmq = rabbitmq_sink();
        if (sink.type == nats) sink.nats = nats_sink();
        return sink;
    }

private:
    void problem(const std::string& where, std::string message) {
        problems_.push_back({values_.line_of(where), std::move(message)});
    }

    [[nodiscard]] std::string text(const std::string& name) const { return values_.text(path_ + "." + name); }
    [[nodiscard]] Duration millis(const std::string& name) const { return values_.millis(path_ + "." + name); }

    /// What a sink itself refuses about its options stands at the setting that the message begins with, if it does.
    void take_over(const Result<void>& checked, const std::string& setting) {
        const std::string where = path_ + "." + setting;
        if (checked || has_problem_at(problems_, where)) return;
        problem(values_.has(where) ? where : path_, fmt::format("{} {}", where, checked.error().message));
    }

    EventAttributesOptions attributes() const {
        EventAttributesOptions options;
        options.format = text("format") == "cloudevents" ? EventFormat::cloudevents : EventFormat::plain;
        options.source = text("source");
        if (options.source.empty()) options.source = "/deliverd/" + lane_.substr(std::string_view("lanes.").size());
        return options;
    }

    sink::HttpSinkOptions http_sink() {
        sink::HttpSinkOptions http;
        http.url = text("url");
        take_over(sink::check_http_url(http.url), "url");
        http.headers = values_.text_map(path_ + ".headers");
        check_headers(http.headers);
        http.token_file = text("token_file");
        if (values_.has(path_ + ".token")) {
            if (!http.token_file.empty()) problem(path_, path_ + ": token and token_file are both given; keep one");
            const std::string bearer = "Bearer " + text("token");
            if (!sink::check_http_header("Authorization", bearer)) {
                problem(path_ + ".token", path_ + ".token has a line break or another control character");
            }
            http.headers.emplace_back("Authorization", bearer);
        }
        http.timeout = millis("timeout_ms");
        http.connect_timeout = millis("connect_timeout_ms");
        http.max_connections = count_of(values_, path_ + ".max_connections");
        http.max_answer_bytes = count_of(values_, path_ + ".max_answer_bytes");
        http.verify_tls = values_.boolean(path_ + ".verify_tls");
        http.ca_file = text("ca_file");
        http.receipt_fields = {"memory_id", "id"};
        http.breaker_failures = count_of<std::int32_t>(values_, path_ + ".breaker_failures");
        http.breaker_pause = values_.seconds(path_ + ".breaker_seconds");
        if (values_.outbox_of(path_) == "orders") speak_with_broker(http);
        if (is_events_) speak_of_events(http);
        return http;
    }

    void speak_with_broker(sink::HttpSinkOptions& http) const {
        http.broker = ProcessedMatch{listed(text("processed_fields")), text("processed_value"), text("processed_text")};
    }

    void speak_of_events(sink::HttpSinkOptions& http) {
        http.events = attributes();
        http.secret = text("secret");
        http.secret_file = text("secret_file");
        if (!http.secret.empty() && !http.secret_file.empty()) {
            problem(path_, path_ + ": secret and secret_file are both given; keep one");
        }
        if (!http.secret.empty()) take_over(sink::check_http_secret(http.secret), "secret");
    }

    void check_headers(const std::vector<std::pair<std::string, std::string>>& headers) {
        for (const auto& [name, value] : headers) {
            if (const auto good = sink::check_http_header(name, value); !good) {
                problem(path_ + ".headers." + name, fmt::format("{}.headers: {}", path_, good.error().message));
            } else if (is_set_by_us(name)) {
                problem(path_ + ".headers." + name,
                        fmt::format("{}.headers: deliverd sets {} itself, and it would go out twice; remove it here",
                                    path_, name));
            }
        }
    }

    [[nodiscard]] bool is_set_by_us(std::string_view name) const {
        if (equal_names(name, "Idempotency-Key") || equal_names(name, "Content-Type")) return true;
        if (equal_names(name, "X-Trace-Id")) return values_.outbox_of(path_) == "orders";
        if (is_events_ && names_an_event(name)) return true;
        const bool has_token = values_.has(path_ + ".token") || !text("token_file").empty();
        return has_token && equal_names(name, "Authorization");
    }

    sink::KafkaSinkOptions kafka_sink() {
        sink::KafkaSinkOptions kafka;
        kafka.brokers = values_.has(path_ + ".brokers") ? text("brokers") : values_.text("kafka.brokers");
        kafka.attributes = attributes();
        kafka.timeout = millis("timeout_ms");
        kafka.linger = from_seconds(values_.number(path_ + ".linger_ms") / 1000);
        kafka.compression = text("compression");
        kafka.librdkafka = kafka_client_settings(values_);
        for (auto& entry : values_.text_map(path_ + ".librdkafka")) kafka.librdkafka.push_back(std::move(entry));
        kafka.password_file = kafka_password_file(values_, kafka.librdkafka);
        if (kafka.brokers.empty()) {
            problem(path_, path_ + " needs brokers, such as `brokers: 127.0.0.1:9092`, or kafka.brokers for all");
        } else {
            take_over(sink::check_kafka_options(kafka), "librdkafka");
        }
        return kafka;
    }

    sink::RabbitmqSinkOptions rabbitmq_sink() {
        sink::RabbitmqSinkOptions rabbitmq;
        rabbitmq.url = text("url");
        rabbitmq.exchange = text("exchange");
        rabbitmq.attributes = attributes();
        rabbitmq.password_file = text("password_file");
        rabbitmq.timeout = millis("timeout_ms");
        rabbitmq.connect_timeout = millis("connect_timeout_ms");
        rabbitmq.heartbeat = values_.seconds(path_ + ".heartbeat_seconds");
        rabbitmq.verify_tls = values_.boolean(path_ + ".verify_tls");
        rabbitmq.ca_file = text("ca_file");
        take_over(sink::check_rabbitmq_options(rabbitmq), "url");
        return rabbitmq;
    }

    sink::NatsSinkOptions nats_sink() {
        sink::NatsSinkOptions nats;
        nats.url = text("url");
        nats.attributes = attributes();
        nats.credentials_file = text("credentials_file");
        nats.token_file = text("token_file");
        nats.timeout = millis("timeout_ms");
        nats.connect_timeout = millis("connect_timeout_ms");
        nats.verify_tls = values_.boolean(path_ + ".verify_tls");
        nats.ca_file = text("ca_file");
        take_over(sink::check_nats_options(nats), "url");
        return nats;
    }

    const Values& values_;
    const std::string lane_;
    const std::string path_;
    const bool is_events_;
    std::vector<Problem>& problems_;
};

}  // namespace

bool has_problem_at(const std::vector<Problem>& problems, const std::string& path) {
    return std::ranges::any_of(problems, [&](const Problem& p) { return p.message.starts_with(path); });
}

SinkConfig make_sink_config(const Values& values, const std::string& lane, std::vector<Problem>& problems) {
    return SinkBuilder(values, lane, problems).build();
}

}  // namespace deliverd::app
