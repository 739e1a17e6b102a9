#include "store/postgres/upkeep.h"

#include <array>
#include <utility>

#include "base/try.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/statements.h"
#include "store/sql_text.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

const Statement kMakeLease{"upkeep_make", sql::make_lease};
const Statement kLockLease{"upkeep_lock", sql::lock_lease};
const Statement kTakeLease{"upkeep_take", sql::take_lease};
const Statement kKeepLease{"upkeep_keep", sql::keep_lease};
const Statement kEndLease{"upkeep_end", sql::end_lease};

}  // namespace

PostgresUpkeep::PostgresUpkeep(Pool& pool, std::string_view schema)
    : pool_(pool), purge_{"upkeep_purge", filled(sql::purge_ledger, {{"schema", quoted(schema)}})} {}

Result<bool> PostgresUpkeep::begin(std::string_view chore, std::string_view owner, Duration interval, Duration lease) {
    TRY(check_upkeep_name("chore", chore));
    TRY(check_upkeep_name("owner", owner));
    TRY(check_upkeep_span("interval", interval));
    TRY(check_upkeep_span("lease", lease));
    const Params name(kUpkeepLease);
    const Params take(kUpkeepLease, owner, to_seconds(lease), chore, to_seconds(interval));
    TRY_ASSIGN(auto connection, pool_.borrow());
    const std::array steps = {Step{&kMakeLease, &name}, Step{&kLockLease, &name}, Step{&kTakeLease, &take}};
    TRY_ASSIGN(auto results, connection->run(steps, Effect::write, connection->statement_deadline()));
    return PQntuples(results.back().get()) == 1;
}

Result<bool> PostgresUpkeep::keep(std::string_view owner, Duration lease) {
    TRY(check_upkeep_name("owner", owner));
    TRY(check_upkeep_span("lease", lease));
    const Params params(kUpkeepLease, owner, to_seconds(lease));
    TRY_ASSIGN(auto kept, run_once(pool_, kKeepLease, params, Effect::write));
    return PQntuples(kept.get()) == 1;
}

Result<void> PostgresUpkeep::end(std::string_view chore, std::string_view owner, bool finished) {
    TRY(check_upkeep_name("chore", chore));
    TRY(check_upkeep_name("owner", owner));
    TRY(run_once(pool_, kEndLease, Params(kUpkeepLease, owner, chore, finished ? 1 : 0), Effect::write));
    return {};
}

Result<std::int64_t> PostgresUpkeep::purge_ledger(std::int32_t limit) {
    TRY(check_upkeep_limit(limit));
    TRY_ASSIGN(auto gone, run_once(pool_, purge_, Params(limit), Effect::write));
    return int64_at(gone.get(), 0, 0);
}

}  // namespace deliverd::store::postgres
