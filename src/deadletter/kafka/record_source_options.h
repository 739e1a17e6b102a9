// What is set for the reader of the dead-letter topics.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace deliverd::deadletter {

struct RecordSourceOptions {
    std::string brokers{};  // host:port,host:port
    std::string group = "dlq-manager.default";
    std::string topic_pattern = "*.dlq.v1";  // `*` and `?`, all else literal
    std::string client_id = "deliverd";
    std::size_t prefetch_bytes = 16U << 20U;  // read ahead and not given yet
    /// librdkafka's own settings (SASL, TLS, …), over the above and over its other defaults; those of producers are
    /// left out. Values may be secrets: never logged.
    std::vector<std::pair<std::string, std::string>> librdkafka{};
    /// The file that `sasl.password` in `librdkafka` came from: read again when it changes, by poll(), for the next
    /// login. Empty: it came from none.
    std::string password_file{};
};

}  // namespace deliverd::deadletter
