#include "store/postgres/imports.h"

#include <utility>
#include <vector>

#include "base/try.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {

PostgresImports::PostgresImports(Pool& pool, std::string_view schema)
    : pool_(pool), store_{"imports_store", filled(sql::store_import, {{"schema", quoted(schema)}})} {}

Result<std::int64_t> PostgresImports::store(std::string_view origin, std::string_view actor,
                                            std::span<const ImportedEvent> events) {
    const Params params(origin, actor, column(events, &ImportedEvent::key),
                        column(events, &ImportedEvent::aggregate_id), column(events, &ImportedEvent::event_type),
                        column(events, &ImportedEvent::payload), column(events, &ImportedEvent::metadata));
    TRY_ASSIGN(auto stored, run_once(pool_, store_, params, Effect::write));
    return int64_at(stored.get(), 0, 0);
}

Result<void> PostgresImports::forget(std::string_view origin) {
    static const Statement kForgetImport{"imports_forget", sql::forget_import};
    TRY(run_once(pool_, kForgetImport, Params(origin), Effect::write));
    return {};
}

}  // namespace deliverd::store::postgres
