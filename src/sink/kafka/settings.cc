#include "sink/kafka/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "base/text.h"

namespace deliverd::sink {

namespace {

using std::chrono::milliseconds;

struct Refused {
    std::string_view name;
    std::string_view why;
};

constexpr std::string_view kDelivered = "the sink needs acks=all and an idempotent producer to know what was delivered";
constexpr std::string_view kTimeout = "set the sink's timeout_ms instead";
constexpr std::string_view kBrokers = "set the sink's brokers instead";
constexpr std::string_view kReports = "every message needs its delivery report";
constexpr std::string_view kTransactions = "the sink does not use transactions";
constexpr std::string_view kCode = "the sink runs no code of others";

constexpr std::array kRefused{
    Refused{"acks", kDelivered},
    Refused{"request.required.acks", kDelivered},
    Refused{"enable.idempotence", kDelivered},
    Refused{"enable.gapless.guarantee", "the relay keeps the order, and retries what failed"},
    Refused{"queuing.strategy", "messages leave in the order they come"},
    Refused{"message.timeout.ms", kTimeout},
    Refused{"delivery.timeout.ms", kTimeout},
    Refused{"bootstrap.servers", kBrokers},
    Refused{"metadata.broker.list", kBrokers},
    Refused{"test.mock.num.brokers", "a broker that is made up keeps nothing"},
    Refused{"delivery.report.only.error", kReports},
    Refused{"enabled_events", kReports},
    Refused{"log.queue", "the log is deliverd's"},
    Refused{"transactional.id", kTransactions},
    Refused{"transaction.timeout.ms", kTransactions},
    Refused{"plugin.library.paths", kCode},
    Refused{"interceptors", kCode},
};

constexpr std::array<std::string_view, 5> kSecretParts{"password", "secret", "oauthbearer.config", "key.pem",
                                                       "ssl_key"};

bool is_callback(std::string_view name) {
    return name.ends_with("_cb") || name == "opaque" || name == "default_topic_conf" || name == "msg_order_cmp" ||
           name == "ssl_engine_callback_data";
}

/// Every name librdkafka knows, out of the table it prints: `name | C/P | range | default | …`.
std::vector<std::string> known_names() {
    char* text = nullptr;
    std::size_t size = 0;
    std::FILE* file = ::open_memstream(&text, &size);
    if (file == nullptr) return {};
    rd_kafka_conf_properties_show(file);
    std::fclose(file);
    std::vector<std::string> names;
    std::string_view rest(text, size);
    while (!rest.empty()) {
        const auto line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        const auto end = line.find(' ');
        if (end == line.npos || line.find('|') == line.npos || line.find('.') > end) continue;
        names.emplace_back(line.substr(0, end));
    }
    std::free(text);
    return names;
}

Failure unknown_setting(const std::string& name) {
    const auto names = known_names();
    const std::vector<std::string_view> views(names.begin(), names.end());
    const auto close = nearest(name, views);
    return permanent("bad_argument", fmt::format("librdkafka has no setting '{}'{}", shorten(one_line(name), 64),
                                                 close ? fmt::format("; did you mean '{}'?", *close) : ""));
}

Result<void> set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
    // What it says repeats the value, which may be a secret: only the kind of its answer is used.
    std::array<char, 512> ignored{};
    switch (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), ignored.data(), ignored.size())) {
        case RD_KAFKA_CONF_OK:
            return {};
        case RD_KAFKA_CONF_UNKNOWN:
            return unknown_setting(name);
        default:
            return permanent("bad_argument",
                             fmt::format("librdkafka's setting '{}' does not take the value that was given: see its "
                                         "list of settings for what it takes",
                                         shorten(one_line(name), 64)));
    }
}

Result<void> check_allowed(const std::string& name, const std::string& value) {
    const auto found = std::ranges::find(kRefused, std::string_view(name), &Refused::name);
    if (found != kRefused.end() || is_callback(name)) {
        return permanent("bad_argument", fmt::format("librdkafka's setting '{}' cannot be set here: {}", name,
                                                     found != kRefused.end() ? found->why : kCode));
    }
    if (name == "partitioner" && value == "random") {
        return permanent("bad_argument",
                         "librdkafka's setting 'partitioner' cannot be random: events of one "
                         "aggregate would lose their order");
    }
    if (name == "partitioner" && value == "consistent_random") {
        return permanent("bad_argument",
                         "librdkafka's setting 'partitioner' cannot be consistent_random, which "
                         "scatters the empty key; write consistent, which is the same for all others");
    }
    return {};
}

/// host, host:port, [v6]:port; several joined by commas.
Result<void> check_brokers(const std::string& brokers) {
    std::string_view rest = brokers;
    while (true) {
        const auto comma = rest.find(',');
        const auto one = rest.substr(0, comma);
        const auto port = one.starts_with('[') || std::ranges::count(one, ':') == 1 ? one.rfind(':') : one.npos;
        const auto host = one.substr(0, port);
        const bool good_port = port == one.npos ||
                               (port + 1 < one.size() && one.size() - port <= 6 &&
                                std::ranges::all_of(one.substr(port + 1), [](char c) { return c >= '0' && c <= '9'; }));
        const bool strange =
            std::ranges::any_of(one, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '/'; });
        if (host.empty() || strange || (one.starts_with('[') ? one.find(']') == one.npos : !good_port)) {
            return permanent("bad_argument", fmt::format("the kafka sink's brokers '{}' cannot be used: write "
                                                         "HOST:PORT, several of them joined by commas",
                                                         shorten(one_line(brokers), 200)));
        }
        if (comma == rest.npos) return {};
        rest.remove_prefix(comma + 1);
    }
}

std::string in_ms(Duration span) {
    return std::to_string(std::chrono::duration_cast<milliseconds>(span).count());
}

std::vector<std::pair<std::string, std::string>> own_settings(const KafkaSinkOptions& options) {
    const Duration timeout = options.timeout;
    const auto linger_ms = std::chrono::duration<double, std::milli>(options.linger).count();
    return {
        {"client.id", options.client_id},
        {"bootstrap.servers", options.brokers},
        {"acks", "all"},
        {"enable.idempotence", "true"},
        {"message.timeout.ms", in_ms(timeout)},
        {"linger.ms", fmt::format("{}", linger_ms)},
        {"compression.type", options.compression},
        // As Java's producers do, so that a key lies in the same partition whoever sent it; an empty key too.
        {"partitioner", "murmur2"},
        // The caller bounds what is under way; this only has to be above it.
        {"queue.buffering.max.messages", "1000000"},
        // How long a topic that nobody knows may be one that was only just made.
        {"topic.metadata.propagation.max.ms", in_ms(std::min<Duration>(timeout / 2, milliseconds(2000)))},
        {"reconnect.backoff.ms", "50"},
        {"reconnect.backoff.max.ms", "500"},
        {"socket.connection.setup.timeout.ms",
         in_ms(std::clamp<Duration>(timeout / 2, milliseconds(1000), milliseconds(5000)))},
        {"socket.timeout.ms", in_ms(std::clamp<Duration>(timeout, milliseconds(1000), milliseconds(60'000)))},
        {"request.timeout.ms", in_ms(std::clamp<Duration>(timeout, milliseconds(1), milliseconds(30'000)))},
        {"socket.keepalive.enable", "true"},
        {"socket.nagle.disable", "true"},
        {"log.queue", "true"},
    };
}

}  // namespace

Result<Conf> make_conf(const KafkaSinkOptions& options, Batching batching) {
    if (options.brokers.empty()) return permanent("bad_argument", "the kafka sink has no brokers: set HOST:PORT");
    if (const auto good = check_brokers(options.brokers); !good) return Failure(good.error());
    if (options.timeout < milliseconds(1)) {
        return permanent("bad_argument", "the kafka sink's timeout must be at least a millisecond");
    }
    Conf conf(rd_kafka_conf_new());
    for (const auto& [name, value] : own_settings(options)) {
        if (const auto good = set(conf.get(), name, value); !good) return Failure(good.error());
    }
    for (const auto& [name, value] : options.librdkafka) {
        if (const auto good = check_allowed(name, value); !good) return Failure(good.error());
        if (const auto good = set(conf.get(), name, value); !good) return Failure(good.error());
    }
    if (batching == Batching::one_each) {
        if (const auto good = set(conf.get(), "batch.num.messages", "1"); !good) return Failure(good.error());
    }
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG);
    return conf;
}

Result<rd_kafka_t*> new_producer(Conf conf, const KafkaSinkOptions& options) {
    std::array<char, 512> problem{};
    rd_kafka_conf_t* given = conf.release();
    rd_kafka_t* kafka = rd_kafka_new(RD_KAFKA_PRODUCER, given, problem.data(), problem.size());
    if (kafka == nullptr) {
        conf.reset(given);  // not taken
        return permanent("bad_argument", fmt::format("librdkafka refuses the kafka sink's settings: {}",
                                                     Secrets(options).hidden(problem.data(), kMaxDetailBytes)));
    }
    return kafka;
}

Result<void> try_settings(const KafkaSinkOptions& options) {
    auto conf = make_conf(options, Batching::many);
    if (!conf) return Failure(conf.error());
    if (const auto none = set(conf->get(), "bootstrap.servers", ""); !none) return Failure(none.error());
    const auto kafka = new_producer(std::move(*conf), options);
    if (!kafka) return Failure(kafka.error());
    rd_kafka_destroy(*kafka);
    return {};
}

Secrets::Secrets(const KafkaSinkOptions& options) {
    for (const auto& [name, value] : options.librdkafka) {
        const bool secret = std::ranges::any_of(
            kSecretParts, [&name = name](std::string_view part) { return name.find(part) != std::string::npos; });
        if (secret && !value.empty()) values_.push_back(value);
    }
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
