// Dead letters from the answers of statements, and their ids as parameters.
#pragma once

#include <libpq-fe.h>

#include <span>
#include <string>
#include <vector>

#include "store/dead_letters.h"

namespace deliverd::store::postgres {

/// How many columns letter_at() and detail_at() read, as sql/dead_letters.sql lists them.
inline constexpr int kLetterColumns = 27;
inline constexpr int kDetailColumns = 32;

[[nodiscard]] Letter letter_at(const PGresult* result, int row);
[[nodiscard]] LetterDetail detail_at(const PGresult* result, int row);
/// Of a row with the columns `redrive` in sql/redrives.sql.
[[nodiscard]] Redrive redrive_at(const PGresult* result, int row);

/// Those that are uuids, in their order and each once: so rows are locked in one order.
[[nodiscard]] std::vector<std::optional<std::string>> sorted_ids(std::span<const std::string> ids);

/// A retry's or redrive's note as it is stored.
[[nodiscard]] std::string letter_note(std::string_view text);

}  // namespace deliverd::store::postgres
