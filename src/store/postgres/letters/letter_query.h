// Statements for a listing, made for the filters that it has: a condition that may or may not apply would keep the
// planner from the index that fits.
#pragma once

#include <cstdint>

#include "store/dead_letters.h"
#include "store/postgres/connection/connection.h"

namespace deliverd::store::postgres {

/// A statement and its parameters.
struct LetterSelect {
    Statement statement;
    Params params;
};

/// The letters of a page and one more, newest first; columns as letter_at() reads them, and whether the payload was
/// left out.
[[nodiscard]] LetterSelect select_page(const LetterQuery& query);

/// How many letters there are; at most kMaxCounted + 1 where the query is not is_counted().
[[nodiscard]] LetterSelect select_total(const LetterQuery& query);

}  // namespace deliverd::store::postgres
