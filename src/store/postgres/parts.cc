#include "store/postgres/parts.h"

#include <array>

#include "base/try.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

class PostgresImports final : public Imports {
public:
    PostgresImports(Pool& pool, std::string_view schema) : pool_(pool), sql_(schema, {sql::all}) {}

    Result<std::int64_t> store(std::string_view origin, std::string_view actor,
                               std::span<const ImportedEvent> events) override {
        const Params params(origin, actor, column(events, &ImportedEvent::key),
                            column(events, &ImportedEvent::aggregate_id), column(events, &ImportedEvent::event_type),
                            column(events, &ImportedEvent::payload), column(events, &ImportedEvent::metadata));
        // One statement for keys, events and audit: it is all or nothing without a transaction of its own.
        TRY_ASSIGN(auto stored, run_once(pool_, sql_[sql::store_import], params, Effect::write));
        return Row(stored.get()).get<std::int64_t>();
    }

    Result<void> forget(std::string_view origin) override {
        TRY(run_once(pool_, sql_[sql::forget_import], Params(origin), Effect::write));
        return {};
    }

private:
    Pool& pool_;
    const Statements sql_;
};

class PostgresUpkeep final : public Upkeep {
public:
    PostgresUpkeep(Pool& pool, std::string_view schema) : pool_(pool), sql_(schema, {sql::all}) {}

    Result<bool> begin(std::string_view chore, std::string_view owner, Duration interval, Duration lease) override {
        TRY(check_upkeep_name("chore", chore));
        TRY(check_upkeep_name("owner", owner));
        TRY(check_upkeep_span("interval", interval));
        TRY(check_upkeep_span("lease", lease));
        const Params name(kUpkeepLease);
        const Params take(kUpkeepLease, owner, to_seconds(lease), chore, to_seconds(interval));
        // The lock is a statement of its own: only the next one sees what the owner that it waited for has done.
        const std::array steps = {Step{&sql_[sql::make_lease], name}, Step{&sql_[sql::lock_lease], name},
                                  Step{&sql_[sql::take_lease], take}};
        TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::write));
        return PQntuples(results.back().get()) == 1;
    }

    Result<bool> keep(std::string_view owner, Duration lease) override {
        TRY(check_upkeep_name("owner", owner));
        TRY(check_upkeep_span("lease", lease));
        const Params params(kUpkeepLease, owner, to_seconds(lease));
        TRY_ASSIGN(auto kept, run_once(pool_, sql_[sql::keep_lease], params, Effect::write));
        return PQntuples(kept.get()) == 1;
    }

    Result<void> end(std::string_view chore, std::string_view owner, bool finished) override {
        TRY(check_upkeep_name("chore", chore));
        TRY(check_upkeep_name("owner", owner));
        const Params params(kUpkeepLease, owner, chore, finished ? 1 : 0);
        TRY(run_once(pool_, sql_[sql::end_lease], params, Effect::write));
        return {};
    }

    Result<std::int64_t> purge_ledger(std::int32_t limit) override {
        TRY(check_upkeep_limit(limit));
        TRY_ASSIGN(auto gone, run_once(pool_, sql_[sql::purge_ledger], Params(limit), Effect::write));
        return Row(gone.get()).get<std::int64_t>();
    }

private:
    Pool& pool_;
    const Statements sql_;
};

}  // namespace

std::unique_ptr<Imports> make_imports(Pool& pool, std::string_view schema) {
    return std::make_unique<PostgresImports>(pool, schema);
}

std::unique_ptr<Upkeep> make_upkeep(Pool& pool, std::string_view schema) {
    return std::make_unique<PostgresUpkeep>(pool, schema);
}

}  // namespace deliverd::store::postgres
