#include "store/sqlite/sqlite.h"

#include <utility>

#include "base/try.h"
#include "store/session.h"
#include "store/sqlite/events/event_outbox.h"
#include "store/sqlite/file/file.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/parts.h"
#include "store/sqlite/queues/queues.h"
#include "store/sqlite/statements.h"

namespace deliverd::store {
namespace {

using sqlite::Durability;
using sqlite::File;
using sqlite::Handle;
using sqlite::LockedHandle;
using sqlite::Transaction;

Result<void> write_audit(Handle& handle, const LeaseAudit& entry) {
    for (const std::int64_t id : entry.ids) {
        TRY(handle.run(sqlite::sql::audit_lease, id, entry.reason, entry.status_from, entry.worker, entry.actor));
    }
    return {};
}

Result<void> write_audit(Handle& handle, const EventAudit& entry) {
    return handle.run(sqlite::sql::audit_event, entry.id, entry.reason, entry.status_from, entry.status_to,
                      entry.retry_count, entry.last_error, entry.detail, entry.actor);
}

/// `on` makes the protocol on a connection.
template <typename Protocol, typename Audit>
Result<Session<Protocol, Audit>> open_session(File& file, std::unique_ptr<Protocol> (*on)(sqlite3* connection)) {
    struct Locked {
        LockedHandle handle;
        Transaction transaction;  // after the handle: rolled back before it is unlocked
    };
    // The writing connection also for calls that only read: the session does not know what the caller will ask for.
    TRY_ASSIGN(auto handle, file.writer());
    TRY_ASSIGN(auto transaction, Transaction::begin(*handle, Durability::full));
    const auto locked = std::make_shared<Locked>(Locked{std::move(handle), std::move(transaction)});
    Session<Protocol, Audit> session;
    session.audit = [=](const Audit& entry) { return write_audit(*locked->handle, entry); };
    session.commit = [=] { return locked->transaction.commit(); };
    session.protocol = on(locked->handle->raw());
    return session;
}

class SqliteDatabase final : public Database {
public:
    SqliteDatabase(std::unique_ptr<File> file, std::int64_t max_payload_bytes)
        : file_(std::move(file)), max_payload_bytes_(max_payload_bytes) {}

    std::string describe() const override { return "SQLite " + file_->path(); }

    Result<SchemaReport> schema() override {
        TRY_ASSIGN(auto handle, file_->reader());
        return sqlite::schema_report(*handle);
    }

    Result<std::vector<MigrationStep>> migrate(bool dry_run) override {
        TRY_ASSIGN(auto handle, file_->writer());
        return sqlite::migrate(*handle, dry_run);
    }

    std::unique_ptr<RowQueue> memory_outbox(std::string lane) override {
        return sqlite::make_memory_queue(*file_, std::move(lane));
    }

    std::unique_ptr<RowQueue> orders_outbox(const OrdersOptions& options, std::string lane) override {
        return sqlite::make_order_queue(*file_, options, std::move(lane));
    }

    std::unique_ptr<Imports> imports() override { return sqlite::make_imports(*file_); }

    std::unique_ptr<DeadLetters> dead_letters() override { return sqlite::make_dead_letters(*file_); }

    std::unique_ptr<Orders> orders(const OrdersOptions& options) override {
        return sqlite::make_orders(*file_, options);
    }

    Result<std::unique_ptr<EventOutbox>> event_outbox(const EventTable& table) override {
        return sqlite::open_event_outbox(*file_, table);
    }

    Result<std::unique_ptr<deliverd::Outbox>> events(std::optional<std::string> audit_actor) override {
        return make_session_events([this] { return open_session<deliverd::Outbox, EventAudit>(*file_, &outbox_on); },
                                   std::move(audit_actor));
    }

    std::unique_ptr<Upkeep> upkeep() override { return sqlite::make_upkeep(*file_); }

    Result<std::unique_ptr<Lease>> lease(std::optional<std::string> audit_actor) override {
        return make_session_lease([this] { return open_session<Lease, LeaseAudit>(*file_, &lease_on); },
                                  std::move(audit_actor), max_payload_bytes_);
    }

    Result<std::vector<std::int64_t>> enqueue_memories(std::span<const NewMemory> memories) override {
        TRY_ASSIGN(auto session, open_session<Lease, LeaseAudit>(*file_, &lease_on));
        return enqueue_in_session(session, memories, max_payload_bytes_);
    }

    Result<std::int64_t> remove_memories(std::string_view target_space, std::int64_t first_id,
                                         std::int64_t last_id) override {
        return in_transaction(*file_, Durability::full, [&](Handle& handle) -> Result<std::int64_t> {
            TRY(handle.run(sqlite::sql::remove_memory_audit, target_space, first_id, last_id));
            return handle.change(sqlite::sql::remove_memories, target_space, first_id, last_id);
        });
    }

    Result<std::vector<Finding>> inspect() override {
        TRY_ASSIGN(auto handle, file_->writer());
        return sqlite::inspect(*handle, file_->path());
    }

    Result<void> ping(Duration deadline) override { return file_->ping(deadline); }

    void limit_waits(Duration at_most) override { file_->limit_waits(at_most); }

private:
    std::unique_ptr<File> file_;
    const std::int64_t max_payload_bytes_;
};

}  // namespace

Result<std::unique_ptr<Database>> open_sqlite(SqliteOptions options, Log& log) {
    TRY_ASSIGN(auto file, File::open(options.path, options.busy_timeout));
    log.debug("database opened", {{"path", options.path}});
    return std::make_unique<SqliteDatabase>(std::move(file), options.max_payload_bytes);
}

}  // namespace deliverd::store
