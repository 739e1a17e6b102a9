// What producers and consumers share of librdkafka: settings given by name, which are refused, which are secret; making
// a client, asking whether a broker answers, librdkafka's lines on their way into the log, and a password that may be
// replaced.
#pragma once

#include <librdkafka/rdkafka.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/handle.h"
#include "base/log.h"
#include "deliverd/result.h"
#include "sink/kafka/kafka_options.h"
#include "sink/secret_file.h"

namespace deliverd::sink {

using Conf = Handle<rd_kafka_conf_t, rd_kafka_conf_destroy>;
using Metadata = Handle<const rd_kafka_metadata_t, rd_kafka_metadata_destroy>;

/// A setting that would break a promise, and which promise.
struct RefusedSetting {
    std::string_view name;
    std::string_view why;
};

/// Permanent error, which never repeats the value, when the setting does not exist or does not accept the value.
[[nodiscard]] Result<void> set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value);

/// The configuration of a client: what all clients of deliverd have, over it `own`, over that `options.librdkafka`.
/// Connects to nothing. Permanent error for brokers that are not HOST, HOST:PORT or [IPV6]:PORT, joined by commas, and
/// for a setting that set() refuses, that is in `refused`, or that no client of deliverd may set (brokers, callbacks,
/// plugins).
[[nodiscard]] Result<Conf> client_conf(rd_kafka_type_t type, const KafkaClientOptions& options,
                                       const KafkaSettings& own, std::span<const RefusedSetting> refused);

/// Hands `conf` to a new client, which connects by itself. Permanent error where librdkafka refuses the settings; some
/// it refuses only here (a file it cannot read, settings that exclude each other). Secrets in `given` are masked.
[[nodiscard]] Result<rd_kafka_t*> new_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given);

/// Makes a client without brokers and destroys it.
[[nodiscard]] Result<void> try_client(rd_kafka_type_t type, Conf conf, const KafkaSettings& given);

/// A wait as librdkafka takes it: whole milliseconds, from 0 to an hour.
[[nodiscard]] int wait_ms(Duration span);

/// Whether any broker answers a question about its cluster. Blocks for at most `deadline`.
[[nodiscard]] bool any_broker_answers(rd_kafka_t* kafka, Duration deadline);

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

inline constexpr std::size_t kMaxLogBytes = 400;  // of a line

[[nodiscard]] constexpr LogLevel log_level(int syslog_level) {
    constexpr int kSyslogWarning = 4;
    return syslog_level <= kSyslogWarning ? LogLevel::warn : LogLevel::debug;
}

/// Limits the number of lines per time window and counts those left out. One thread at a time.
class LogGate {
public:
    static constexpr int kMaxLines = 5;
    static constexpr Duration kWindow = std::chrono::seconds(10);

    /// Every line has the field `field`=`name`. `log` outlives it.
    LogGate(Log& log, std::string field, std::string name)
        : log_(log), field_(std::move(field)), name_(std::move(name)) {}

    void write(LogLevel level, std::string_view facility, std::string_view text,
               std::string_view event = "librdkafka") {
        const auto now = clock_.now();
        if (written_ == 0 || now - window_begin_ >= kWindow) {
            if (left_out_ > 0) log_.warn("librdkafka said more", {{field_, name_}, {"lines_left_out", left_out_}});
            window_begin_ = now;
            written_ = 0;
            left_out_ = 0;
        }
        if (written_ == kMaxLines) {
            ++left_out_;
            return;
        }
        ++written_;
        log_.write(level, event, {{field_, name_}, {"facility", facility}, {"said", text}});
    }

private:
    Log& log_;
    const std::string field_;
    const std::string name_;
    const SystemClock clock_;
    Instant window_begin_{};
    int written_ = 0;
    std::int64_t left_out_ = 0;
};

inline constexpr Duration kPasswordLookInterval = std::chrono::seconds(1);

/// A client's password in a file, which may be replaced while the client runs: checks it repeatedly. Never logs a
/// password. One thread at a time.
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
