#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "config/finish.h"

namespace deliverd::config {

namespace {

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
        : draft_(draft), all_(all), sink_(draft.lane.sink), path_(std::move(path)), problems_(problems) {}

    void finish(const std::string& lane_name) {
        using enum SinkConfig::Type;
        if (draft_.attributes.source.empty()) draft_.attributes.source = "/deliverd/" + lane_name;
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
        if (checked || problems_.are_about(where)) return;
        problems_.add(problems_.values().has(where) ? where : path_,
                      fmt::format("{} {}", where, checked.error().message));
    }

    void finish_http() {
        sink::HttpSinkOptions& http = sink_.http;
        take_over(sink::check_http_url(http.url), "url");
        check_headers(http.headers);
        if (draft_.token) {
            if (!http.token_file.empty()) both_given("token");
            const std::string bearer = "Bearer " + *draft_.token;
            if (!sink::check_http_header("Authorization", bearer)) {
                problems_.add(path_ + ".token", path_ + ".token has a line break or another control character");
            }
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
        problems_.add(path_, fmt::format("{0}: {1} and {1}_file are both given; keep one", path_, name));
    }

    void check_headers(const TextMap& headers) {
        for (const auto& [name, value] : headers) {
            if (const auto good = sink::check_http_header(name, value); !good) {
                problems_.add(path_ + ".headers." + name, fmt::format("{}.headers: {}", path_, good.error().message));
            } else if (is_set_by_us(name)) {
                problems_.add(path_ + ".headers." + name,
                              fmt::format("{}.headers: deliverd sets {} itself, so it would be sent twice; remove it "
                                          "here",
                                          path_, name));
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
        if (!problems_.values().has(path_ + ".brokers")) kafka.brokers = all_.config.dead_letters.kafka.brokers;
        kafka.librdkafka = kafka_client_settings(all_.kafka);
        kafka.librdkafka.insert(kafka.librdkafka.end(), draft_.librdkafka.begin(), draft_.librdkafka.end());
        kafka.password_file = kafka_password_file(problems_.values(), kafka.librdkafka);
        if (kafka.brokers.empty()) {
            problems_.add(path_, path_ + " needs brokers, such as `brokers: 127.0.0.1:9092`, or kafka.brokers for all");
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

}  // namespace

void finish_sink(LaneDraft& draft, const Draft& all, const std::string& lane, Problems& problems) {
    using enum SinkConfig::Type;
    const std::string path = lane + ".sink";
    if (!draft.sink) {
        if (problems.are_about(path + ".type")) return;
        return problems.add(problems.values().line_of(path) > 0 ? path : lane,
                            fmt::format("{} needs a sink, such as `sink: {{ type: http, url: http://… }}`", lane));
    }
    draft.lane.sink.type = *draft.sink;
    const bool only_events = draft.sink == kafka || draft.sink == rabbitmq || draft.sink == nats;
    if (only_events && draft.outbox && draft.outbox != OutboxKind::events) {
        problems.add(path + ".type",
                     fmt::format("{}.type: {} is for lanes with outbox events", path, problems.values().sink_of(path)));
    }
    SinkChecks(draft, all, path, problems).finish(draft.lane.options.name);
}

}  // namespace deliverd::config
