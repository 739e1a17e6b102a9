#include <string>
#include <utility>

#include "base/try.h"
#include "client/sql_values.h"
#include "store/sqlite/parts.h"
#include "store/sqlite/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

/// Whether the lease is the owner's after `sql` (1 lease, 2 owner, 3 a modifier).
Result<bool> hold(Handle& handle, std::string_view sql, std::string_view owner, Duration lease) {
    TRY_ASSIGN(const auto changed, handle.change(sql, kUpkeepLease, owner, client::time_ahead(lease)));
    return changed == 1;
}

class SqliteUpkeep final : public Upkeep {
public:
    /// `file` outlives it.
    explicit SqliteUpkeep(File& file) : file_(file) {}

    Result<bool> begin(std::string_view chore, std::string_view owner, Duration interval, Duration lease) override {
        TRY(check_upkeep_name("chore", chore));
        TRY(check_upkeep_name("owner", owner));
        TRY(check_upkeep_span("interval", interval));
        TRY(check_upkeep_span("lease", lease));
        // A lease that a power cut forgets is only taken again. That a chore is done must not be forgotten: see end().
        return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<bool> {
            TRY_ASSIGN(const auto done, handle.value<bool>(sql::done_lately, chore, client::time_ago(interval)));
            if (done) return false;
            return hold(handle, sql::take_lease, owner, lease);
        });
    }

    Result<bool> keep(std::string_view owner, Duration lease) override {
        TRY(check_upkeep_name("owner", owner));
        TRY(check_upkeep_span("lease", lease));
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return hold(handle, sql::keep_lease, owner, lease); });
    }

    Result<void> end(std::string_view chore, std::string_view owner, bool finished) override {
        TRY(check_upkeep_name("chore", chore));
        TRY(check_upkeep_name("owner", owner));
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<void> {
            TRY_ASSIGN(const auto freed, handle.change(sql::free_lease, kUpkeepLease, owner));
            // Whoever lost the lease has not finished: another process is at the chore now.
            if (!finished || freed != 1) return {};
            return handle.run(sql::note_done, chore);
        });
    }

    Result<std::int64_t> purge_ledger(std::int32_t limit) override {
        TRY(check_upkeep_limit(limit));
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return handle.change(sql::purge_ledger, limit); });
    }

private:
    File& file_;
};

}  // namespace

std::unique_ptr<Upkeep> make_upkeep(File& file) {
    return std::make_unique<SqliteUpkeep>(file);
}

}  // namespace deliverd::store::sqlite
