// What is set for whatever publishes to Kafka.
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
    Duration timeout = std::chrono::seconds(10);  // of a message, in librdkafka's queue and on its way
    Duration linger{};  // how long a batch may wait to fill; what queues up behind a request fills one anyway
    std::string compression = "none";  // none, gzip, snappy, lz4, zstd
    std::string client_id = "deliverd";
    /// librdkafka's own settings (SASL, TLS, …), over the above and over the sink's other defaults, of which
    /// `partitioner` murmur2 (as Java's producers) is one. Values may be secrets: never logged.
    std::vector<std::pair<std::string, std::string>> librdkafka;
    /// The file that `sasl.password` in `librdkafka` came from: read again when it changes, for the next login. Empty:
    /// it came from none.
    std::string password_file{};
    bool null_keys = false;          // messages may have no key at all: those go to any partition (murmur2_random)
    std::string log_name = "kafka";  // what log lines call it
};

}  // namespace deliverd::sink
