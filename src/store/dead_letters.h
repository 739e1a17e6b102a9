// The port through which dead letters are kept, looked at, and sent back.
//
// A dead letter is a message that was given up: by a Kafka consumer that wrote it to a dead-letter topic, by one of
// this program's lanes, or by a spool. Its states: PENDING -> RETRYING -> RESOLVED, or DEAD, which only a person can
// undo (revive()).
//
// Guarantees every implementation gives (store/conformance/dead_letters.h checks them):
//   - a record is stored once, however often it comes and from however many processes at once: topic, partition, offset
//     and timestamp identify it. The timestamp is part of that because a topic that was deleted and created again
//     starts at offset 0: without it, the new records would seem to be stored already. Bytes come back as they were
//     given; null and empty differ;
//   - what a spool gave up is stored once too, by an id that follows from the entry;
//   - a lane's row has one dead letter, written in the transaction that settles the row as dead. A row that dies again
//     after it was sent back makes its letter PENDING again, or DEAD if that was the last of its retries. Another row
//     with the same id (a table that starts over) differs in its event id, or else in its content. The earlier row's
//     letter then stays as it is, but has no row any more and cannot be sent back;
//   - a retry is one process's at a time: from begin_retry() until end_retry(), or until its lease has run out by the
//     database's clock. What was begun is on the disk before begin_retry() answers. A retry whose lease ran out before
//     it ended is unfinished: it may have been published. The next retry of the letter, alone or with its topic,
//     resumes the unfinished one. It does not count again, so it may also be the last one;
//   - every change by a person, a retry or the retention is in dlq_audit, written in the same transaction, until
//     purge_history(). Only the beginnings of a redrive's retries are not, see next_of_redrive();
//   - counts by topic, source and status are exact and cost the same for any number of letters, because triggers keep
//     them: counting a million letters for the `total` of each page would read them all. On PostgreSQL a change adds a
//     row of differences, so that no writer waits for a counter's lock, and a read adds them up.
//
// A page is bounded in bytes by leaving payloads out, not by having fewer letters: `page` and `page_size` of the API
// then mean the same whatever the letters hold.
//
// Threads, blocking and failure: as in store/row_queue.h.
#pragma once

#include <array>
#include <cstddef>
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

inline constexpr std::array<std::string_view, 4> kLetterStatusNames = {"PENDING", "RETRYING", "RESOLVED", "DEAD"};

[[nodiscard]] constexpr std::string_view to_string(LetterStatus status) noexcept {
    return kLetterStatusNames[static_cast<std::size_t>(status)];
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

/// Why and where a message failed, as far as its headers or its row say.
struct Provenance {
    std::string original_topic;
    std::optional<std::int32_t> original_partition{};
    std::optional<std::int64_t> original_offset{};
    std::string error_message = "unknown error";
    std::optional<std::string> error_class{};  // an exception's class, or an outcome's code
    std::optional<std::string> stack_trace{};
    std::optional<std::string> producer{};  // who gave it up: "spring-kafka", "kafka-connect", consumer group, worker
};

/// A record of a dead-letter topic, or an entry that a spool gave up, to be stored.
struct NewLetter {
    Record record;
    Provenance provenance;
    std::optional<std::string> payload{};  // the value, where it is JSON that the database can hold
    bool truncated = false;                // the record's value was longer: these are its first bytes
    std::string source = "kafka";          // of another source, the record has no topic, partition and offset
    /// A uuid: store() keeps only one letter with it. Empty: store() makes one. Either all letters of a call have an
    /// id, or none has.
    std::string id{};
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
    bool in_doubt = false;                        // a retry may have been published, though it was not confirmed
    bool unfinished = false;           // a retry was begun, and its lease ran out before it ended: in doubt as well
    std::optional<std::string> topic;  // the dead-letter topic it was read from; none: not from Kafka
    std::optional<std::int32_t> partition;
    std::optional<std::int64_t> offset;
    std::optional<LaneRow> lane_row;
    std::int64_t value_bytes = 0;
    bool truncated = false;
    bool payload_left_out = false;  // there is one, and it is too long for this listing: find() has it
};

/// A letter with its record.
struct LetterDetail {
    Letter letter;
    Record record;  // topic, partition and offset only of letters from Kafka
};

struct LetterAudit {
    WallTime at{};
    /// retry_begun | published | resolved_unpublished | retry_failed | retry_in_doubt | returned | dead | revived |
    /// row_reused | deleted | purged. Arrival is not audited: `created_at` records it.
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

/// A filter that has to read the letters themselves counts at most this many. Topic, source and status alone are exact.
inline constexpr std::int64_t kMaxCounted = 1'000;

/// A listing has no stack traces. It has every payload up to the first size, and longer ones, newest first, until those
/// reach the second size together. The size is that of the record's value, or of the payload where there is no value.
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
    exhausted,  // it had all its retries, and each has ended
    under_way,  // another owner's retry has not ended
    refused,    // it cannot be sent anywhere: truncated, an origin that is a dead-letter topic, an order
};

struct RetryClaim {
    std::string id;
    RetryVerdict verdict = RetryVerdict::unknown;
    std::string reason{};                  // refused: why, for people
    std::optional<LetterDetail> letter{};  // as it is now; none when unknown
    bool taken_over = false;               // begun: resumes a retry that did not end, and did not count again
};

struct RetryRequest {
    std::string owner;  // unique to this call
    std::string actor;  // for the audit
    Duration lease{};
};

enum class RetryResult {
    published,  // -> RESOLVED
    failed,     // certainly not published: RETRYING, or DEAD when it was the last
    in_doubt,   // may have been published: RETRYING, in_doubt
    /// Nothing was tried (no broker): count and last_retry_at are restored, as if it had not begun. But the count is
    /// never restored to 0 where an earlier retry is in doubt.
    not_tried,
    unpublished,  // -> RESOLVED, although nothing was to be published (stand-alone)
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
    LetterCursor up_to;                    // the newest letter when it began: it leaves later ones alone
    std::int64_t published = 0;
    std::int64_t failed = 0;
    std::int64_t in_doubt = 0;
    std::int64_t taken_over = 0;  // an earlier retry of them did not end, or in doubt: may have been published twice
    bool finished = false;
};

/// The most that one call takes of a redrive. One letter is always taken, whatever its size.
struct RedrivePage {
    std::int32_t letters = 0;
    std::int64_t bytes = 0;  // keys, values (or payloads, where there is none) and headers, about
    /// Letters for Kafka with one of these original topics are skipped, and remain as they are.
    std::span<const std::string> left_out_topics{};
};

class DeadLetters {
public:
    virtual ~DeadLetters() = default;

    // --- coming in -------------------------------------------------------------------------------------------------

    /// All in one transaction, on the disk when it returns; answers how many were new. A letter that the database
    /// cannot hold refuses the whole call (permanent, codes::kLetterRefused): try the others without it. Any other
    /// permanent failure (a missing table or privilege) refuses every letter.
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

    /// Counts the retry and makes each RETRYING, in one transaction; one answer per id, in the same order. A letter of
    /// a lane is begun as well: return_to_lane() ends it.
    virtual Result<std::vector<RetryClaim>> begin_retry(std::span<const std::string> ids,
                                                        const RetryRequest& request) = 0;

    /// Ends the retries that are still `owner`'s and leaves the others as they are. One transaction; answers how many
    /// applied.
    virtual Result<std::int64_t> end_retry(std::string_view owner, std::string_view actor,
                                           std::span<const RetryEnd> ends) = 0;

    /// Puts the rows of these letters (begun by `owner`) back into their outboxes, due at once, and makes the letters
    /// RESOLVED, in one transaction. A memory then has no failures. An event keeps one: the relay's position is past
    /// it, and only a failed event keeps the later rows of its aggregate behind it. One answer per id: empty when done,
    /// else why not (the row is gone or no longer dead); the letter is then as end_retry(failed) leaves it. Where a
    /// redrive of the owner's began them, its counts include them.
    virtual Result<std::vector<std::string>> return_to_lane(std::string_view owner, std::string_view actor,
                                                            std::span<const std::string> ids) = 0;

    /// Begins a redrive of the topic, or resumes an unfinished one whose lease has run out. None: another owner holds
    /// it. It is `owner`'s for `lease`, and for the lease of each next_of_redrive(). A resumed redrive starts over from
    /// its first letter and skips those that it has tried: its position says what was read, not what was given back
    /// behind it. A retry that the owner before began and did not end comes again: the same retry, in doubt and
    /// `taken_over`, which does not count again.
    virtual Result<std::optional<Redrive>> open_redrive(std::string_view topic, std::string_view owner,
                                                        std::string_view actor, Duration lease) = 0;
    /// The next letters of the redrive, oldest first, no more than `page` has room for: begun as by begin_retry(), and
    /// the redrive's position moved behind them, in one transaction. Those that cannot be retried are skipped. Empty:
    /// that was all. The answer may lack what a replay does not need: the stack trace, and the payload where there is a
    /// value. Only a resumed retry has an audit line for its beginning; the others' last line is enough. Failure
    /// `not_owner`, permanent: another owner holds it by now.
    virtual Result<std::vector<RetryClaim>> next_of_redrive(std::string_view topic, const RetryRequest& request,
                                                            const RedrivePage& page) = 0;
    /// end_retry() and the redrive's counts, in one transaction.
    virtual Result<std::int64_t> end_of_redrive_page(std::string_view topic, std::string_view owner,
                                                     std::string_view actor, std::span<const RetryEnd> ends) = 0;
    virtual Result<Redrive> close_redrive(std::string_view topic, std::string_view owner) = 0;
    /// Abandons an unfinished redrive at once, without waiting for the lease's end. Changes nothing where it is not the
    /// owner's.
    virtual Result<void> release_redrive(std::string_view topic, std::string_view owner) = 0;
    /// Unfinished ones that no owner holds: their process died or gave them up.
    virtual Result<std::vector<Redrive>> abandoned_redrives() = 0;

    // --- by hand, and upkeep ---------------------------------------------------------------------------------------

    /// PENDING or RETRYING -> DEAD. Answers the letter as it was before; none when there is no such letter. What is
    /// finished, or being retried at this moment, remains as it is.
    virtual Result<std::optional<Letter>> mark_dead(std::string_view id, std::string_view actor) = 0;
    /// DEAD -> PENDING, with no retries made. Answers the letter as it was before; none when there is no such letter.
    /// What is not DEAD remains as it is, and so does an order, which is never sent again.
    virtual Result<std::optional<Letter>> revive(std::string_view id, std::string_view actor) = 0;
    /// Its audit lines remain.
    virtual Result<Removal> remove(std::string_view id, std::string_view actor) = 0;
    /// Deletes letters of that status not changed for `age`, at most `limit`, in transactions that never wait for a row
    /// lock; answers how many. Each has an audit line. A deleted record comes back when its topic is read again from
    /// before it. Each call continues where the one before with the same arguments ended, so fewer than `limit` does
    /// not mean that none are left (a later transaction may also have failed); 0 twice in a row does.
    virtual Result<std::int64_t> purge(LetterStatus status, Duration age, std::int32_t limit,
                                       std::string_view actor) = 0;
    /// Deletes audit lines and finished redrives older than `age`, at most `limit` of both together; answers how many.
    /// A call after a full one continues where that ended. A redrive of a topic that had nothing is not kept at all.
    virtual Result<std::int64_t> purge_history(Duration age, std::int32_t limit) = 0;
};

}  // namespace deliverd::store
