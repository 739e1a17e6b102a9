// What JetStream's answers mean for a message. Pure: no libnats here.
#pragma once

#include <string>
#include <string_view>

#include "message/message.h"

namespace deliverd::sink {

/// The answer to a publish: the acknowledgement or an error, as JSON. Anything else came from a program that is not
/// JetStream: ambiguous. not_attempted where nothing was stored and the reason is the server's state, not the message.
[[nodiscard]] Outcome outcome_of_publish(std::string_view answer, std::string_view subject);

/// After a publish that nobody was there to take: `answer` is JetStream's to "which streams have this subject?"
/// (STREAM.NAMES). No stream: permanent NO_STREAM. One that has no leader now, or a JetStream that cannot say:
/// retryable and not_attempted. Never ambiguous, for nobody had the message.
[[nodiscard]] Outcome outcome_of_stream_names(std::string_view answer, std::string_view subject);

/// The same when that question was not answered: JetStream is off, or not yet on.
[[nodiscard]] Outcome jetstream_is_off(std::string_view subject);

/// Empty when an answer to INFO says that JetStream is on; otherwise what it says instead.
[[nodiscard]] std::string jetstream_problem(std::string_view answer);

}  // namespace deliverd::sink
