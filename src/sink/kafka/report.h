// The outcome that a delivery report, or librdkafka's refusal to take a message, means. Pure code.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstddef>
#include <string_view>

#include "base/clock.h"
#include "message/message.h"

namespace deliverd::sink {

// Codes of outcomes that others compare.
inline constexpr std::string_view kUnknownTopic = "UNKNOWN_TOPIC";
inline constexpr std::string_view kNotAuthorized = "NOT_AUTHORIZED";
inline constexpr std::string_view kQueueFull = "QUEUE_FULL";

/// How a message ended, and the producer's state then.
struct Report {
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_msg_status_t status = RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
    std::string_view topic{};
    std::size_t body_bytes = 0;
    std::size_t bytes = 0;       // body, key and headers
    Duration timeout{};          // the sink's
    bool unreachable = false;    // no broker could be reached when it ended
    bool fatal = false;          // the producer failed permanently
    std::string_view trouble{};  // the last error of a broker's connection; no secret
};

/// For anything but a success. Ambiguous whenever the broker may have the message. not_attempted where it certainly
/// does not and the cause is the broker's state, the same for every message: an outage costs no attempts.
[[nodiscard]] Outcome outcome_of(const Report& report);

[[nodiscard]] Outcome delivered(std::string_view topic, std::int32_t partition, std::int64_t offset);

/// Nothing is sent while no broker can be reached.
[[nodiscard]] Outcome broker_unreachable(std::string_view trouble);

/// A producer that failed permanently sends nothing.
[[nodiscard]] Outcome producer_replaced();

/// Whether Kafka takes it as a topic's name: 1 to 249 letters, digits, `.`, `_` and `-`; not `.` or `..`.
[[nodiscard]] bool is_topic_name(std::string_view name);
[[nodiscard]] Outcome bad_topic(std::string_view name);

}  // namespace deliverd::sink
