#include "sink/kafka/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ranges>
#include <sstream>

#include "base/text.h"
#include "base/try.h"
#include "message/message.h"
#include "sink/server_url.h"

namespace deliverd::sink {

namespace {

constexpr std::string_view kBrokers = "use the setting for the brokers instead";
constexpr std::string_view kCode = "deliverd runs no foreign code";

constexpr std::array kRefusedByAll{
    RefusedSetting{"bootstrap.servers", kBrokers},
    RefusedSetting{"metadata.broker.list", kBrokers},
    RefusedSetting{"test.mock.num.brokers", "a mock broker keeps no messages"},
    RefusedSetting{"enabled_events", "every message needs its delivery report"},
    RefusedSetting{"log.queue", "the log is deliverd's"},
    RefusedSetting{"plugin.library.paths", kCode},
    RefusedSetting{"interceptors", kCode},
};

// librdkafka does not say which of its settings are secret, so their names decide. One name too many only masks too
// much.
constexpr std::array<std::string_view, 5> kSecretParts{"password", "secret", "oauthbearer.config", "key.pem",
                                                       "ssl_key"};

constexpr Duration kLongestWait = std::chrono::hours(1);  // librdkafka takes an int, and -1 would be for ever

bool is_callback(std::string_view name) {
    return name.ends_with("_cb") || name == "opaque" || name == "default_topic_conf" || name == "msg_order_cmp" ||
           name == "ssl_engine_callback_data";
}

struct KnownSetting {
    std::string name;
    char kind;  // 'C' of consumers, 'P' of producers, '*' of both
};

/// Every setting librdkafka knows. It has no call that lists them, only one that prints them to a FILE as a table:
/// `name | C/P | range | default | …`.
std::vector<KnownSetting> known_settings() {
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* file = ::open_memstream(&text, &size);
    if (file == nullptr) return {};
    rd_kafka_conf_properties_show(file);
    std::fclose(file);
    std::istringstream table(std::string(text, size));
    std::free(text);
    std::vector<KnownSetting> settings;
    std::string name;
    std::string bar;
    char kind = 0;
    for (std::string line; std::getline(table, line);) {
        if (std::istringstream(line) >> name >> bar >> kind && bar == "|") settings.push_back({name, kind});
    }
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
    std::string_view why = is_callback(name) ? kCode : std::string_view();
    for (const auto list : {std::span<const RefusedSetting>(kRefusedByAll), refused}) {
        const auto found = std::ranges::find(list, std::string_view(name), &RefusedSetting::name);
        if (found != list.end()) why = found->why;
    }
    if (why.empty()) return {};
    return bad_argument(fmt::format("librdkafka's setting '{}' cannot be set here: {}", name, why));
}

/// HOST, HOST:PORT or [IPV6]:PORT; several joined by commas; at least one.
Result<void> check_brokers(const std::string& brokers) {
    if (brokers.empty()) return bad_argument("no Kafka brokers are configured: set brokers to HOST:PORT");
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

/// Applies a configuration's settings. Those that only clients of the other type have are set in a configuration that
/// nobody uses: librdkafka would warn of each at the start, but a wrong value in them is still an error.
Result<void> set_given(rd_kafka_conf_t* conf, rd_kafka_type_t type, const KafkaSettings& given,
                       std::span<const RefusedSetting> refused) {
    if (given.empty()) return {};
    const auto known = known_settings();
    const char kind_of_others = type == RD_KAFKA_PRODUCER ? 'C' : 'P';
    const Conf left_out(rd_kafka_conf_new());
    for (const auto& [name, value] : given) {
        TRY(check_allowed(name, refused));
        const auto found = std::ranges::find(known, name, &KnownSetting::name);
        const bool is_of_others = found != known.end() && found->kind == kind_of_others;
        TRY(set(is_of_others ? left_out.get() : conf, name, value));
    }
    return {};
}

constexpr std::string_view kSaslUsername = "sasl.username";
constexpr std::string_view kSaslPassword = "sasl.password";

/// The one that counts: the last.
std::string value_of(std::string_view name, const KafkaSettings& given) {
    for (const auto& [one, value] : std::views::reverse(given)) {
        if (one == name) return value;
    }
    return {};
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
                fmt::format("librdkafka's setting '{}' does not accept the configured value: librdkafka's "
                            "CONFIGURATION.md lists the values",
                            shorten(one_line(name), 64)));
    }
}

Result<Conf> client_conf(rd_kafka_type_t type, const KafkaClientOptions& options, const KafkaSettings& own,
                         std::span<const RefusedSetting> refused) {
    TRY(check_brokers(options.brokers));
    Conf conf(rd_kafka_conf_new());
    const KafkaSettings of_all{
        {"client.id", "deliverd"},
        {"bootstrap.servers", options.brokers},
        // librdkafka's own pause grows to ten seconds: after a short outage everything would still wait for it.
        {"reconnect.backoff.ms", "50"},
        {"reconnect.backoff.max.ms", "500"},
        {"socket.keepalive.enable", "true"},
        {"socket.nagle.disable", "true"},
        // Log lines come through the client's queue to the one thread that reads it, so that LogGate needs no lock.
        {"log.queue", "true"},
    };
    for (const auto& [name, value] : of_all) TRY(set(conf.get(), name, value));
    for (const auto& [name, value] : own) TRY(set(conf.get(), name, value));
    TRY(set_given(conf.get(), type, options.librdkafka, refused));
    return conf;
}

Result<rd_kafka_t*> new_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given) {
    std::array<char, 512> problem{};
    rd_kafka_t* kafka = rd_kafka_new(type, conf.get(), problem.data(), problem.size());
    if (kafka == nullptr) {
        return bad_argument(
            fmt::format("librdkafka refuses its settings: {}", Secrets(given).hidden(problem.data(), kMaxDetailBytes)));
    }
    [[maybe_unused]] const auto* owned_by_client = conf.release();
    return kafka;
}

Result<void> try_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given) {
    // A client connects as soon as it has an address. `config check` must not log in anywhere.
    TRY(set(conf.get(), "bootstrap.servers", ""));
    TRY_ASSIGN(const auto kafka, new_client(type, std::move(conf), given));
    rd_kafka_destroy(kafka);
    return {};
}

int wait_ms(Duration span) {
    const auto bounded = std::clamp(span, Duration::zero(), kLongestWait);
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(bounded).count());
}

bool any_broker_answers(rd_kafka_t* kafka, Duration deadline) {
    const rd_kafka_metadata_t* answer = nullptr;
    const auto error = rd_kafka_metadata(kafka, 0, nullptr, &answer, std::max(wait_ms(deadline), 1));
    const Metadata metadata(answer);
    return error == RD_KAFKA_RESP_ERR_NO_ERROR;
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
    // Lines about a former password may still come, but a program that runs for years must not collect all of them.
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

Login::Login(std::string file, const KafkaSettings& given, Log& log, std::string field, std::string name)
    : log_(log, std::move(field), std::move(name)),
      username_(value_of(kSaslUsername, given)),
      password_(value_of(kSaslPassword, given)),
      has_file_(!file.empty() && !username_.empty()),
      file_(std::move(file), kPassword) {}

std::optional<std::string> Login::look(rd_kafka_t* kafka, Instant now) {
    // Clients ask before each poll of their queue, which under load is thousands of times a second.
    if (!has_file_ || now < look_at_) return std::nullopt;
    look_at_ = now + kPasswordLookInterval;
    const auto read = file_.read();
    if (!read) {
        if (!std::exchange(unreadable_, true)) {
            log_.write(LogLevel::warn, kSaslPassword, read.error().message, "the Kafka password was not changed");
        }
        return std::nullopt;
    }
    unreadable_ = false;
    // Also different at the first look, where the file changed after the configuration was read.
    if (*read == password_) return std::nullopt;
    std::string fresh(*read);
    if (rd_kafka_error_t* error = rd_kafka_sasl_set_credentials(kafka, username_.c_str(), fresh.c_str())) {
        log_.write(LogLevel::error, kSaslPassword, rd_kafka_error_name(error), "librdkafka refuses a new password");
        rd_kafka_error_destroy(error);
        return std::nullopt;
    }
    password_ = fresh;
    log_.write(LogLevel::info, kSaslPassword, "its file has changed",
               "the new Kafka password is used from the next login");
    return fresh;
}

}  // namespace deliverd::sink
