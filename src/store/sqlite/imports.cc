#include "base/try.h"
#include "store/sqlite/parts.h"
#include "store/sqlite/statements.h"

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
    /// `file` outlives this.
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

}  // namespace

std::unique_ptr<Imports> make_imports(File& file) {
    return std::make_unique<SqliteImports>(file);
}

}  // namespace deliverd::store::sqlite
