// The options of everything that publishes to Kafka.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "message/event_attributes.h"

namespace deliverd::sink {

struct KafkaSinkOptions {
    std::string brokers;  // host:port,host:port
    EventAttributesOptions attributes;
    Duration timeout = std::chrono::seconds(10);  // for a message, in librdkafka's queue and on the way
    Duration linger{};  // how long a batch may wait to fill; under load it fills while a request is under way
    std::string compression = "none";  // none, gzip, snappy, lz4, zstd
    std::string client_id = "deliverd";
    /// librdkafka's own settings (SASL, TLS, …). They override the above and the sink's other defaults, such as
    /// `partitioner` murmur2 (as Java's producers). Values may be secrets: never logged.
    std::vector<std::pair<std::string, std::string>> librdkafka;
    /// The file that `sasl.password` in `librdkafka` came from, if any: read again when it changes, for the next login.
    std::string password_file{};
    bool null_keys = false;          // messages without a key go to any partition (murmur2_random)
    std::string log_name = "kafka";  // its name in log lines
};

}  // namespace deliverd::sink
