// What both stores decide in the same way about dead letters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "deliverd/result.h"
#include "store/dead_letters.h"

namespace deliverd::store {

/// The id of the letter that is number `number` (below 16,384) in a call of store() at `now`. A UUID version 7; the ids
/// of one call, and those of earlier calls, sort in the order in which the letters were given.
[[nodiscard]] std::string letter_id(WallTime now, std::size_t number, Random& random);

/// Before every id there can be.
inline constexpr std::string_view kLowestLetterId = "00000000-0000-0000-0000-000000000000";

/// The code that an error of a lane ("CODE: detail") begins with; empty when it begins with words.
[[nodiscard]] std::string_view error_class_of(std::string_view error);

/// What no database could hold, or would change: text that is not UTF-8 or has NUL in it, a payload that is not JSON.
/// Failure: permanent, codes::kLetterRefused, naming the record and the field.
[[nodiscard]] Result<void> check_letter(const NewLetter& letter);

/// A retry's or redrive's note as it is stored: one line, no longer than kMaxStoredErrorBytes.
[[nodiscard]] std::string letter_note(std::string_view text);

/// An order is not sent again: its letter is DEAD from the beginning.
[[nodiscard]] bool is_order(const Letter& letter);

/// Why a lane's letter without a row is not retried.
inline constexpr std::string_view kRowReused =
    "its row is gone: another message of the lane has its id now; write the message again if it is still wanted";

/// Why a letter was not put back into its lane.
inline constexpr std::string_view kRowGone = "its row is gone, or no longer dead";
inline constexpr std::string_view kRetryEnded = "another retry has taken it over, or this one has ended";

/// Why a retry of the letter never begins, for people; empty when it may. What can be published, and where to, is not
/// the store's business (deadletter/retry_rules.h).
[[nodiscard]] std::string retry_refusal(const Letter& letter);

/// Whether a retry may begin. `under_way`: one has begun whose lease has not run out.
[[nodiscard]] RetryVerdict retry_verdict(const Letter& letter, std::string_view refusal, bool under_way);

/// Why it may not, for people; empty when it may.
[[nodiscard]] std::string retry_reason(RetryVerdict verdict, const Letter& letter, std::string_view refusal);

/// The letter after a retry that ended so.
struct RetryEffect {
    LetterStatus status = LetterStatus::retrying;
    std::int32_t retry_count = 0;
    bool in_doubt = false;
    bool was_tried = true;    // else last_retry_at is what it was before
    std::string_view action;  // LetterAudit::action
};
[[nodiscard]] RetryEffect retry_effect(const Letter& letter, RetryResult result);

/// Another process holds the topic's redrive by now, or it has ended: `not_owner`, permanent.
[[nodiscard]] Failure redrive_not_owned(std::string_view topic);

[[nodiscard]] Result<void> check_retry_request(const RetryRequest& request);
[[nodiscard]] Result<void> check_letter_query(const LetterQuery& query);

/// Whether dlq_counts alone knows how many letters a query finds.
[[nodiscard]] bool is_counted(const LetterQuery& query);
/// The page's total is `found`; at most kMaxCounted where the letters themselves had to be read.
void set_total(LetterPage& page, const LetterQuery& query, std::int64_t found);

}  // namespace deliverd::store
