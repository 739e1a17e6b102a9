// Dead letters on PostgreSQL: schema dlq. A batch is a statement with arrays, a call mostly one round trip.
//
// A retry touches no index. Its begin and its end change a letter's status, which no index contains, and pages are
// filled to 45 per cent, so that both new versions fit beside the first one (HOT). At 60 per cent every fifth version
// went to another page, with an entry in each of six indexes: half of PostgreSQL's work. The price is a table of about
// twice its content, and no index by status. The DEAD, which a letter becomes once, have a table of their own; a
// listing of another rare status walks the letters in their order.
//
// A redrive's page is read where the scan found it, not returned by the update: returned rows are formed anew for the
// common table expression, sorted and formed again, which was a quarter of the whole statement.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/dead_letters.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

/// What one statement of store() carries; more goes into further ones of the same transaction.
inline constexpr std::size_t kMaxStoredAtOnce = 1000;
inline constexpr std::size_t kMaxStoredBytesAtOnce = 64U << 20U;
/// How many letters one statement of a purge looks at, at most: some tens of milliseconds.
inline constexpr std::int32_t kMaxLookedAt = 20'000;
/// What a retry's end is called in end_retry's parameters where the row went back to its lane: one more than
/// RetryResult's numbers.
inline constexpr std::int32_t kReturned = 5;

/// Those that are uuids, in their order and each once: so two statements lock the same rows in one order.
[[nodiscard]] std::vector<std::string> sorted_ids(std::span<const std::string> ids);

/// A statement and its parameters. Made for the filters that a listing has: a condition that may or may not apply would
/// keep the planner from the index that fits.
struct LetterSelect {
    Statement statement;
    Params params;
};

/// The letters of a page and one more, newest first; columns as letter_at() reads them, and whether the payload was
/// left out.
[[nodiscard]] LetterSelect select_page(const LetterQuery& query);

/// How many letters there are; at most kMaxCounted + 1 where the query is not is_counted().
[[nodiscard]] LetterSelect select_total(const LetterQuery& query);

/// DeadLetters::store().
[[nodiscard]] Result<std::int64_t> store_letters(Pool& pool, std::span<const NewLetter> letters);

/// DeadLetters::return_to_lane(). `sql` has the statements of this room.
[[nodiscard]] Result<std::vector<std::string>> return_letters(Pool& pool, const Statements& sql, std::string_view owner,
                                                              std::string_view actor, std::span<const std::string> ids);

/// `pool` outlives the letters. `schema` is that of the outbox tables.
[[nodiscard]] std::unique_ptr<DeadLetters> make_dead_letters(Pool& pool, const std::string& schema);

}  // namespace deliverd::store::postgres
