// Upkeep on PostgreSQL.
#pragma once

#include "store/postgres/connection/connection.h"
#include "store/postgres/connection/pool.h"
#include "store/upkeep.h"

namespace deliverd::store::postgres {

class PostgresUpkeep final : public Upkeep {
public:
    /// `pool` outlives this. `schema`: where the ledger is.
    PostgresUpkeep(Pool& pool, std::string_view schema);

    Result<bool> begin(std::string_view chore, std::string_view owner, Duration interval, Duration lease) override;
    Result<bool> keep(std::string_view owner, Duration lease) override;
    Result<void> end(std::string_view chore, std::string_view owner, bool finished) override;
    Result<std::int64_t> purge_ledger(std::int32_t limit) override;

private:
    Pool& pool_;
    const Statement purge_;
};

}  // namespace deliverd::store::postgres
