// Migrations and inspection of a SQLite file.
#pragma once

#include <string>
#include <vector>

#include "store/database.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

[[nodiscard]] Result<SchemaReport> schema_report(Handle& handle);
[[nodiscard]] Result<std::vector<MigrationStep>> migrate(Handle& handle, bool dry_run);
[[nodiscard]] Result<std::vector<Finding>> inspect(Handle& writer, const std::string& path);

}  // namespace deliverd::store::sqlite
