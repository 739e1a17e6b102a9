#include "store/sqlite/parts.h"

#include "base/try.h"
#include "client/sql_values.h"
#include "store/sqlite/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

/// Whether it was new.
Result<bool> store_event(Handle& handle, const ImportedEvent& event, std::string_view origin, std::string_view actor) {
    // The key first: it is what makes an event that comes again nothing new.
    TRY_ASSIGN(const auto remembered, handle.change(sql::remember_import, event.key, origin));
    if (remembered == 0) return false;
    TRY(handle.run(sql::import_event, event.aggregate_id, event.event_type, event.payload, event.metadata, event.key));
    TRY(handle.run(sql::audit_import, origin, actor));
    return true;
}

class SqliteImports final : public Imports {
public:
    explicit SqliteImports(File& file) : file_(file) {}

    Result<std::int64_t> store(std::string_view origin, std::string_view actor,
                               std::span<const ImportedEvent> events) override {
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
            std::int64_t fresh = 0;
            for (const ImportedEvent& event : events) {
                TRY_ASSIGN(auto stored, store_event(handle, event, origin, actor));
                fresh += stored ? 1 : 0;
            }
            return fresh;
        });
    }

    Result<void> forget(std::string_view origin) override {
        // A key that a power cut brings back only keeps out an event that its origin no longer has.
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return handle.run(sql::forget_imports, origin); });
    }

private:
    File& file_;
};

/// Whether the lease is the owner's after `sql` (1 lease, 2 owner, 3 a modifier).
Result<bool> hold(Handle& handle, std::string_view sql, std::string_view owner, Duration lease) {
    TRY_ASSIGN(const auto changed, handle.change(sql, kUpkeepLease, owner, client::time_ahead(lease)));
    return changed == 1;
}

class SqliteUpkeep final : public Upkeep {
public:
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

std::unique_ptr<Imports> make_imports(File& file) {
    return std::make_unique<SqliteImports>(file);
}

std::unique_ptr<Upkeep> make_upkeep(File& file) {
    return std::make_unique<SqliteUpkeep>(file);
}

}  // namespace deliverd::store::sqlite
