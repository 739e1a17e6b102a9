// The options of deliverd's Kafka clients.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "message/event_attributes.h"

namespace deliverd::sink {

/// librdkafka's settings by name. Values may be secrets: never logged.
using KafkaSettings = std::vector<std::pair<std::string, std::string>>;

/// Of producers and consumers alike.
struct KafkaClientOptions {
    std::string brokers{};  // host:port,host:port
    /// librdkafka's own settings (SASL, TLS, …). They override the other options and the client's defaults. Settings of
    /// the other type of client are ignored: one configuration serves producers and consumers.
    KafkaSettings librdkafka{};
    /// The file that `sasl.password` in `librdkafka` came from: read again when it changes, for the next login. Empty:
    /// none.
    std::string password_file{};
};

struct KafkaSinkOptions : KafkaClientOptions {
    EventAttributesOptions attributes;
    Duration timeout = std::chrono::seconds(10);  // for a message, in librdkafka's queue and on the way
    Duration linger{};  // how long a batch may wait to fill; under load it fills while a request is under way
    std::string compression = "none";  // none, gzip, snappy, lz4, zstd
    bool null_keys = false;            // messages without a key go to any partition (murmur2_random)
    std::string log_name = "kafka";    // its name in log lines
};

}  // namespace deliverd::sink
