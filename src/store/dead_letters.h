// The port through which dead letters are kept, looked at, and sent back.
//
// A dead letter is a message that somebody gave up on: a Kafka consumer that put it into a dead-letter topic, one of
// this program's lanes, or a spool. Its states: PENDING -> RETRYING -> RESOLVED, or DEAD, from which only a person
// leads on (revive()).
//
// Guarantees every implementation gives (store/conformance/dead_letters.h checks them):
//   - a record is stored once, however often and by however many processes at once: topic, partition, offset and
//     timestamp are unique (the timestamp, because a topic that was deleted and made anew counts from 0 again); bytes
//     come back as they were given, null and empty apart;
//   - so is what a spool gave up on, by an id that follows from it;
//   - a lane's row has one dead letter, written in the transaction that settles the row as dead; one that dies again
//     after it was sent back makes its letter PENDING again, and DEAD when that was the last of its retries. A row with
//     the id of an earlier one is not that row: the event id tells, else what is in it. The earlier one's letter stays
//     as it is, but has no row any more and cannot be sent back;
//   - a retry is one process's at a time: from begin_retry() until end_retry(), or until its lease has run out by the
//     database's clock. What was begun is on the disk before begin_retry() answers. One whose lease has run out before
//     it ended is unfinished: nobody knows whether it was published. Whoever retries the letter then, alone or with its
//     topic, goes on with the same retry: it does not count once more, so that it may also be the last one;
//   - every change by a person, a retry or the retention is in dlq_audit, in the same transaction (but for a redrive's
//     beginnings, see next_of_redrive()), and stays there until purge_history();
//   - counts are exact, and cost the same however many letters there are.
//
// Threads, blocking and failure: as in store/outbox.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "deliverd/result.h"
#include "message/record.h"

namespace deliverd::store {

enum class LetterStatus { pending, retrying, resolved, dead };

[[nodiscard]] constexpr std::string_view to_string(LetterStatus status) noexcept {
    switch (status) {
        case LetterStatus::pending:
            return "PENDING";
        case LetterStatus::retrying:
            return "RETRYING";
        case LetterStatus::resolved:
            return "RESOLVED";
        case LetterStatus::dead:
            return "DEAD";
    }
    return "UNKNOWN";
}
[[nodiscard]] std::optional<LetterStatus> letter_status(std::string_view text);
/// Whether it could be a letter's source: kafka, lane:NAME or spool:NAME.
[[nodiscard]] bool is_letter_source(std::string_view text);

/// The row of an outbox that a letter is about.
struct LaneRow {
    std::string lane;
    std::string outbox;  // orders | events | memory
    std::string row_id;  // empty: the row is gone, and another message has its id
};

/// Why and where something failed, as far as anybody said.
struct Provenance {
    std::string original_topic;
    std::optional<std::int32_t> original_partition{};
    std::optional<std::int64_t> original_offset{};
    std::string error_message = "unknown error";
    std::optional<std::string> error_class{};  // an exception's class, or an outcome's code
    std::optional<std::string> stack_trace{};
    std::optional<std::string> producer{};  // who gave it up: "spring-kafka", "kafka-connect", consumer group, worker
};

/// A record of a dead-letter topic, or what a spool gave up on, to be stored.
struct NewLetter {
    Record record;
    Provenance provenance;
    std::optional<std::string> payload{};  // the value, where it is JSON that the database can hold
    bool truncated = false;                // the record's value was longer: these are its first bytes
    std::string source = "kafka";          // else the record has no topic, partition and offset …
    std::string id{};  // … and this is what it is stored once by: a uuid. Empty: one is made. All letters of a
                       // call have one, or none has
};

/// A letter without its bytes.
struct Letter {
    std::string id;      // uuid
    std::string source;  // "kafka", "lane:NAME", "spool:NAME"
    Provenance provenance;
    std::int32_t retry_count = 0;
    std::int32_t max_retries = 3;
    std::optional<std::string> payload;  // JSON text
    LetterStatus status = LetterStatus::pending;
    WallTime created_at{};
    WallTime updated_at{};
    std::optional<WallTime> last_retry_at;
    std::optional<std::string> last_retry_error;  // of the last retry, when it failed or is in doubt
    bool in_doubt = false;                        // a retry may have been published though nobody confirmed it
    bool unfinished = false;           // for this reason: it was begun, and its lease has run out before it ended
    std::optional<std::string> topic;  // the dead-letter topic it was read from; none: not from Kafka
    std::optional<std::int32_t> partition;
    std::optional<std::int64_t> offset;
    std::optional<LaneRow> lane_row;
    std::int64_t value_bytes = 0;
    bool truncated = false;
    bool payload_left_out = false;  // there is one, and it is too long for this listing: find() has it
};

/// A letter with everything that is known of it.
struct LetterDetail {
    Letter letter;
    Record record;  // topic, partition and offset only of letters from Kafka
};

struct LetterAudit {
    WallTime at{};
    /// retry_begun | published | resolved_unpublished | retry_failed | retry_in_doubt | returned | dead | revived |
    /// row_reused | deleted | purged. That a letter came has no line: it says itself when.
    std::string action;
    std::string actor;
    std::optional<std::string> status_from;
    std::optional<std::string> status_to;
    std::optional<std::string> detail;
};

/// A position in the order of a listing: newest first.
struct LetterCursor {
    WallTime created_at{};
    std::string id;
};

struct LetterQuery {
    std::optional<std::string> topic{};  // the dead-letter topic, or the original one; none: all
    std::optional<LetterStatus> status{};
    std::optional<std::string> source{};
    std::optional<std::string> error_class{};
    std::optional<WallTime> from{};       // created at or after
    std::optional<WallTime> until{};      // created before
    std::optional<std::string> text{};    // in error message or payload, whatever the case
    std::optional<std::string> key{};     // the record's key, exactly
    std::optional<LetterCursor> after{};  // behind this one, in place of an offset
    std::int64_t offset = 0;
    std::int32_t limit = 20;
};

struct LetterPage {
    std::vector<Letter> letters;    // newest first
    std::int64_t total = 0;         // of the query, without position and limit
    bool total_is_minimum = false;  // there are more than kMaxCounted: `total` is that
    bool has_next = false;
};

/// What a filter that needs reading the letters themselves counts at most. Topic, source and status alone are exact.
inline constexpr std::int64_t kMaxCounted = 1'000;

/// A listing has no stack traces. It has all payloads up to the first size, and longer ones, newest first, as long as
/// these are no more than the second together. A size is that of the record's value, if there is one, else of the
/// payload itself.
inline constexpr std::int64_t kShortPayloadBytes = 64L * 1024;
inline constexpr std::int64_t kMaxLongPayloadBytes = 16L * 1024 * 1024;

struct TopicCounts {
    std::string topic;  // the dead-letter topic; of lanes and spools their name
    std::string source;
    std::int64_t pending = 0;
    std::int64_t retrying = 0;
    std::int64_t resolved = 0;
    std::int64_t dead = 0;
    WallTime newest_at{};
};

/// Where letters go back to.
struct Destination {
    std::string topic;  // their original one; of lanes and spools their name
    std::string source;
    std::int64_t letters = 0;
};

enum class RetryVerdict {
    begun,      // it is this caller's until end_retry() or the lease's end
    unknown,    // no such letter
    finished,   // RESOLVED or DEAD
    exhausted,  // as many retries as it may have, and each has ended
    under_way,  // somebody else's retry has not ended
    refused,    // it cannot be sent anywhere: truncated, an origin that is a dead-letter topic, an order
};

struct RetryClaim {
    std::string id;
    RetryVerdict verdict = RetryVerdict::unknown;
    std::string reason{};                  // refused: why, for people
    std::optional<LetterDetail> letter{};  // as it stands now; none when unknown
    bool taken_over = false;               // begun: it goes on with one that did not end, and did not count again
};

struct RetryRequest {
    std::string owner;  // unique to this call
    std::string actor;  // for the audit
    Duration lease{};
};

enum class RetryResult {
    published,    // -> RESOLVED
    failed,       // certainly not published: RETRYING, or DEAD when it was the last
    in_doubt,     // may have been: RETRYING, in_doubt
    not_tried,    // nothing was even tried (no broker): count and last_retry_at go back, as if it had not begun. The
                  // count not to 0 where an earlier one is in doubt
    unpublished,  // -> RESOLVED, though nothing was to be published (stand-alone)
};

struct RetryEnd {
    std::string id;
    RetryResult result = RetryResult::failed;
    std::string detail{};  // failed, in_doubt: one line; published: where ("orders[0]@17")
};

enum class Removal {
    removed,
    unknown,    // no such letter
    under_way,  // it is being retried at this moment: left as it is
};

/// A retry of all retryable letters of a topic. Its position survives a restart.
struct Redrive {
    std::string topic;
    std::string actor;
    std::optional<LetterCursor> position;  // worked through, oldest first, up to and with this one
    LetterCursor up_to;                    // the newest letter when it began: later ones are not its business
    std::int64_t published = 0;
    std::int64_t failed = 0;
    std::int64_t in_doubt = 0;
    std::int64_t taken_over = 0;  // an earlier retry of them did not end, or in doubt: may have been published twice
    bool finished = false;
};

/// What one call takes of a redrive at most. Of letters of any size one is taken in any case.
struct RedrivePage {
    std::int32_t letters = 0;
    std::int64_t bytes = 0;  // keys, values (or payloads, where there is none) and headers, about
    /// Letters for Kafka with one of these original topics are passed by, and stay as they are.
    std::span<const std::string> left_out_topics{};
};

/// The code of the error with which store() refuses a letter for what it is. No other failure is a letter's fault.
inline constexpr std::string_view kLetterRefused = "letter_refused";

class DeadLetters {
public:
    virtual ~DeadLetters() = default;

    // --- coming in -------------------------------------------------------------------------------------------------

    /// All in one transaction, on the disk when it returns; answers how many were new. A letter that the database
    /// cannot hold refuses the whole call (permanent, kLetterRefused): the others may be tried without it. What else is
    /// permanent (a table or a right is missing) refuses every letter alike.
    virtual Result<std::int64_t> store(std::span<const NewLetter> letters) = 0;

    // --- looking ---------------------------------------------------------------------------------------------------

    virtual Result<LetterPage> list(const LetterQuery& query) = 0;
    /// None when there is no such letter, or `id` is not a uuid.
    virtual Result<std::optional<LetterDetail>> find(std::string_view id) = 0;
    /// Oldest first.
    virtual Result<std::vector<LetterAudit>> audit(std::string_view id, std::int32_t limit) = 0;
    /// By topic and source, in order of the names.
    virtual Result<std::vector<TopicCounts>> topics() = 0;
    /// Of the topic's letters that are PENDING or RETRYING, most first, at most `limit`. Exact, and as cheap as
    /// topics().
    virtual Result<std::vector<Destination>> destinations(std::string_view topic, std::int32_t limit) = 0;

    // --- sending back ----------------------------------------------------------------------------------------------

    /// Counts the retry and makes each RETRYING, in one transaction; one answer an id, in the same order. A letter of a
    /// lane is begun as well: return_to_lane() ends it.
    virtual Result<std::vector<RetryClaim>> begin_retry(std::span<const std::string> ids,
                                                        const RetryRequest& request) = 0;

    /// Of those that are still `owner`'s; the others are left as they are. One transaction; answers how many applied.
    virtual Result<std::int64_t> end_retry(std::string_view owner, std::string_view actor,
                                           std::span<const RetryEnd> ends) = 0;

    /// Puts the rows of these letters (begun by `owner`) back into their outboxes, due at once, and makes the letters
    /// RESOLVED, in one transaction. A memory has no failures then; an event has one, which is what keeps the later
    /// rows of its aggregate behind it: with none, a relay whose position is past it would find those first. One answer
    /// an id: empty when done, else why not (the row is gone or no longer dead), and the letter is then as
    /// end_retry(failed) leaves it. Where a redrive of the owner's began them, its counts have them too.
    virtual Result<std::vector<std::string>> return_to_lane(std::string_view owner, std::string_view actor,
                                                            std::span<const std::string> ids) = 0;

    /// Begins a redrive of the topic, or takes up the one that is unfinished and nobody's at the moment. None: somebody
    /// else is at it. It is `owner`'s for `lease`, and for that of each next_of_redrive(). One that is taken up goes
    /// over its letters from the first one again, without those that it has tried. What the owner before had begun and
    /// not ended comes once more: the same retry, which does not count again, in doubt and `taken_over`.
    virtual Result<std::optional<Redrive>> open_redrive(std::string_view topic, std::string_view owner,
                                                        std::string_view actor, Duration lease) = 0;
    /// The next letters of the redrive, oldest first, no more than `page` has room for: begun as by begin_retry(), and
    /// the redrive's position moved behind them, in one transaction. Those that cannot be retried are left out. Empty:
    /// that was all. Missing may be what a replay has no use for: the stack trace, and the payload where there is a
    /// value. Only a retry that is taken over has a line in the audit for its beginning: of the others the line of
    /// their end tells as much. Failure `not_owner`, permanent: somebody else has it by now.
    virtual Result<std::vector<RetryClaim>> next_of_redrive(std::string_view topic, const RetryRequest& request,
                                                            const RedrivePage& page) = 0;
    /// end_retry() and the redrive's counts, in one transaction.
    virtual Result<std::int64_t> end_of_redrive_page(std::string_view topic, std::string_view owner,
                                                     std::string_view actor, std::span<const RetryEnd> ends) = 0;
    virtual Result<Redrive> close_redrive(std::string_view topic, std::string_view owner) = 0;
    /// Gives an unfinished one up: it is abandoned from now on, and need not wait for the lease's end. Nothing happens
    /// where it is not the owner's.
    virtual Result<void> release_redrive(std::string_view topic, std::string_view owner) = 0;
    /// Unfinished ones that are nobody's at the moment: whose process died.
    virtual Result<std::vector<Redrive>> abandoned_redrives() = 0;

    // --- by hand, and upkeep ---------------------------------------------------------------------------------------

    /// PENDING or RETRYING -> DEAD. As it was before; none when there is no such letter. What is finished, or being
    /// retried at this moment, is left as it is.
    virtual Result<std::optional<Letter>> mark_dead(std::string_view id, std::string_view actor) = 0;
    /// DEAD -> PENDING, with all of its retries before it again. As it was before; none when there is no such letter.
    /// What is not DEAD is left as it is, and so is an order: it is not sent again.
    virtual Result<std::optional<Letter>> revive(std::string_view id, std::string_view actor) = 0;
    /// Its audit stays.
    virtual Result<Removal> remove(std::string_view id, std::string_view actor) = 0;
    /// Deletes letters of that status not changed for `age`, at most `limit`, in transactions that wait for nobody's
    /// row lock; answers how many. Each has a line in the audit. A record that was deleted comes back when its topic is
    /// read again from before it. Fewer than `limit` only says that those are all behind where the call before it with
    /// the same arguments ended, or that a later transaction failed; 0 twice in a row, that there are none.
    virtual Result<std::int64_t> purge(LetterStatus status, Duration age, std::int32_t limit,
                                       std::string_view actor) = 0;
    /// Deletes lines of the audit and finished redrives older than `age`, at most `limit` of both together, and goes on
    /// where a call that had so many ended; answers how many. A redrive of a topic that had nothing is not kept at all.
    virtual Result<std::int64_t> purge_history(Duration age, std::int32_t limit) = 0;
};

}  // namespace deliverd::store
