// Upkeep on SQLite: deliverd_leases and deliverd_chores.
#pragma once

#include "store/sqlite/file/file.h"
#include "store/upkeep.h"

namespace deliverd::store::sqlite {

/// `file` outlives it.
[[nodiscard]] std::unique_ptr<Upkeep> make_upkeep(File& file);

}  // namespace deliverd::store::sqlite
