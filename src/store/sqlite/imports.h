// Imports on SQLite.
#pragma once

#include "store/imports.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

class SqliteImports final : public Imports {
public:
    /// `file` outlives this.
    explicit SqliteImports(File& file) : file_(file) {}

    Result<std::int64_t> store(std::string_view origin, std::string_view actor,
                               std::span<const ImportedEvent> events) override;
    Result<void> forget(std::string_view origin) override;

private:
    File& file_;
};

}  // namespace deliverd::store::sqlite
