#include "sink/kafka/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/try.h"

namespace deliverd::sink {

namespace {

using std::chrono::milliseconds;

constexpr std::string_view kDelivered = "the sink needs acks=all and an idempotent producer to know what was delivered";
constexpr std::string_view kTimeout = "set the sink's timeout_ms instead";
constexpr std::string_view kTransactions = "the sink does not use transactions";

constexpr std::array kRefused{
    RefusedSetting{"acks", kDelivered},
    RefusedSetting{"request.required.acks", kDelivered},
    RefusedSetting{"enable.idempotence", kDelivered},
    RefusedSetting{"enable.gapless.guarantee", "the relay keeps the order, and retries what failed"},
    RefusedSetting{"queuing.strategy", "messages leave in the order they come"},
    RefusedSetting{"message.timeout.ms", kTimeout},
    RefusedSetting{"delivery.timeout.ms", kTimeout},
    RefusedSetting{"delivery.report.only.error", "every message needs its delivery report"},
    RefusedSetting{"transactional.id", kTransactions},
    RefusedSetting{"transaction.timeout.ms", kTransactions},
};

Result<void> check_partitioner(const KafkaSettings& given) {
    for (const auto& [name, value] : given) {
        if (name != "partitioner") continue;
        if (value == "random") {
            return bad_argument(
                "librdkafka's setting 'partitioner' cannot be random: events of one "
                "aggregate would lose their order");
        }
        if (value == "consistent_random") {
            return bad_argument(
                "librdkafka's setting 'partitioner' cannot be consistent_random, which "
                "scatters the empty key; write consistent, which is the same for all others");
        }
    }
    return {};
}

std::string in_ms(Duration span) {
    return std::to_string(std::chrono::duration_cast<milliseconds>(span).count());
}

KafkaSettings own_settings(const KafkaSinkOptions& options) {
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
        // As Java's producers, so that a key is in the same partition whoever sent it; an empty key too.
        {"partitioner", options.null_keys ? "murmur2_random" : "murmur2"},
        // The caller bounds what is under way; this must be above that.
        {"queue.buffering.max.messages", "1000000"},
        // How long an unknown topic may be one that was just created.
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
    TRY(check_brokers(options.brokers));
    if (options.timeout < milliseconds(1)) {
        return bad_argument("the kafka sink's timeout must be at least a millisecond");
    }
    Conf conf(rd_kafka_conf_new());
    for (const auto& [name, value] : own_settings(options)) {
        TRY(set(conf.get(), name, value));
    }
    TRY(set_given(conf.get(), RD_KAFKA_PRODUCER, options.librdkafka, kRefused));
    if (!options.null_keys) {
        TRY(check_partitioner(options.librdkafka));
    }
    if (batching == Batching::one_each) {
        TRY(set(conf.get(), "batch.num.messages", "1"));
    }
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG);
    return conf;
}

}  // namespace deliverd::sink
