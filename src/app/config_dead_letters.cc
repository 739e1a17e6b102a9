#include "app/config_dead_letters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>

#include "deadletter/topic_pattern.h"

namespace deliverd::app {

namespace {

class DeadLettersBuilder {
public:
    DeadLettersBuilder(const Values& values, std::vector<Problem>& problems) : values_(values), problems_(problems) {}

    DeadLettersConfig build() {
        const std::size_t before = problems_.size();
        DeadLettersConfig config;
        config.kafka = kafka();
        config.ingest = values_.boolean("dead_letters.ingest");
        config.replay_timeout = values_.seconds("dead_letters.replay_timeout_seconds");
        config.retry_lease = values_.seconds("dead_letters.retry_lease_seconds");
        config.keep_resolved = values_.seconds_or_never("dead_letters.keep_resolved");
        config.keep_dead = values_.seconds_or_never("dead_letters.keep_dead");
        config.keep_pending = values_.seconds_or_never("dead_letters.keep_pending");
        config.keep_audit = values_.seconds_or_never("dead_letters.keep_audit");
        if (config.retry_lease <= kLongestPublishTimeouts * config.replay_timeout) {
            problem("dead_letters.retry_lease_seconds",
                    fmt::format("dead_letters.retry_lease_seconds must be more than {} times "
                                "dead_letters.replay_timeout_seconds, or a retry under way would be made a second time",
                                kLongestPublishTimeouts));
        }
        if (!config.kafka.brokers.empty() && problems_.size() == before) check_client(config);
        return config;
    }

private:
    void problem(const std::string& where, std::string message) {
        problems_.push_back({values_.line_of(where), std::move(message)});
    }

    KafkaConfig kafka() {
        KafkaConfig kafka;
        kafka.configured = values_.line_of("kafka") > 0;
        kafka.brokers = values_.text("kafka.brokers");
        kafka.consumer_group = values_.text("kafka.consumer_group");
        if (kafka.configured) kafka.topic_pattern = values_.text("kafka.dlq_topic_pattern");
        kafka.replay_topics = replay_topics();
        kafka.max_value_bytes = static_cast<std::size_t>(values_.integer("kafka.max_value_bytes"));
        kafka.librdkafka = kafka_client_settings(values_);
        kafka.password_file = kafka_password_file(values_, kafka.librdkafka);
        for (const char* path : {"kafka.consumer_group", "kafka.dlq_topic_pattern"}) {
            if (values_.text(path).empty()) problem(path, fmt::format("{} must not be empty", path));
        }
        check_sasl();
        return kafka;
    }

    std::vector<std::string> replay_topics() {
        std::vector<std::string> patterns;
        std::istringstream list(values_.text("kafka.replay_topics"));
        for (std::string pattern; std::getline(list, pattern, ',');) {
            if (auto ok = deadletter::check_topic_pattern(pattern); !ok) {
                problem("kafka.replay_topics", fmt::format("kafka.replay_topics: {}", ok.error().message));
            }
            patterns.push_back(std::move(pattern));
        }
        return patterns;
    }

    /// What librdkafka itself refuses. Reading is only checked where it is done.
    void check_client(const DeadLettersConfig& config) {
        Result<void> checked = deadletter::check_replayer_options(replayer_options(config));
        if (checked && config.ingest) {
            checked = deadletter::check_record_source_options(record_source_options(config.kafka));
        }
        if (!checked) problem("kafka", fmt::format("kafka: {}", checked.error().message));
    }

    /// Without SASL librdkafka would take these and never use them.
    void check_sasl() {
        if (values_.text("kafka.security_protocol").starts_with("SASL_")) return;
        for (const char* path : {"kafka.sasl_mechanism", "kafka.sasl_username", "kafka.sasl_password"}) {
            if (!values_.has(path)) continue;
            return problem(path, fmt::format("{} is given, but kafka.security_protocol is {}; make it SASL_SSL or "
                                             "SASL_PLAINTEXT",
                                             path, values_.text("kafka.security_protocol")));
        }
    }

    const Values& values_;
    std::vector<Problem>& problems_;
};

}  // namespace

std::vector<std::pair<std::string, std::string>> kafka_client_settings(const Values& values) {
    struct Key {
        const char* path;
        const char* name;
    };
    constexpr std::array<Key, 4> kKeys{{{"kafka.sasl_mechanism", "sasl.mechanism"},
                                        {"kafka.sasl_username", "sasl.username"},
                                        {"kafka.sasl_password", "sasl.password"},
                                        {"kafka.ssl_ca_file", "ssl.ca.location"}}};
    std::vector<std::pair<std::string, std::string>> out;
    const std::string protocol = values.text("kafka.security_protocol");
    if (protocol != "PLAINTEXT") out.emplace_back("security.protocol", protocol);
    for (const Key& key : kKeys) {
        if (values.has(key.path)) out.emplace_back(key.name, values.text(key.path));
    }
    for (auto& entry : values.text_map("kafka.librdkafka")) out.push_back(std::move(entry));
    return out;
}

std::string kafka_password_file(const Values& values,
                                const std::vector<std::pair<std::string, std::string>>& settings) {
    const Value* value = values.find("kafka.sasl_password");
    const auto is_password = [](const auto& setting) { return setting.first == "sasl.password"; };
    return value != nullptr && std::ranges::count_if(settings, is_password) == 1 ? value->file : std::string();
}

deadletter::RecordSourceOptions record_source_options(const KafkaConfig& kafka) {
    deadletter::RecordSourceOptions options;
    options.brokers = kafka.brokers;
    options.group = kafka.consumer_group;
    options.topic_pattern = kafka.topic_pattern;
    options.librdkafka = kafka.librdkafka;
    options.password_file = kafka.password_file;
    return options;
}

deadletter::ReplayerOptions replayer_options(const DeadLettersConfig& config) {
    deadletter::ReplayerOptions options;
    options.brokers = config.kafka.brokers;
    options.timeout = config.replay_timeout;
    options.librdkafka = config.kafka.librdkafka;
    options.password_file = config.kafka.password_file;
    return options;
}

DeadLettersConfig make_dead_letters(const Values& values, std::vector<Problem>& problems) {
    return DeadLettersBuilder(values, problems).build();
}

}  // namespace deliverd::app
