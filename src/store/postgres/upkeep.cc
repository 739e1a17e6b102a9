#include "store/postgres/upkeep.h"

#include <array>
#include <utility>

#include "store/postgres/connection/cells.h"
#include "store/sql_text.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

/// Name. So that there is a row to lock; nobody is called ''.
const Statement kMakeLease{"upkeep_make",
                           "insert into deliverd.leases (name, owner, token, expires_at)"
                           " values ($1::text, '', 0, '-infinity') on conflict (name) do nothing"};

/// Name.
const Statement kLockLease{"upkeep_lock", "select 1 from deliverd.leases where name = $1::text for update"};

/// Name, owner, length in seconds, chore, interval in seconds. After the lock and as a statement of its own: it sees
/// what was done by the owner it waited for.
const Statement kTakeLease{"upkeep_take",
                           "update deliverd.leases l"
                           " set token = l.token + case when l.owner = $2::text then 0 else 1 end, owner = $2::text,"
                           "     expires_at = now() + $3::float8 * interval '1 second'"
                           " where l.name = $1::text and (l.owner = $2::text or l.expires_at <= now())"
                           "   and not exists (select from deliverd.chores c where c.name = $4::text"
                           "                   and c.done_at > now() - $5::float8 * interval '1 second')"
                           " returning true"};

/// Name, owner, length in seconds.
const Statement kKeepLease{"upkeep_keep",
                           "update deliverd.leases set expires_at = now() + $3::float8 * interval '1 second'"
                           " where name = $1::text and owner = $2::text returning true"};

/// Name, owner, chore, 1 when it is done. The lease's row stays: its token must not start anew.
const Statement kEndLease{"upkeep_end",
                          "with freed as (update deliverd.leases set expires_at = now()"
                          " where name = $1::text and owner = $2::text returning name)"
                          " insert into deliverd.chores (name, done_at)"
                          " select $3::text, now() from freed where $4::int = 1"
                          " on conflict (name) do update set done_at = excluded.done_at"};

constexpr std::string_view kPurgeBatch = R"(
with over as materialized (
    select l.idempotency_key
    from @ledger l
    where l.expires_at <= now()
    order by l.expires_at
    limit $1::int
    for update skip locked
), gone as (
    delete from @ledger l
    using over
    where l.idempotency_key = over.idempotency_key
    returning 1
)
select count(*) from gone)";

}  // namespace

Statement purge_statement(std::string_view schema) {
    return {"upkeep_purge", replaced(std::string(kPurgeBatch), "@ledger", quoted(schema) + ".idempo_ledger")};
}

Result<bool> PostgresUpkeep::begin(std::string_view chore, std::string_view owner, Duration interval, Duration lease) {
    if (auto ok = check_upkeep_name("chore", chore); !ok) return Failure(ok.error());
    if (auto ok = check_upkeep_name("owner", owner); !ok) return Failure(ok.error());
    if (auto ok = check_upkeep_span("interval", interval); !ok) return Failure(ok.error());
    if (auto ok = check_upkeep_span("lease", lease); !ok) return Failure(ok.error());
    Params name;
    name.text(kUpkeepLease);
    Params take;
    take.text(kUpkeepLease).text(owner).float64(to_seconds(lease)).text(chore).float64(to_seconds(interval));
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const std::array steps = {Step{&kMakeLease, &name}, Step{&kLockLease, &name}, Step{&kTakeLease, &take}};
    auto results = (*connection)->run(steps, Effect::write, (*connection)->statement_deadline());
    if (!results) return Failure(std::move(results.error()));
    return PQntuples(results->back().get()) == 1;
}

Result<bool> PostgresUpkeep::keep(std::string_view owner, Duration lease) {
    if (auto ok = check_upkeep_name("owner", owner); !ok) return Failure(ok.error());
    if (auto ok = check_upkeep_span("lease", lease); !ok) return Failure(ok.error());
    Params params;
    params.text(kUpkeepLease).text(owner).float64(to_seconds(lease));
    auto kept = run_once(pool_, kKeepLease, params, Effect::write);
    if (!kept) return Failure(std::move(kept.error()));
    return PQntuples(kept->get()) == 1;
}

Result<void> PostgresUpkeep::end(std::string_view chore, std::string_view owner, bool finished) {
    if (auto ok = check_upkeep_name("chore", chore); !ok) return Failure(ok.error());
    if (auto ok = check_upkeep_name("owner", owner); !ok) return Failure(ok.error());
    Params params;
    params.text(kUpkeepLease).text(owner).text(chore).int32(finished ? 1 : 0);
    auto ended = run_once(pool_, kEndLease, params, Effect::write);
    if (!ended) return Failure(std::move(ended.error()));
    return {};
}

Result<std::int64_t> PostgresUpkeep::purge_ledger(std::int32_t limit) {
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(ok.error());
    Params params;
    params.int32(limit);
    auto gone = run_once(pool_, purge_, params, Effect::write);
    if (!gone) return Failure(std::move(gone.error()));
    return int64_at(gone->get(), 0, 0);
}

}  // namespace deliverd::store::postgres
