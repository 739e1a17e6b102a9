// The statements of a listing of dead letters. Pure text: plan tests look at it as well.
#pragma once

#include <string>

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// A page, newest first: the columns of kLetterColumns. One more than the limit is asked for.
[[nodiscard]] std::string letter_page_sql(const LetterQuery& query);

/// How many there are, whatever the position: exact where `counted` of the query, else at most kMaxCounted + 1.
[[nodiscard]] std::string letter_total_sql(const LetterQuery& query);

/// Whether dlq_counts alone answers how many.
[[nodiscard]] bool counted(const LetterQuery& query);

/// The query's values as bound text; outlives the statement's steps.
struct LetterBinding {
    explicit LetterBinding(const LetterQuery& query);
    void bind(SqliteStatement& statement, const LetterQuery& query) const;

    std::string from;
    std::string until;
    std::string text;
    std::string after;
};

}  // namespace deliverd::store::sqlite
