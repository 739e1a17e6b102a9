#include "sink/kafka/conf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "base/try.h"
#include "message/message.h"
#include "sink/server_url.h"

namespace deliverd::sink {

namespace {

constexpr std::string_view kBrokers = "use the setting for the brokers instead";
constexpr std::string_view kCode = "deliverd runs no foreign code";
constexpr std::string_view kEvents = "every message needs its delivery report";

constexpr std::array kRefusedByAll{
    RefusedSetting{"bootstrap.servers", kBrokers},
    RefusedSetting{"metadata.broker.list", kBrokers},
    RefusedSetting{"test.mock.num.brokers", "a broker that is made up keeps nothing"},
    RefusedSetting{"enabled_events", kEvents},
    RefusedSetting{"log.queue", "the log is deliverd's"},
    RefusedSetting{"plugin.library.paths", kCode},
    RefusedSetting{"interceptors", kCode},
};

constexpr std::array<std::string_view, 5> kSecretParts{"password", "secret", "oauthbearer.config", "key.pem",
                                                       "ssl_key"};

bool is_callback(std::string_view name) {
    return name.ends_with("_cb") || name == "opaque" || name == "default_topic_conf" || name == "msg_order_cmp" ||
           name == "ssl_engine_callback_data";
}

struct KnownSetting {
    std::string name;
    char kind;  // 'C' of consumers, 'P' of producers, '*' of both
};

/// Every setting librdkafka knows, read from the table it prints: `name | C/P | range | default | …`.
std::vector<KnownSetting> known_settings() {
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* file = ::open_memstream(&text, &size);
    if (file == nullptr) return {};
    rd_kafka_conf_properties_show(file);
    std::fclose(file);
    std::vector<KnownSetting> settings;
    std::string_view rest(text, size);
    while (!rest.empty()) {
        const auto line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        const auto end = line.find(' ');
        const auto bar = line.find('|');
        if (end == line.npos || bar == line.npos || end > bar) continue;
        const auto kind = line.find_first_not_of(' ', bar + 1);
        if (kind != line.npos) settings.push_back({std::string(line.substr(0, end)), line[kind]});
    }
    std::free(text);
    return settings;
}

Failure unknown_setting(const std::string& name) {
    const auto known = known_settings();
    std::vector<std::string_view> names;
    for (const auto& setting : known) {
        if (setting.name.find('.') != std::string::npos) names.push_back(setting.name);
    }
    const auto close = nearest(name, names);
    return bad_argument(fmt::format("librdkafka has no setting '{}'{}", shorten(one_line(name), 64),
                                    close ? fmt::format("; did you mean '{}'?", *close) : ""));
}

Result<void> check_allowed(const std::string& name, std::span<const RefusedSetting> refused) {
    std::string_view why;
    for (const auto list : {refused, std::span<const RefusedSetting>(kRefusedByAll)}) {
        const auto found = std::ranges::find(list, std::string_view(name), &RefusedSetting::name);
        if (found != list.end() && why.empty()) why = found->why;
    }
    if (why.empty() && is_callback(name)) why = kCode;
    if (why.empty()) return {};
    return bad_argument(fmt::format("librdkafka's setting '{}' cannot be set here: {}", name, why));
}

/// Whether only clients of the other type have this setting.
bool is_of_others(const std::vector<KnownSetting>& known, rd_kafka_type_t type, const std::string& name) {
    const auto found = std::ranges::find(known, name, &KnownSetting::name);
    return found != known.end() && found->kind == (type == RD_KAFKA_PRODUCER ? 'C' : 'P');
}

}  // namespace

Result<void> set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
    // Its text repeats the value, which may be a secret: only the kind of its answer is used.
    std::array<char, 512> ignored{};
    switch (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), ignored.data(), ignored.size())) {
        case RD_KAFKA_CONF_OK:
            return {};
        case RD_KAFKA_CONF_UNKNOWN:
            return unknown_setting(name);
        default:
            return bad_argument(
                fmt::format("librdkafka's setting '{}' does not take the value that was given: see its "
                            "list of settings for what it takes",
                            shorten(one_line(name), 64)));
    }
}

Result<void> set_given(rd_kafka_conf_t* conf, rd_kafka_type_t type, const KafkaSettings& given,
                       std::span<const RefusedSetting> refused) {
    if (given.empty()) return {};
    const auto known = known_settings();
    const Conf left_out(rd_kafka_conf_new());  // checks values that are not used
    for (const auto& [name, value] : given) {
        TRY(check_allowed(name, refused));
        auto* place = is_of_others(known, type, name) ? left_out.get() : conf;
        TRY(set(place, name, value));
    }
    return {};
}

Result<void> check_brokers(const std::string& brokers) {
    if (brokers.empty()) return bad_argument("there are no brokers of Kafka: set HOST:PORT");
    for (const auto broker : comma_separated(brokers)) {
        const auto place = parse_server_url("kafka://" + std::string(broker));
        if (place && place->user.empty() && place->path.empty()) continue;
        // With an "@" there may be a password in it.
        const bool may_show = brokers.find('@') == std::string::npos;
        return bad_argument(
            fmt::format("Kafka's brokers{} cannot be used: write HOST:PORT, several of "
                        "them joined by commas",
                        may_show ? fmt::format(" '{}'", shorten(one_line(brokers), 200)) : std::string()));
    }
    return {};
}

Result<rd_kafka_t*> new_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given) {
    std::array<char, 512> problem{};
    rd_kafka_conf_t* handed = conf.release();
    rd_kafka_t* kafka = rd_kafka_new(type, handed, problem.data(), problem.size());
    if (kafka == nullptr) {
        conf.reset(handed);  // not taken
        return bad_argument(
            fmt::format("librdkafka refuses its settings: {}", Secrets(given).hidden(problem.data(), kMaxDetailBytes)));
    }
    return kafka;
}

Result<void> try_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given) {
    TRY(set(conf.get(), "bootstrap.servers", ""));
    TRY_ASSIGN(const auto kafka, new_client(type, std::move(conf), given));
    rd_kafka_destroy(kafka);
    return {};
}

Secrets::Secrets(const KafkaSettings& settings) {
    for (const auto& [name, value] : settings) {
        const bool secret = std::ranges::any_of(
            kSecretParts, [&name = name](std::string_view part) { return name.find(part) != std::string::npos; });
        if (secret && !value.empty()) values_.push_back(value);
    }
    given_ = values_.size();
}

void Secrets::add(std::string value) {
    if (value.empty()) return;
    if (values_.size() - given_ >= kMaxAddedSecrets)
        values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(given_));
    values_.push_back(std::move(value));
}

std::string Secrets::hidden(std::string_view text, std::size_t max_bytes) const {
    std::string out(text);
    for (const auto& value : values_) {
        for (auto at = out.find(value); at != std::string::npos; at = out.find(value, at + 3)) {
            out.replace(at, value.size(), "***");
        }
    }
    return shorten(one_line(out), max_bytes);
}

}  // namespace deliverd::sink
