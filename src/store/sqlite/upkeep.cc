#include "store/sqlite/upkeep.h"

#include <string>
#include <utility>

#include "client/sqlite_rows.h"
#include "store/sqlite/file/time_modifier.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

#define DELIVERD_NOW "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
#define DELIVERD_NOW_AND(modifier) "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', " modifier ")"

/// 1 chore, 2 the interval as a modifier back in time.
constexpr std::string_view kDoneLately =
    "select 1 from deliverd_chores where name = ?1 and done_at > " DELIVERD_NOW_AND("?2");

/// 1 lease, 2 owner, 3 the lease's length as a modifier.
constexpr std::string_view kTakeLease =
    "insert into deliverd_leases (name, owner, token, expires_at) values (?1, ?2, 1, " DELIVERD_NOW_AND("?3") ")"
    " on conflict (name) do update set token = token + (owner <> excluded.owner), owner = excluded.owner,"
    " expires_at = excluded.expires_at where owner = excluded.owner or expires_at <= " DELIVERD_NOW;

/// 1 lease, 2 owner, 3 the lease's length as a modifier.
constexpr std::string_view kKeepLease =
    "update deliverd_leases set expires_at = " DELIVERD_NOW_AND("?3") " where name = ?1 and owner = ?2";

/// 1 lease, 2 owner. The row stays: its token must not start anew.
constexpr std::string_view kFreeLease =
    "update deliverd_leases set expires_at = " DELIVERD_NOW " where name = ?1 and owner = ?2";

/// 1 chore.
constexpr std::string_view kNoteDone = "insert into deliverd_chores (name, done_at) values (?1, " DELIVERD_NOW
                                       ")"
                                       " on conflict (name) do update set done_at = excluded.done_at";

/// 1 how many at most.
constexpr std::string_view kPurgeLedger =
    "delete from idempo_ledger where idempotency_key in (select idempotency_key from idempo_ledger"
    " indexed by idempo_ledger_expiry where expires_at <= " DELIVERD_NOW " order by expires_at limit ?1)";

#undef DELIVERD_NOW_AND
#undef DELIVERD_NOW

Result<bool> done_lately(Handle& handle, std::string_view chore, Duration interval) {
    auto statement = handle.prepared(kDoneLately);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string back = client::lease_modifier(to_seconds(interval));
    auto found = (*statement)->bind(1, chore).bind(2, std::string_view(back)).step();
    (*statement)->reset();
    return found;
}

/// Whether the lease is the owner's after `sql` (1 lease, 2 owner, 3 a modifier).
Result<bool> hold(Handle& handle, std::string_view sql, std::string_view owner, Duration lease) {
    auto statement = handle.prepared(sql);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string ahead = time_ahead(to_seconds(lease));
    (*statement)->bind(1, kUpkeepLease).bind(2, owner).bind(3, std::string_view(ahead));
    if (auto done = (*statement)->run(); !done) return Failure(std::move(done.error()));
    return handle.changes() == 1;
}

}  // namespace

Result<bool> SqliteUpkeep::begin(std::string_view chore, std::string_view owner, Duration interval, Duration lease) {
    if (auto ok = check_upkeep_name("chore", chore); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_name("owner", owner); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_span("interval", interval); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_span("lease", lease); !ok) return Failure(std::move(ok.error()));
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<bool> {
        auto done = done_lately(handle, chore, interval);
        if (!done) return done;
        if (*done) return false;
        return hold(handle, kTakeLease, owner, lease);
    });
}

Result<bool> SqliteUpkeep::keep(std::string_view owner, Duration lease) {
    if (auto ok = check_upkeep_name("owner", owner); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_span("lease", lease); !ok) return Failure(std::move(ok.error()));
    return in_transaction(file_, Durability::relaxed,
                          [&](Handle& handle) { return hold(handle, kKeepLease, owner, lease); });
}

Result<void> SqliteUpkeep::end(std::string_view chore, std::string_view owner, bool finished) {
    if (auto ok = check_upkeep_name("chore", chore); !ok) return ok;
    if (auto ok = check_upkeep_name("owner", owner); !ok) return ok;
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<void> {
        auto lease = handle.prepared(kFreeLease);
        if (!lease) return Failure(std::move(lease.error()));
        if (auto freed = (*lease)->bind(1, kUpkeepLease).bind(2, owner).run(); !freed) return freed;
        if (!finished || handle.changes() != 1) return {};
        auto note = handle.prepared(kNoteDone);
        if (!note) return Failure(std::move(note.error()));
        return (*note)->bind(1, chore).run();
    });
}

Result<std::int64_t> SqliteUpkeep::purge_ledger(std::int32_t limit) {
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        auto statement = handle.prepared(kPurgeLedger);
        if (!statement) return Failure(std::move(statement.error()));
        auto done = (*statement)->bind(1, std::int64_t{limit}).run();
        if (!done) return Failure(std::move(done.error()));
        return handle.changes();
    });
}

}  // namespace deliverd::store::sqlite
