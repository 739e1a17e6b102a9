// Upkeep on SQLite: deliverd_leases and deliverd_chores.
#pragma once

#include "store/sqlite/file/file.h"
#include "store/upkeep.h"

namespace deliverd::store::sqlite {

class SqliteUpkeep final : public Upkeep {
public:
    /// `file` outlives it.
    explicit SqliteUpkeep(File& file) : file_(file) {}

    Result<bool> begin(std::string_view chore, std::string_view owner, Duration interval, Duration lease) override;
    Result<bool> keep(std::string_view owner, Duration lease) override;
    Result<void> end(std::string_view chore, std::string_view owner, bool finished) override;
    Result<std::int64_t> purge_ledger(std::int32_t limit) override;

private:
    File& file_;
};

}  // namespace deliverd::store::sqlite
