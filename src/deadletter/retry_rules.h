// What the steps of a retry mean. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "deadletter/reports.h"
#include "deadletter/topic_pattern.h"
#include "message/message.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// Begins the answer to a retry that is refused.
inline constexpr std::string_view kNotRetryable = "message is not retryable: ";

/// What the audit says of a retry where nothing is published.
inline constexpr std::string_view kStandAlone = "stand-alone: Kafka is not configured, nothing was published";

/// Why a letter whose retry began is not published.
inline constexpr std::string_view kTooLate = "it waited so long that its lease could have run out";

/// The end of a retry whose publishing had this outcome.
[[nodiscard]] store::RetryEnd end_of(std::string id, const Outcome& outcome);

/// The end of a retry that took over an unfinished one: where this one sent nothing, the earlier one may have.
[[nodiscard]] store::RetryEnd end_of_taken_over(store::RetryEnd end);

[[nodiscard]] bool resolves(store::RetryResult result);

/// Whether the letter is as an end of that kind leaves it.
[[nodiscard]] bool is_as_after(const store::Letter& letter, store::RetryResult result);

/// Why a retry of the letter would be refused now, whoever asks ("status=DEAD, retry_count=3/3"); empty when it would
/// not. Does not say that another retry is under way. `pattern`: as in provenance.h.
[[nodiscard]] std::string not_retryable_reason(const store::LetterDetail& letter,
                                               std::string_view pattern = kDeadLetterPattern);

/// Why nothing is sent to the topic: no pattern of kafka.replay_topics matches it. Empty when one does, or there are
/// none.
[[nodiscard]] std::string destination_refusal(std::string_view topic, std::span<const std::string> replay_topics);

/// Why the letter cannot be marked as dead; empty when it can.
[[nodiscard]] std::string not_killable_reason(const store::Letter& before);
/// Why the letter cannot be revived; empty when it can.
[[nodiscard]] std::string not_revivable_reason(const store::Letter& before);

/// The answers to changes by hand.
inline constexpr std::string_view kMarkedDead = "message marked as dead";
inline constexpr std::string_view kRevived = "message can be retried again";

/// The answer when the retry did not begin.
[[nodiscard]] RetryReport answer_to(const store::RetryClaim& claim);

/// The answer when the retry ended and the store has recorded it; `letter` is its state now.
[[nodiscard]] RetryReport answer_to(const store::RetryEnd& end, store::Letter letter);

/// The answer when the retry ended and that could not be recorded.
[[nodiscard]] RetryReport answer_unrecorded(const store::RetryEnd& end, store::Letter letter, std::string_view reason);

/// Nothing is known to have arrived and nothing was refused: nobody answers, and more attempts would fail too.
[[nodiscard]] bool nothing_arrived(std::span<const Outcome> outcomes);

/// How a redrive with a `problem` ended, for people: why, what failed or may have been published, and what is left.
[[nodiscard]] std::string how_it_ended(const RedriveReport& report);

}  // namespace deliverd::deadletter
