// The statements of a listing of dead letters, made for the filters that it has. Pure text: plan tests look at it as
// well.
//
// Parameters of both: 1 topic, 2 status, 3 source, 4 error class, 5 from, 6 until, 7 text in lower case, 8 key, 9 and
// 10 the position, 11 rows to answer, 12 offset, 13 how many rows of each index are read at most.
#pragma once

#include <string>

#include "store/dead_letters.h"

namespace deliverd::store::sqlite {

/// A page, newest first: what letter_at() reads.
[[nodiscard]] std::string letter_page_sql(const LetterQuery& query);

/// How many there are, whatever the position: exact where the query is_counted(), else at most ?13.
[[nodiscard]] std::string letter_total_sql(LetterQuery query);

}  // namespace deliverd::store::sqlite
