// Dead letters from the answers of statements, and their ids as parameters.
#pragma once

#include <libpq-fe.h>

#include <span>
#include <string>
#include <vector>

#include "store/dead_letters.h"
#include "store/postgres/connection/params.h"

namespace deliverd::store::postgres {

/// Of a row with the columns letter_columns() or detail_columns().
[[nodiscard]] Letter letter_at(const PGresult* result, int row);
[[nodiscard]] LetterDetail detail_at(const PGresult* result, int row);
/// Of a row with the columns RedriveColumn.
[[nodiscard]] Redrive redrive_at(const PGresult* result, int row);

/// Those that are uuids, in their order and each once: so rows are locked in one order.
[[nodiscard]] std::vector<std::optional<std::string>> sorted_ids(std::span<const std::string> ids);

/// A retry's or redrive's note as it is stored.
[[nodiscard]] std::string letter_note(std::string_view text);

}  // namespace deliverd::store::postgres
