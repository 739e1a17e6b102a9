#include <array>

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

    void finish() {
        using enum SinkConfig::Type;
        if (draft_.attributes.source.empty()) draft_.attributes.source = "/deliverd/" + draft_.lane.options.name;
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
        if (draft_.lane.outbox == OutboxKind::orders) http.broker = draft_.processed;
        if (draft_.lane.outbox != OutboxKind::events) return;
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
        if (equal_ignoring_case(name, "X-Trace-Id")) return draft_.lane.outbox == OutboxKind::orders;
        if (draft_.lane.outbox == OutboxKind::events && names_an_event(name)) return true;
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

}  // namespace

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

}  // namespace deliverd::config
