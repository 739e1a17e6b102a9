#include "sink/kafka/login.h"

#include <ranges>
#include <utility>

namespace deliverd::sink {

namespace {

constexpr std::string_view kSaslUsername = "sasl.username";
constexpr std::string_view kSaslPassword = "sasl.password";

/// The one that counts: the last.
std::string value_of(std::string_view name, const KafkaSettings& given) {
    for (const auto& [one, value] : std::views::reverse(given)) {
        if (one == name) return value;
    }
    return {};
}

}  // namespace

Login::Login(std::string file, const KafkaSettings& given, Log& log, std::string field, std::string name)
    : log_(log, std::move(field), std::move(name)),
      username_(value_of(kSaslUsername, given)),
      password_(value_of(kSaslPassword, given)),
      has_file_(!file.empty() && !username_.empty()),
      file_(std::move(file), kPassword) {}

std::optional<std::string> Login::look(rd_kafka_t* kafka, Instant now) {
    // Clients ask before each poll of their queue, which under load is thousands of times a second.
    if (!has_file_ || now < look_at_) return std::nullopt;
    look_at_ = now + kPasswordLookInterval;
    const auto read = file_.read();
    if (!read) {
        if (!std::exchange(unreadable_, true)) {
            log_.write(LogLevel::warn, kSaslPassword, read.error().message,
                       "the former password of Kafka stays in force");
        }
        return std::nullopt;
    }
    unreadable_ = false;
    // Also different at the first look, where the file changed after the configuration was read.
    if (*read == password_) return std::nullopt;
    std::string fresh(*read);
    if (rd_kafka_error_t* error = rd_kafka_sasl_set_credentials(kafka, username_.c_str(), fresh.c_str())) {
        log_.write(LogLevel::error, kSaslPassword, rd_kafka_error_name(error), "librdkafka refuses a new password");
        rd_kafka_error_destroy(error);
        return std::nullopt;
    }
    password_ = fresh;
    log_.write(LogLevel::info, kSaslPassword, "its file has changed",
               "Kafka has a new password from the next login on");
    return fresh;
}

}  // namespace deliverd::sink
