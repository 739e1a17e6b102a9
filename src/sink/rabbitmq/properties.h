// A message's AMQP properties and headers. No I/O.
#pragma once

#include <amqp.h>

#include <cstddef>
#include <string_view>
#include <vector>

#include "deliverd/result.h"
#include "message/event_attributes.h"

namespace deliverd::sink {

inline constexpr std::size_t kMaxShortString = 255;            // AMQP: routing key, exchange, most properties
inline constexpr std::size_t kMaxPropertiesBytes = 56 * 1024;  // properties and headers go in one frame

/// The library takes non-const pointers and does not write through them.
[[nodiscard]] amqp_bytes_t amqp_bytes_of(std::string_view text);

/// A text in a table; points to both.
[[nodiscard]] amqp_table_entry_t text_entry(std::string_view key, std::string_view text);

/// Points into the message it was built from and into itself. Reused for one message after another.
class MessageProperties {
public:
    explicit MessageProperties(EventAttributesOptions options) : options_(std::move(options)) {}
    MessageProperties(const MessageProperties&) = delete;
    MessageProperties& operator=(const MessageProperties&) = delete;

    /// Failure (permanent; BAD_TOPIC, BAD_HEADER): something in the message is too long for AMQP.
    Result<void> build(const Message& message);

    [[nodiscard]] const amqp_basic_properties_t& get() const { return properties_; }
    /// About the size of properties and headers on the wire.
    [[nodiscard]] std::size_t bytes() const { return bytes_; }

private:
    Result<void> build_headers(const Message& message);

    const EventAttributesOptions options_;
    Attributes attributes_;
    std::vector<amqp_table_entry_t> entries_;
    amqp_basic_properties_t properties_{};
    std::size_t bytes_ = 0;
};

}  // namespace deliverd::sink
