// The password of a Kafka client that lives in a file and may be replaced while the client runs.
#pragma once

#include <librdkafka/rdkafka.h>

#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "sink/kafka/conf.h"
#include "sink/kafka/log_gate.h"
#include "sink/secret_file.h"

namespace deliverd::sink {

inline constexpr Duration kPasswordLookInterval = std::chrono::seconds(1);

/// Looks at the file again and again for one client. Never logs a password. One thread at a time.
class Login {
public:
    /// `given` are the settings the client was made with. Without a `file`, or a `sasl.username` in `given`, there is
    /// nothing to look at. Reads nothing yet. Its log lines have the field `field`=`name`; `log` outlives it.
    Login(std::string file, const KafkaSettings& given, Log& log, std::string field, std::string name);

    /// Tells `kafka` the file's password if it is another one than before, and answers it. It is used from the next
    /// login on, so also by the next try of one that was refused; connections there are stay, and so do the messages.
    /// While the file cannot be read the former password stays, which is logged once until it can. One stat(2) where
    /// the file has not changed, and none at all within kPasswordLookInterval of the last look.
    std::optional<std::string> look(rd_kafka_t* kafka, Instant now);

private:
    LogGate log_;
    std::string username_;
    std::string password_;
    bool has_file_;
    SecretFile file_;
    bool unreadable_ = false;  // and it was said
    Instant look_at_{};
};

}  // namespace deliverd::sink
