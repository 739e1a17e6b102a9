// Imports on SQLite.
#pragma once

#include "store/imports.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

/// `file` outlives it.
[[nodiscard]] std::unique_ptr<Imports> make_imports(File& file);

}  // namespace deliverd::store::sqlite
