#include "sink/nats/endings.h"

#include <fmt/format.h>

#include <string>

#include "base/text.h"
#include "sink/nats/nats_message.h"
#include "sink/sink.h"

namespace deliverd::sink {

namespace {

Outcome ending(OutcomeKind kind, std::string_view code, std::string_view detail) {
    return Outcome{.kind = kind, .code = std::string(code), .detail = shorten(one_line(detail), kMaxDetailBytes)};
}

}  // namespace

Outcome unreachable(std::string_view why) {
    Outcome outcome = ending(OutcomeKind::retryable, kBrokerUnreachable, why);
    outcome.not_attempted = true;
    return outcome;
}

Outcome refused(const Error& error) {
    const bool for_ever = error.error_class == ErrorClass::permanent;
    return ending(for_ever ? OutcomeKind::permanent : OutcomeKind::retryable, error.code, error.message);
}

Outcome too_large(std::size_t bytes, std::string_view hosts, std::int64_t max_payload) {
    return ending(OutcomeKind::permanent, "MESSAGE_TOO_LARGE",
                  fmt::format("{} bytes and their headers: NATS at {} takes {} (max_payload of the server)", bytes,
                              hosts, max_payload));
}

Outcome not_permitted(std::string_view hosts, std::string_view subject) {
    return ending(
        OutcomeKind::permanent, "NOT_PERMITTED",
        fmt::format("NATS at {} does not let this user publish to subject '{}'", hosts, shown_subject(subject)));
}

Outcome not_acknowledged(std::string_view hosts, Duration timeout, std::string_view subject) {
    return ending(
        OutcomeKind::ambiguous, "ACK_TIMEOUT",
        fmt::format("NATS at {} did not acknowledge within {} s; is there a stream that has subject '{}', and "
                    "may this user read its answers?",
                    hosts, to_seconds(timeout), shown_subject(subject)));
}

Outcome connection_lost(std::string_view hosts, std::string_view why) {
    return ending(OutcomeKind::ambiguous, "CONNECTION_LOST",
                  fmt::format("the connection to NATS at {} was lost: {}", hosts, why));
}

}  // namespace deliverd::sink
