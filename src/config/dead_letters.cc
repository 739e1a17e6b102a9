#include "config/finish.h"
#include "deadletter/kafka/record_source.h"
#include "deadletter/topic_pattern.h"

namespace deliverd::config {

namespace {

/// Without SASL librdkafka would accept these and never use them.
void check_sasl(const KafkaSettings& settings, Problems& problems) {
    if (settings.security_protocol.starts_with("SASL_")) return;
    for (const char* path : {"kafka.sasl_mechanism", "kafka.sasl_username", "kafka.sasl_password"}) {
        if (!problems.values().has(path)) continue;
        return problems.about(path, " is given, but kafka.security_protocol is {}; make it SASL_SSL or SASL_PLAINTEXT",
                              settings.security_protocol);
    }
}

/// What librdkafka itself refuses. Reading is only checked where it is done.
void check_client(const DeadLettersConfig& config, Problems& problems) {
    Result<void> checked = deadletter::check_replayer_options(replayer_options(config));
    if (checked && config.ingest) {
        checked = deadletter::check_record_source_options(record_source_options(config.kafka));
    }
    problems.require(checked, "kafka", ": {}");
}

}  // namespace

TextMap kafka_client_settings(const KafkaSettings& settings) {
    TextMap out;
    if (settings.security_protocol != "PLAINTEXT") out.emplace_back("security.protocol", settings.security_protocol);
    const auto add = [&](const char* name, const std::optional<std::string>& text) {
        if (text) out.emplace_back(name, *text);
    };
    add("sasl.mechanism", settings.sasl_mechanism);
    add("sasl.username", settings.sasl_username);
    add("sasl.password", settings.sasl_password);
    add("ssl.ca.location", settings.ssl_ca_file);
    out.insert(out.end(), settings.librdkafka.begin(), settings.librdkafka.end());
    return out;
}

std::string kafka_password_file(const Values& values, const TextMap& settings) {
    const Value* value = values.find("kafka.sasl_password");
    // With two, librdkafka takes the last, and that one is from no file.
    const auto is_password = [](const auto& setting) { return setting.first == "sasl.password"; };
    return value != nullptr && std::ranges::count_if(settings, is_password) == 1 ? value->file : std::string();
}

deadletter::RecordSourceOptions record_source_options(const KafkaConfig& kafka) {
    const sink::KafkaClientOptions& client = kafka;
    return {client, kafka.consumer_group, kafka.topic_pattern};
}

deadletter::ReplayerOptions replayer_options(const DeadLettersConfig& config) {
    const sink::KafkaClientOptions& client = config.kafka;
    return {client, config.replay_timeout};
}

void finish_dead_letters(Draft& draft, Problems& problems) {
    const std::size_t before = problems.count();
    DeadLettersConfig& config = draft.config.dead_letters;
    KafkaConfig& kafka = config.kafka;
    for (const std::string& pattern : kafka.replay_topics) {
        problems.require(deadletter::check_topic_pattern(pattern), "kafka.replay_topics", ": {}");
    }
    problems.require(!kafka.consumer_group.empty(), "kafka.consumer_group", " must not be empty");
    problems.require(!kafka.topic_pattern.empty(), "kafka.dlq_topic_pattern", " must not be empty");
    check_sasl(draft.kafka, problems);
    kafka.configured = problems.values().has_section("kafka");
    // Empty means that there is no Kafka; the setting itself always has a default.
    if (!kafka.configured) kafka.topic_pattern.clear();
    kafka.librdkafka = kafka_client_settings(draft.kafka);
    kafka.password_file = kafka_password_file(problems.values(), kafka.librdkafka);

    problems.require(config.retry_lease > kLongestPublishTimeouts * config.replay_timeout,
                     "dead_letters.retry_lease_seconds",
                     " must be more than {} times dead_letters.replay_timeout_seconds, or a retry in progress would "
                     "be repeated",
                     kLongestPublishTimeouts);
    // librdkafka would report the same mistakes again in its own words.
    if (!kafka.brokers.empty() && problems.count() == before) check_client(config, problems);
}

}  // namespace deliverd::config
