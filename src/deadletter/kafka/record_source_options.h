// The options of the reader of the dead-letter topics.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace deliverd::deadletter {

struct RecordSourceOptions {
    std::string brokers{};  // host:port,host:port
    std::string group = "dlq-manager.default";
    std::string topic_pattern = "*.dlq.v1";  // `*` and `?`; everything else is literal
    std::string client_id = "deliverd";
    std::size_t prefetch_bytes = 16U << 20U;  // read ahead and not given yet
    /// librdkafka's own settings (SASL, TLS, …); they override the above and librdkafka's defaults. Those of producers
    /// are ignored. Values may be secrets: never logged.
    std::vector<std::pair<std::string, std::string>> librdkafka{};
    /// The file that `sasl.password` in `librdkafka` came from: poll() reads it again when it changes, for the next
    /// login. Empty: none.
    std::string password_file{};
};

}  // namespace deliverd::deadletter
