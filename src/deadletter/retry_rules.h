// What a retry's steps mean. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "deadletter/manager.h"
#include "message/message.h"
#include "store/dead_letters.h"

namespace deliverd::deadletter {

/// What answers to such retries begin with.
inline constexpr std::string_view kNotRetryable = "message is not retryable: ";

/// What the audit says of a retry where nothing is published.
inline constexpr std::string_view kStandAlone = "stand-alone: Kafka is not configured, nothing was published";

/// Why one is not published any more that was begun.
inline constexpr std::string_view kTooLate = "it had waited so long that its lease could have run out";

/// How a retry ends whose publishing ended so.
[[nodiscard]] store::RetryEnd end_of(std::string id, const Outcome& outcome);

/// The end of one that went on with another that did not end: where this one sent nothing, the other may have.
[[nodiscard]] store::RetryEnd end_of_taken_over(store::RetryEnd end);

[[nodiscard]] bool resolves(store::RetryResult result);

/// Whether the letter stands as an end of that kind leaves it.
[[nodiscard]] bool stands_so(const store::Letter& letter, store::RetryResult result);

/// Why a retry of the letter would be refused now, whoever asks ("status=DEAD, retry_count=3/3" is the seed's wording);
/// empty when it would not. That somebody else's retry is under way is not in it. `pattern`: as in provenance.h.
[[nodiscard]] std::string not_retryable_reason(const store::LetterDetail& letter,
                                               std::string_view pattern = kDeadLetterPattern);

/// Why nothing is sent to a topic that no pattern of kafka.replay_topics names; empty when it is. No pattern: to any.
[[nodiscard]] std::string destination_refusal(std::string_view topic, std::span<const std::string> replay_topics);

/// Why a letter that stood so was not revived; empty when it was.
[[nodiscard]] std::string not_revivable_reason(const store::Letter& before);
inline constexpr std::string_view kRevived = "message can be retried again";

/// The answer where the retry did not even begin.
[[nodiscard]] RetryReport answer_to(const store::RetryClaim& claim);

/// The answer where it ended so, and the store has it; `letter` as it stands now.
[[nodiscard]] RetryReport answer_to(const store::RetryEnd& end, store::Letter letter);

/// The answer where it ended so, but the store does not have it, for this reason.
[[nodiscard]] RetryReport answer_unrecorded(const store::RetryEnd& end, store::Letter letter, std::string_view reason);

/// Nothing arrived, and nothing was answered either: trying more of them would be in vain.
[[nodiscard]] bool broker_is_away(std::span<const Outcome> outcomes);

/// How a redrive with a `problem` ended, for people: why, what of it failed or may be there, and what is left to do.
[[nodiscard]] std::string how_it_ended(const RedriveReport& report);

}  // namespace deliverd::deadletter
