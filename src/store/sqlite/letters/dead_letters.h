// Dead letters on SQLite. Text is looked for without regard to case in the letters A to Z only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "store/dead_letters.h"
#include "store/events.h"
#include "store/letter_rules.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// `file` outlives the letters.
[[nodiscard]] std::unique_ptr<DeadLetters> make_dead_letters(File& file);

// --- letters as rows: reading one, the begin and the end of its retry, and its audit -------------------------------
// Inside a transaction of the caller's.

/// A letter, and which owner's retry of it has begun and not ended.
struct StoredLetter {
    LetterDetail detail;
    std::optional<std::string> retry_owner;
    bool retry_is_live = false;  // the owner's lease has not run out
};

/// None when there is none.
[[nodiscard]] Result<std::optional<StoredLetter>> stored_letter(Handle& handle, std::string_view id);

/// Drops a payload that is not UTF-8. A row of a lane may hold any bytes, and so may its letter; they are no JSON.
void drop_unreadable_payload(Letter& letter);

struct LetterStep {
    std::string_view action;
    std::string_view actor;
    std::optional<std::string_view> status_from{};
    std::optional<std::string_view> status_to{};
    std::optional<std::string_view> detail{};
};
[[nodiscard]] Result<void> audit_letter(Handle& handle, std::string_view id, const LetterStep& step);

/// Begins a retry, or resumes one whose process died, which does not count again. `redrive_began` is the start time of
/// the redrive it belongs to, empty if none: the retry's time is then no earlier, and only a resumed one is audited.
[[nodiscard]] Result<RetryClaim> begin_retry_of(Handle& handle, const std::string& id, const RetryRequest& request,
                                                std::string_view redrive_began);

/// The letter, while its retry is the owner's: also after the lease, as long as no other retry has begun.
[[nodiscard]] Result<std::optional<Letter>> owned_letter(Handle& handle, std::string_view owner, std::string_view id);

/// Ends the retry of an owned letter.
[[nodiscard]] Result<void> end_retry_of(Handle& handle, const Letter& letter, const RetryEffect& effect,
                                        std::string_view actor, const RetryEnd& end);

/// Puts an owned letter's row back into its lane and ends the retry. Answers why the row did not go back; empty when it
/// did.
[[nodiscard]] Result<std::string> return_letter(Handle& handle, const Letter& letter, std::string_view actor);

/// How many retries of a call ended how.
using EndCounts = std::map<RetryResult, std::int64_t>;
/// Counts them for the redrive that began them. Changes nothing where no redrive of the owner's is open.
[[nodiscard]] Result<void> add_to_redrive(Handle& handle, std::string_view owner, EndCounts counts);

/// Times as the tables have them; what is finer than a millisecond is rounded up, so that comparing with what is stored
/// stays right.
[[nodiscard]] std::string letter_time(WallTime time);

// --- listings --------------------------------------------------------------------------------------------------------

// The statements of a listing, made for the filters that it has. Pure text: plan tests look at it as well.
//
// Parameters of both: 1 topic, 2 status, 3 source, 4 error class, 5 from, 6 until, 7 text in lower case, 8 key, 9 and
// 10 the position, 11 rows to answer, 12 offset, 13 how many rows of each index are read at most.

/// A page, newest first: what letter_at() reads.
[[nodiscard]] std::string letter_page_sql(const LetterQuery& query);

/// How many there are, whatever the position: exact where the query is_counted(), else at most ?13.
[[nodiscard]] std::string letter_total_sql(LetterQuery query);

// --- letters of rows that a lane gave up on -------------------------------------------------------------------------

/// Writes the letter of a row of an event table that is dead now.
[[nodiscard]] Result<void> write_event_letter(Handle& handle, const EventTable& table, std::string_view worker_id,
                                              const EventSettlement& settlement);

}  // namespace deliverd::store::sqlite
