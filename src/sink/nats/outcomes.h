// How a message's publish ended: JetStream's answers, and what happens instead of one. Pure: no libnats here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/message.h"

namespace deliverd::sink {

/// The answer to a publish: an acknowledgement or an error, as JSON. Anything else is from a program that is not
/// JetStream: ambiguous. not_attempted where nothing was stored because of the server's state, not of the message.
[[nodiscard]] Outcome outcome_of_publish(std::string_view answer, std::string_view subject);

/// After a publish that nobody took: `answer` is JetStream's to "which streams have this subject?" (STREAM.NAMES). No
/// stream: permanent, NO_STREAM. A stream without a leader, or a JetStream that cannot say: retryable and
/// not_attempted. Never ambiguous: nobody got the message.
[[nodiscard]] Outcome outcome_of_stream_names(std::string_view answer, std::string_view subject);

/// The same when that question was not answered: JetStream is off or still starting.
[[nodiscard]] Outcome jetstream_is_off(std::string_view subject);

/// Empty when an answer to INFO says that JetStream is on; otherwise the problem.
[[nodiscard]] std::string jetstream_problem(std::string_view answer);

// Without an answer.

[[nodiscard]] Outcome unreachable(std::string_view why);
/// The message could not be published.
[[nodiscard]] Outcome refused(const Error& error);
[[nodiscard]] Outcome too_large(std::size_t bytes, std::string_view hosts, std::int64_t max_payload);
[[nodiscard]] Outcome not_permitted(std::string_view hosts, std::string_view subject);
[[nodiscard]] Outcome not_acknowledged(std::string_view hosts, Duration timeout, std::string_view subject);
[[nodiscard]] Outcome connection_lost(std::string_view hosts, std::string_view why);

}  // namespace deliverd::sink
