// Imports on PostgreSQL.
#pragma once

#include "store/imports.h"
#include "store/postgres/connection/connection.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

class PostgresImports final : public Imports {
public:
    /// `pool` outlives this. `schema`: where the table `outbox` is.
    PostgresImports(Pool& pool, std::string_view schema);

    Result<std::int64_t> store(std::string_view origin, std::string_view actor,
                               std::span<const ImportedEvent> events) override;
    Result<void> forget(std::string_view origin) override;

private:
    Pool& pool_;
    const Statement store_;
};

}  // namespace deliverd::store::postgres
