#include "store/sqlite/imports.h"

#include <utility>

#include "client/sqlite_rows.h"

namespace deliverd::store::sqlite {
namespace {

/// 1 key, 2 origin.
constexpr std::string_view kRemember =
    "insert into deliverd_imports (key, origin) values (?1, ?2) on conflict do nothing";

/// 1 aggregate, 2 type, 3 payload, 4 metadata, 5 key.
constexpr std::string_view kAdd =
    "insert into outbox (aggregate_id, event_type, payload, metadata, event_id) values (?1, ?2, ?3, ?4, ?5)";

/// 1 origin, 2 actor. Of the row that was added last.
constexpr std::string_view kAuditImport =
    "insert into outbox_audit (outbox, outbox_id, reason, status_to, retry_count, detail, actor)"
    " values ('events', last_insert_rowid(), 'event_imported', 'pending', 0, ?1, ?2)";

constexpr std::string_view kForgetImport = "delete from deliverd_imports where origin = ?1";

template <typename... Values>
Result<void> run(Handle& handle, std::string_view sql, Values... values) {
    auto statement = handle.prepared(sql);
    if (!statement) return Failure(std::move(statement.error()));
    int place = 0;
    (static_cast<void>((*statement)->bind(++place, std::string_view(values))), ...);
    return (*statement)->run();
}

/// Whether it was new.
Result<bool> store_event(Handle& handle, const ImportedEvent& event, std::string_view origin, std::string_view actor) {
    if (auto done = run(handle, kRemember, event.key, origin); !done) return Failure(std::move(done.error()));
    if (handle.changes() == 0) return false;
    auto done = run(handle, kAdd, event.aggregate_id, event.event_type, event.payload, event.metadata, event.key);
    if (done) done = run(handle, kAuditImport, origin, actor);
    if (!done) return Failure(std::move(done.error()));
    return true;
}

}  // namespace

Result<std::int64_t> SqliteImports::store(std::string_view origin, std::string_view actor,
                                          std::span<const ImportedEvent> events) {
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
        std::int64_t fresh = 0;
        for (const ImportedEvent& event : events) {
            auto stored = store_event(handle, event, origin, actor);
            if (!stored) return Failure(std::move(stored.error()));
            fresh += *stored ? 1 : 0;
        }
        return fresh;
    });
}

Result<void> SqliteImports::forget(std::string_view origin) {
    const auto done = in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<bool> {
        if (auto gone = run(handle, kForgetImport, origin); !gone) return Failure(std::move(gone.error()));
        return true;
    });
    if (!done) return Failure(done.error());
    return {};
}

}  // namespace deliverd::store::sqlite
