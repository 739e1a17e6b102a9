// A message on its way through a lane, and how a delivery attempt can end. Plain values, no I/O.
#pragma once

#include <array>
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
    std::string message_id;    // stable across attempts: receivers deduplicate by it
    std::string key;           // partition or routing key: target space, aggregate id
    std::string type;          // event type; empty where the outbox has none
    std::string body;          // the exact bytes to send
    std::string content_type;  // "application/json"
    std::vector<std::pair<std::string, std::string>> headers;
    std::string topic{};           // events: where at the receiver (topic, routing key, subject)
    std::string aggregate_type{};  // events, where the table has it
    std::string created_at{};      // events: RFC 3339; empty where the table has none
    std::string dedup_key;         // equal keys carry equal content to one place; empty: never compared
    std::int32_t failures = 0;     // failed attempts recorded before this one
};

/// The memory of its body and headers. A short header takes many times its length.
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
    constexpr std::array<std::string_view, 4> kNames{"delivered", "retryable", "permanent", "ambiguous"};
    return kNames[static_cast<std::size_t>(kind)];
}

/// The receiver's answer, kept as proof of a delivery where its contract requires that.
struct ReceiverAnswer {
    std::string body;    // as it came
    std::string digest;  // "sha256:…" of its canonical form, or kDigestFromConflict
};

/// Outcome::code when a receiver asks for fewer requests (429). The whole lane may slow down then.
inline constexpr std::string_view kRateLimited = "RATE_LIMITED";

/// Replaces a digest when an earlier attempt was processed and its answer never reached us.
inline constexpr std::string_view kDigestFromConflict = "sha256:from-conflict";

/// How one delivery attempt ended.
struct Outcome {
    OutcomeKind kind = OutcomeKind::retryable;
    std::string code{};                      // BROKER_5XX, RATE_LIMITED, …; empty for a plain success
    std::string detail{};                    // one line for people; never a secret, at most kMaxDetailBytes
    std::optional<std::string> receipt{};    // the receiver's name for it (memory_id, broker order id)
    std::optional<Duration> retry_after{};   // the receiver asked to wait at least this long
    std::optional<ReceiverAnswer> answer{};  // delivered, under a contract that keeps answers
    bool not_attempted = false;              // retryable, the cause is not the message; costs no attempt
};

inline constexpr std::size_t kMaxDetailBytes = 512;

/// An attempt that did not deliver. `detail` is made one line of at most kMaxDetailBytes; it must hold no secret.
[[nodiscard]] Outcome failed_attempt(OutcomeKind kind, std::string_view code, std::string_view detail);

/// Nothing was attempted for a reason that is not the message's own: retryable, costs no attempt.
[[nodiscard]] Outcome not_attempted(std::string_view code, std::string_view detail);

}  // namespace deliverd
