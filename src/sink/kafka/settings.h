// librdkafka's configuration out of the sink's options. Connects to nothing.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"
#include "sink/kafka/kafka_sink.h"

namespace deliverd::sink {

struct ConfDeleter {
    void operator()(rd_kafka_conf_t* conf) const { rd_kafka_conf_destroy(conf); }
};
using Conf = std::unique_ptr<rd_kafka_conf_t, ConfDeleter>;

/// How a producer fills its requests.
enum class Batching {
    many,     // as configured
    one_each  // each message alone in its batch: what is refused then is this message, not its neighbours
};

/// Refuses what check_kafka_options() refuses, but for what librdkafka finds only when it starts.
[[nodiscard]] Result<Conf> make_conf(const KafkaSinkOptions& options, Batching batching);

/// make_conf(), and what librdkafka finds only when it starts (a file it cannot read, settings that exclude each
/// other). Starts it without any broker.
[[nodiscard]] Result<void> try_settings(const KafkaSinkOptions& options);

/// Hands `conf` to a new producer.
[[nodiscard]] Result<rd_kafka_t*> new_producer(Conf conf, const KafkaSinkOptions& options);

/// What must never be shown: the values of settings that are secrets.
class Secrets {
public:
    explicit Secrets(const KafkaSinkOptions& options);
    /// One line of at most `max_bytes`, with *** in place of every secret.
    [[nodiscard]] std::string hidden(std::string_view text, std::size_t max_bytes) const;

private:
    std::vector<std::string> values_;
};

}  // namespace deliverd::sink
