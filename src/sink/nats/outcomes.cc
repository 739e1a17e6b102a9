#include "sink/nats/outcomes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <span>

#include "base/text.h"
#include "sink/nats/nats_message.h"
#include "sink/sink.h"

namespace deliverd::sink {

namespace {

namespace json = boost::json;

// JetStream's own error codes (err_code), where they say more than the HTTP-like `code`.
constexpr std::int64_t kMessageTooLarge = 10054;
constexpr std::int64_t kStoreFailed = 10077;
constexpr std::int64_t kHeaderTooLarge = 10097;
constexpr std::int64_t kTooManyRequests = 429;  // a `code`

/// Nobody is there to store it.
constexpr std::array<std::int64_t, 6> kUnavailable{
    10007,  // no server is assigned to the stream
    10008,  // JetStream is temporarily unavailable
    10009,  // no leader
    10039,  // not enabled for the account
    10076,  // not enabled for the server
    10118,  // the stream is offline
};

/// The server or the account has no room, whatever the message.
constexpr std::array<std::int64_t, 4> kOutOfRoom{
    10002,  // limits of the account
    10023,  // limits of the server
    10028,  // memory
    10047,  // storage
};

struct ApiError {
    std::int64_t code = 0;
    std::int64_t err_code = 0;
    std::string description;
};

std::int64_t number_at(const json::object& object, std::string_view name) {
    const auto* value = object.if_contains(name);
    if (value == nullptr) return 0;
    if (const auto* number = value->if_int64()) return *number;
    if (const auto* number = value->if_uint64()) return static_cast<std::int64_t>(*number);
    return 0;
}

std::string text_at(const json::object& object, std::string_view name) {
    const auto* value = object.if_contains(name);
    if (value == nullptr || !value->is_string()) return {};
    return std::string(value->get_string());
}

std::optional<json::object> parsed(std::string_view answer) {
    boost::system::error_code failed;
    auto value = json::parse(answer, failed);
    if (failed || !value.is_object()) return std::nullopt;
    return std::move(value.get_object());
}

std::optional<ApiError> error_in(const json::object& answer) {
    const auto* value = answer.if_contains("error");
    if (value == nullptr || !value->is_object()) return std::nullopt;
    const auto& error = value->get_object();
    return ApiError{number_at(error, "code"), number_at(error, "err_code"), text_at(error, "description")};
}

bool is_one_of(std::span<const std::int64_t> codes, const ApiError& error) {
    return std::ranges::find(codes, error.err_code) != codes.end();
}

/// A store that fails may do so for this message's sake, except where its words say that the disk is full.
bool is_out_of_room(const ApiError& error) {
    return is_one_of(kOutOfRoom, error) ||
           (error.err_code == kStoreFailed && error.description == "no space left on device");
}

Outcome unavailable(std::string_view what) {
    return not_attempted(
        "JETSTREAM_UNAVAILABLE",
        fmt::format("{}; check that JetStream is enabled for this server and account, and has started", what));
}

/// JetStream has one code for all failures of a store; only the words tell a full stream from a broken disk:
/// "maximum messages exceeded", "maximum bytes exceeded", "maximum messages per subject exceeded".
bool is_full(const ApiError& error) {
    return error.err_code == kStoreFailed && error.description.starts_with("maximum ");
}

Outcome refusal(const ApiError& error, std::string_view subject) {
    const std::string said = fmt::format("JetStream: {} ({})", error.description, error.err_code);
    if (is_one_of(kUnavailable, error)) return unavailable(said);
    if (is_out_of_room(error)) {
        return not_attempted(
            "NO_RESOURCES",
            fmt::format("{}; free or grant room: the server's disk, its and the account's limits", said));
    }
    if (error.code == kTooManyRequests) return not_attempted(kRateLimited, said);
    // It counts: a stream that nobody enlarges would otherwise hold up its messages for ever.
    if (is_full(error)) {
        return failed_attempt(
            OutcomeKind::retryable, "STREAM_FULL",
            fmt::format("{}; the stream of subject '{}' is full and refuses new messages: raise its limits "
                        "or have it discard old ones",
                        said, shown_subject(subject)));
    }
    if (error.err_code == kMessageTooLarge || error.err_code == kHeaderTooLarge) {
        return failed_attempt(
            OutcomeKind::permanent, "MESSAGE_TOO_LARGE",
            fmt::format("{}; raise max_msg_size of the stream of subject '{}'", said, shown_subject(subject)));
    }
    // 409: another copy is being stored at this moment. 5xx: a store that fails, which may be for this message's sake.
    if (error.code == 409 || error.code >= 500) return failed_attempt(OutcomeKind::retryable, "STORE_FAILED", said);
    return failed_attempt(OutcomeKind::permanent, "REJECTED", said);
}

}  // namespace

Outcome outcome_of_publish(std::string_view answer, std::string_view subject) {
    const auto object = parsed(answer);
    if (object) {
        if (const auto error = error_in(*object)) return refusal(*error, subject);
        std::string stream = text_at(*object, "stream");
        const auto sequence = number_at(*object, "seq");
        // A duplicate is stored as well: by an earlier attempt whose acknowledgement was lost.
        if (!stream.empty() && (sequence > 0 || object->contains("duplicate"))) {
            return Outcome{.kind = OutcomeKind::delivered, .receipt = fmt::format("{}@{}", stream, sequence)};
        }
    }
    return failed_attempt(OutcomeKind::ambiguous, "UNKNOWN",
                          fmt::format("what answered on subject '{}' is not JetStream: another program replies there",
                                      shown_subject(subject)));
}

Outcome outcome_of_stream_names(std::string_view answer, std::string_view subject) {
    const auto object = parsed(answer);
    if (!object) return jetstream_is_off(subject);
    if (const auto error = error_in(*object)) {
        return unavailable(fmt::format("no stream took subject '{}', and JetStream says: {} ({})",
                                       shown_subject(subject), error->description, error->err_code));
    }
    // A stream has it after all: it was created, or lost its leader, between the publish and the question.
    const auto* streams = object->if_contains("streams");
    if (streams != nullptr && streams->is_array() && !streams->get_array().empty()) {
        const auto& first = streams->get_array().front();
        return not_attempted(
            "STREAM_NOT_READY",
            fmt::format("stream '{}' has subject '{}', but it accepts no messages: it was only just "
                        "created, or it has no leader because most of its servers are down",
                        first.is_string() ? std::string_view(first.get_string()) : std::string_view("?"),
                        shown_subject(subject)));
    }
    return failed_attempt(
        OutcomeKind::permanent, "NO_STREAM",
        fmt::format("no stream has subject '{}': create a stream that has this subject, or add it to one",
                    shown_subject(subject)));
}

Outcome jetstream_is_off(std::string_view subject) {
    return unavailable(
        fmt::format("no stream took subject '{}', and JetStream does not answer", shown_subject(subject)));
}

std::string jetstream_problem(std::string_view answer) {
    const auto object = parsed(answer);
    if (!object) return "an answer that is not JetStream's";
    const auto error = error_in(*object);
    return error ? fmt::format("{} ({})", one_line(error->description), error->err_code) : std::string();
}

Outcome unreachable(std::string_view why) {
    return not_attempted(kBrokerUnreachable, why);
}

Outcome refused(const Error& error) {
    const bool for_ever = error.error_class == ErrorClass::permanent;
    return failed_attempt(for_ever ? OutcomeKind::permanent : OutcomeKind::retryable, error.code, error.message);
}

Outcome too_large(std::size_t bytes, std::string_view hosts, std::int64_t max_payload) {
    return failed_attempt(OutcomeKind::permanent, "MESSAGE_TOO_LARGE",
                          fmt::format("{} bytes and their headers: NATS at {} takes {} (max_payload of the server)",
                                      bytes, hosts, max_payload));
}

Outcome not_permitted(std::string_view hosts, std::string_view subject) {
    return failed_attempt(
        OutcomeKind::permanent, "NOT_PERMITTED",
        fmt::format("NATS at {} does not let this user publish to subject '{}'", hosts, shown_subject(subject)));
}

Outcome not_acknowledged(std::string_view hosts, Duration timeout, std::string_view subject) {
    return failed_attempt(
        OutcomeKind::ambiguous, "ACK_TIMEOUT",
        fmt::format("NATS at {} did not acknowledge within {} s; is there a stream that has subject '{}', and "
                    "may this user read its answers?",
                    hosts, to_seconds(timeout), shown_subject(subject)));
}

Outcome connection_lost(std::string_view hosts, std::string_view why) {
    return failed_attempt(OutcomeKind::ambiguous, "CONNECTION_LOST",
                          fmt::format("the connection to NATS at {} was lost: {}", hosts, why));
}

}  // namespace deliverd::sink
