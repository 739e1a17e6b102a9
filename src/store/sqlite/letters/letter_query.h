// The statements of a listing of dead letters. Pure text: plan tests look at it as well.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "store/dead_letters.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// A page, newest first: what letter_at() reads. One more than the limit is asked for.
[[nodiscard]] std::string letter_page_sql(const LetterQuery& query);

/// How many there are, whatever the position: exact where `counted` of the query, else at most kMaxCounted + 1.
[[nodiscard]] std::string letter_total_sql(const LetterQuery& query);

/// Whether dlq_counts alone answers how many.
[[nodiscard]] bool counted(const LetterQuery& query);

/// The values of ?1 to ?10. Views are into the query.
using Text = std::optional<std::string_view>;
using OwnText = std::optional<std::string>;
using LetterValues = std::tuple<Text, Text, Text, Text, OwnText, OwnText, OwnText, client::Blob, OwnText, Text>;
[[nodiscard]] LetterValues letter_values(const LetterQuery& query);

}  // namespace deliverd::store::sqlite
