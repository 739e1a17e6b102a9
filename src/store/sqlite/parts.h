// The parts of a SQLite database that are too small for a room of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "store/database.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

[[nodiscard]] Result<SchemaReport> schema_report(Handle& handle);
[[nodiscard]] Result<std::vector<MigrationStep>> migrate(Handle& handle, bool dry_run);
[[nodiscard]] Result<std::vector<Finding>> inspect(Handle& writer, const std::string& path);

/// `file` outlives the answers.
[[nodiscard]] std::unique_ptr<Imports> make_imports(File& file);
[[nodiscard]] std::unique_ptr<Upkeep> make_upkeep(File& file);

}  // namespace deliverd::store::sqlite
