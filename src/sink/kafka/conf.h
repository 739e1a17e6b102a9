// librdkafka's configuration, of producers and consumers alike: what is given by name, what is refused, what is secret.
// Connects to nothing.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deliverd/result.h"

namespace deliverd::sink {

struct ConfDeleter {
    void operator()(rd_kafka_conf_t* conf) const { rd_kafka_conf_destroy(conf); }
};
using Conf = std::unique_ptr<rd_kafka_conf_t, ConfDeleter>;

/// librdkafka's settings by name. Values may be secrets.
using KafkaSettings = std::vector<std::pair<std::string, std::string>>;

/// A setting that would break a promise, and which.
struct RefusedSetting {
    std::string_view name;
    std::string_view why;
};

/// Permanent error, which never repeats the value, when there is no such setting or it does not take the value.
[[nodiscard]] Result<void> set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value);

/// Sets what a configuration gives, over what is set already. Permanent error for what set() refuses, what is in
/// `refused`, and what no client of deliverd may be told (brokers, callbacks, plugins). A producer's settings are left
/// out of a consumer and the other way round: one configuration serves both.
[[nodiscard]] Result<void> set_given(rd_kafka_conf_t* conf, rd_kafka_type_t type, const KafkaSettings& given,
                                     std::span<const RefusedSetting> refused);

/// host, host:port, [v6]:port; several joined by commas; at least one.
[[nodiscard]] Result<void> check_brokers(const std::string& brokers);

/// Hands `conf` to a new client, which connects by itself. Permanent error where librdkafka refuses the settings, as it
/// does only now for some (a file it cannot read, settings that exclude each other); `given` are the secrets in it.
[[nodiscard]] Result<rd_kafka_t*> new_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given);

/// new_client() without any broker, and gone again.
[[nodiscard]] Result<void> try_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given);

inline constexpr std::size_t kMaxAddedSecrets = 8;

/// What must never be shown: the values of settings that are secrets.
class Secrets {
public:
    explicit Secrets(const KafkaSettings& settings);
    /// One that took another's place. Of these only the last kMaxAddedSecrets are known.
    void add(std::string value);
    /// One line of at most `max_bytes`, with *** in place of every secret.
    [[nodiscard]] std::string hidden(std::string_view text, std::size_t max_bytes) const;

private:
    std::vector<std::string> values_;
    std::size_t given_ = 0;  // so many of them are from the settings
};

}  // namespace deliverd::sink
