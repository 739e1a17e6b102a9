// librdkafka's configuration, of producers and consumers alike: settings given by name, which are refused, which are
// secret. Connects to nothing.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deliverd/result.h"
#include "sink/handle.h"

namespace deliverd::sink {

using Conf = Handle<rd_kafka_conf_t, rd_kafka_conf_destroy>;

/// librdkafka's settings by name. Values may be secrets.
using KafkaSettings = std::vector<std::pair<std::string, std::string>>;

/// A setting that would break a promise, and which promise.
struct RefusedSetting {
    std::string_view name;
    std::string_view why;
};

/// Permanent error, which never repeats the value, when the setting does not exist or does not take the value.
[[nodiscard]] Result<void> set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value);

/// Applies a configuration's settings over those already set. Permanent error for what set() refuses, what is in
/// `refused`, and what no client of deliverd may set (brokers, callbacks, plugins). Skips a producer's settings for a
/// consumer and the reverse: one configuration serves both.
[[nodiscard]] Result<void> set_given(rd_kafka_conf_t* conf, rd_kafka_type_t type, const KafkaSettings& given,
                                     std::span<const RefusedSetting> refused);

/// HOST, HOST:PORT or [IPV6]:PORT; several joined by commas; at least one.
[[nodiscard]] Result<void> check_brokers(const std::string& brokers);

/// Hands `conf` to a new client, which connects by itself. Permanent error where librdkafka refuses the settings; some
/// it refuses only here (a file it cannot read, settings that exclude each other). Secrets in `given` are masked.
[[nodiscard]] Result<rd_kafka_t*> new_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given);

/// Makes a client without brokers and destroys it.
[[nodiscard]] Result<void> try_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given);

inline constexpr std::size_t kMaxAddedSecrets = 8;

/// The values that must never be shown: of settings that are secrets.
class Secrets {
public:
    explicit Secrets(const KafkaSettings& settings);
    /// A value that replaced another. Only the last kMaxAddedSecrets of these are kept.
    void add(std::string value);
    /// One line of at most `max_bytes`, with *** in place of every secret.
    [[nodiscard]] std::string hidden(std::string_view text, std::size_t max_bytes) const;

private:
    std::vector<std::string> values_;
    std::size_t given_ = 0;  // the first ones, from the settings
};

}  // namespace deliverd::sink
