#include "base/try.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/parts.h"
#include "store/postgres/statements.h"

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
        return int64_at(stored.get(), 0, 0);
    }

    Result<void> forget(std::string_view origin) override {
        TRY(run_once(pool_, sql_[sql::forget_import], Params(origin), Effect::write));
        return {};
    }

private:
    Pool& pool_;
    const Statements sql_;
};

}  // namespace

std::unique_ptr<Imports> make_imports(Pool& pool, std::string_view schema) {
    return std::make_unique<PostgresImports>(pool, schema);
}

}  // namespace deliverd::store::postgres
