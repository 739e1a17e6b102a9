// What travels through a lane, and how a delivery attempt can end. Plain values, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace deliverd {

/// One message on its way from an outbox row to a sink.
struct Message {
    std::int64_t id = 0;       // the row's id in its outbox
    std::string message_id;    // stable across attempts: what the receiver deduplicates by
    std::string key;           // partition or routing key: target space, aggregate id
    std::string type;          // event type; empty where the outbox has none
    std::string body;          // the exact bytes to send
    std::string content_type;  // "application/json"
    std::vector<std::pair<std::string, std::string>> headers;
    std::string topic{};           // events: where at the receiver (topic, routing key, subject)
    std::string aggregate_type{};  // events, where the table has it
    std::string created_at{};      // events: RFC 3339; empty where the table does not say
    std::string dedup_key;         // equal keys carry equal content to one place; empty: never compared
    std::int32_t failures = 0;     // failed attempts recorded before this one
};

/// What its body and headers take in memory. A header of a few bytes takes many times as much as in a text.
[[nodiscard]] inline std::size_t bytes_in_memory(const Message& message) {
    std::size_t bytes = message.body.size() + message.headers.capacity() * sizeof(message.headers[0]);
    for (const auto& [name, value] : message.headers) bytes += name.size() + value.size();
    return bytes;
}

enum class OutcomeKind {
    delivered,  // the receiver has it and said so
    retryable,  // it certainly was not taken; a later attempt may succeed
    permanent,  // it certainly was not taken, and the same bytes will be refused again
    ambiguous,  // it may have been taken: the answer was lost or came too late
};

[[nodiscard]] constexpr std::string_view to_string(OutcomeKind kind) noexcept {
    switch (kind) {
        case OutcomeKind::delivered:
            return "delivered";
        case OutcomeKind::retryable:
            return "retryable";
        case OutcomeKind::permanent:
            return "permanent";
        case OutcomeKind::ambiguous:
            return "ambiguous";
    }
    return "unknown";
}

/// What a receiver said, kept as proof of a delivery where its contract wants that.
struct ReceiverAnswer {
    std::string body;    // as it came
    std::string digest;  // "sha256:…" of its canonical form, or kDigestFromConflict
};

/// Outcome::code of a receiver that asks for less (429). A lane may slow down as a whole then.
inline constexpr std::string_view kRateLimited = "RATE_LIMITED";

/// In place of a digest: an earlier attempt was processed, and its answer never reached us.
inline constexpr std::string_view kDigestFromConflict = "sha256:from-conflict";

/// How one delivery attempt ended.
struct Outcome {
    OutcomeKind kind = OutcomeKind::retryable;
    std::string code{};                      // BROKER_5XX, RATE_LIMITED, …; empty for a plain success
    std::string detail{};                    // one line for people; never a secret, at most kMaxDetailBytes
    std::optional<std::string> receipt{};    // what the receiver calls it (memory_id, broker order id)
    std::optional<Duration> retry_after{};   // the receiver asked to wait at least this long
    std::optional<ReceiverAnswer> answer{};  // delivered, under a contract that keeps answers
    bool not_attempted = false;              // retryable: for a reason that is not the message's; costs no attempt
};

inline constexpr std::size_t kMaxDetailBytes = 512;

}  // namespace deliverd
