// What a delivery report, or a refusal to take a message at all, says about the message. Pure code.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "message/message.h"

namespace deliverd::sink {

inline constexpr std::string_view kKafkaTimeout = "KAFKA_TIMEOUT";
inline constexpr std::string_view kKafkaFatal = "KAFKA_FATAL";
inline constexpr std::string_view kUnknownTopic = "UNKNOWN_TOPIC";
inline constexpr std::string_view kBadTopic = "BAD_TOPIC";
inline constexpr std::string_view kMessageTooLarge = "MESSAGE_TOO_LARGE";
inline constexpr std::string_view kNotAuthorized = "NOT_AUTHORIZED";
inline constexpr std::string_view kQueueFull = "QUEUE_FULL";
inline constexpr std::string_view kBrokerRefused = "BROKER_REFUSED";
inline constexpr std::string_view kBrokerDegraded = "BROKER_DEGRADED";
inline constexpr std::string_view kKafkaError = "KAFKA_ERROR";

/// How a message ended, and what was true around it.
struct Report {
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_msg_status_t status = RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
    std::string_view topic{};
    std::size_t body_bytes = 0;
    std::size_t bytes = 0;       // body, key and headers
    Duration timeout{};          // the sink's
    bool unreachable = false;    // no broker could be reached when it ended
    bool fatal = false;          // the producer gave up for good
    std::string_view trouble{};  // what the brokers' connections last complained about; no secret
};

/// Of anything but a success. Ambiguous whenever the broker may have it: only then was it sent without an answer that
/// settles the matter. not_attempted where the broker certainly does not have it and the reason is the broker's own
/// state, the same for every message: an outage costs no attempts.
[[nodiscard]] Outcome outcome_of(const Report& report);

[[nodiscard]] Outcome delivered(std::string_view topic, std::int32_t partition, std::int64_t offset);

/// Nothing is tried while no broker can be reached.
[[nodiscard]] Outcome broker_unreachable(std::string_view trouble);

/// Nothing is tried by a producer that gave up for good.
[[nodiscard]] Outcome producer_replaced();

/// What Kafka takes as a topic's name: 1 to 249 letters, digits, `.`, `_` and `-`; not `.` or `..`.
[[nodiscard]] bool is_topic_name(std::string_view name);
[[nodiscard]] Outcome bad_topic(std::string_view name);

}  // namespace deliverd::sink
