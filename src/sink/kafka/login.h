// A Kafka client's password in a file, which may be replaced while the client runs.
#pragma once

#include <librdkafka/rdkafka.h>

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "sink/kafka/client.h"
#include "sink/secret_file.h"

namespace deliverd::sink {

inline constexpr Duration kPasswordLookInterval = std::chrono::seconds(1);

/// Checks the file repeatedly for one client. Never logs a password. One thread at a time.
class Login {
public:
    /// `given`: the settings the client was made with. Without a `file` or a `sasl.username` in `given` it does
    /// nothing. Reads nothing yet. Its log lines have the field `field`=`name`; `log` outlives it.
    Login(std::string file, const KafkaSettings& given, Log& log, std::string field, std::string name);

    /// Gives `kafka` the file's password if it has changed, and returns it. The client uses it from the next login on,
    /// so also when it retries a refused one; open connections and their messages stay. While the file cannot be read
    /// the former password stays; that is logged once. One stat(2) where the file has not changed, and none within
    /// kPasswordLookInterval of the last check.
    std::optional<std::string> look(rd_kafka_t* kafka, Instant now);

private:
    LogGate log_;
    std::string username_;
    std::string password_;
    bool has_file_;
    SecretFile file_;
    bool unreadable_ = false;  // and that was logged
    Instant look_at_{};
};

}  // namespace deliverd::sink
