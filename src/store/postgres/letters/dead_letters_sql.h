// The statements on dlq.dlq_messages that are the same for every call. Listings are made in letter_query.h, what has to
// do with the outboxes in lane_letters.h.
#pragma once

#include <string>
#include <string_view>

#include "store/postgres/connection/connection.h"

namespace deliverd::store::postgres {

/// Columns of a letter as statements answer it.
enum LetterColumn {
    kLetterId,
    kLetterSource,
    kLetterOriginalTopic,
    kLetterOriginalPartition,
    kLetterOriginalOffset,
    kLetterErrorMessage,
    kLetterErrorClass,
    kLetterStackTrace,
    kLetterProducer,
    kLetterRetryCount,
    kLetterMaxRetries,
    kLetterPayload,
    kLetterStatus,
    kLetterCreatedAt,
    kLetterUpdatedAt,
    kLetterLastRetryAt,
    kLetterLastRetryError,
    kLetterInDoubt,
    kLetterTopic,
    kLetterPartition,
    kLetterOffset,
    kLetterLane,
    kLetterOutbox,
    kLetterRowId,
    kLetterValueBytes,
    kLetterTruncated,
    kLetterUnfinished,
    kLetterColumns,  // those of a letter without its bytes end here
    kLetterKey = kLetterColumns,
    kLetterValue,
    kLetterHeaders,
    kLetterTimestamp,
    kLetterTimestampType,
    kLetterDetailColumns,
};

/// The columns above of the row `a`, up to kLetterColumns or all.
[[nodiscard]] std::string letter_columns(std::string_view a);
[[nodiscard]] std::string detail_columns(std::string_view a);
/// As detail_columns(), the stack trace null, and the payload where there is a value: a replay has no use for them, and
/// the text of JSON costs more than all the other columns. Without a value the payload is what is sent.
[[nodiscard]] std::string replay_columns(std::string_view a);

/// The two parts of a topic's letters, none of them in both. `topic` is the parameter, `a` the row.
[[nodiscard]] std::string from_topic(std::string_view topic, std::string_view a = "m");
[[nodiscard]] std::string once_of_topic(std::string_view topic, std::string_view a = "m");

/// What a retry's end is called in end's parameters: RetryResult's numbers, and one more.
inline constexpr std::int32_t kReturned = 5;

/// m may be retried, but for the count and for who is at it: the same as retry_refusal() and retry_verdict() in
/// store/letter_rules.h.
[[nodiscard]] std::string wanted_letter();

/// How many letters one statement of a purge looks at, at most: some tens of milliseconds.
inline constexpr std::int32_t kMaxLookedAt = 20'000;

struct DeadLetterStatements {
    explicit DeadLetterStatements(std::string_view schema);

    Statement store;           // StoreParams; how many rows it wrote is in its command tag
    Statement store_any_json;  // the same, with payload null where jsonb refuses it
    Statement store_by_id;     // the two for letters that are stored once by their id
    Statement store_by_id_any_json;
    Statement find;   // ids; answers details
    Statement audit;  // id, limit
    Statement topics;
    Statement destinations;  // topic, limit
    Statement begin;         // ids, owner, lease in seconds, actor; answers id, begun, else whether one is under way
    Statement end;           // owner, actor, ids, results, details; answers how many applied
    Statement lock;          // id; answers the letter
    Statement mark_dead;     // id, actor
    Statement revive;        // the same
    Statement remove;        // id, actor; answers 1 where there is one, and 1 where it was deleted
    /// status, age in seconds, limit, behind which created_at and id, actor, how many to look at; answers how many were
    /// deleted, and created_at and id to go on behind: null when there are no more
    Statement purge;
    Statement purge_history;  // age in seconds, limit, from when on; answers how many, time of the last line

    Statement owned;          // owner, ids; answers id, lane, outbox, row, and where its lane's events are
    Statement return_memory;  // ids; answers those that were returned
    Statement note_returned;  // outbox, ids, actor
};

}  // namespace deliverd::store::postgres
