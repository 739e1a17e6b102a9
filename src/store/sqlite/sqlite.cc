#include "store/sqlite/sqlite.h"

#include <utility>

#include "store/session_lease.h"
#include "store/sqlite/events/event_outbox.h"
#include "store/sqlite/events/event_session.h"
#include "store/sqlite/file/file.h"
#include "store/sqlite/imports.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/migrator.h"
#include "store/sqlite/queues/orders.h"
#include "store/sqlite/queues/orders_outbox.h"
#include "store/sqlite/queues/outbox.h"
#include "store/sqlite/queues/outbox_sql.h"
#include "store/sqlite/upkeep.h"

namespace deliverd::store {
namespace {

using sqlite::Durability;
using sqlite::File;
using sqlite::LockedHandle;
using sqlite::Transaction;

class SqliteLeaseSession final : public LeaseSession {
public:
    SqliteLeaseSession(LockedHandle handle, Transaction transaction)
        : handle_(std::move(handle)), transaction_(std::move(transaction)), lease_(lease_on(handle_->raw())) {}

    Lease& lease() override { return *lease_; }

    Result<void> audit(const LeaseAudit& entry) override {
        for (const std::int64_t id : entry.ids) {
            auto statement = handle_->prepared(sqlite::kAuditRow);
            if (!statement) return Failure(std::move(statement.error()));
            (*statement)->bind(1, id).bind(2, entry.reason).bind_null(3).bind_null(4).bind(5, entry.actor);
            if (entry.status_from) (*statement)->bind(3, *entry.status_from);
            if (entry.worker) (*statement)->bind(4, *entry.worker);
            if (auto done = (*statement)->run(); !done) return done;
        }
        return {};
    }

    Result<void> commit() override { return transaction_.commit(); }

private:
    LockedHandle handle_;
    Transaction transaction_;  // after the handle: rolled back before it is unlocked
    std::unique_ptr<Lease> lease_;
};

Result<std::unique_ptr<LeaseSession>> open_session(File& file) {
    auto handle = file.writer();
    if (!handle) return Failure(std::move(handle.error()));
    auto transaction = Transaction::begin(**handle, Durability::full);
    if (!transaction) return Failure(std::move(transaction.error()));
    return std::make_unique<SqliteLeaseSession>(std::move(*handle), std::move(*transaction));
}

class SqliteDatabase final : public Database {
public:
    SqliteDatabase(std::unique_ptr<File> file, std::int64_t max_payload_bytes)
        : file_(std::move(file)), max_payload_bytes_(max_payload_bytes) {}

    std::string describe() const override { return "SQLite " + file_->path(); }

    Result<SchemaReport> schema() override {
        auto handle = file_->reader();
        if (!handle) return Failure(std::move(handle.error()));
        return sqlite::schema_report(**handle);
    }

    Result<std::vector<MigrationStep>> migrate(bool dry_run) override {
        auto handle = file_->writer();
        if (!handle) return Failure(std::move(handle.error()));
        return sqlite::migrate(**handle, dry_run);
    }

    std::unique_ptr<Outbox> memory_outbox(std::string lane) override {
        return std::make_unique<sqlite::SqliteOutbox>(*file_, std::move(lane));
    }

    std::unique_ptr<Outbox> orders_outbox(const OrdersOptions& options, std::string lane) override {
        return std::make_unique<sqlite::SqliteOrdersOutbox>(*file_, options, std::move(lane));
    }

    std::unique_ptr<Imports> imports() override { return std::make_unique<sqlite::SqliteImports>(*file_); }

    std::unique_ptr<DeadLetters> dead_letters() override { return std::make_unique<sqlite::SqliteDeadLetters>(*file_); }

    std::unique_ptr<Orders> orders(const OrdersOptions& options) override {
        return std::make_unique<sqlite::SqliteOrders>(*file_, options);
    }

    Result<std::unique_ptr<EventOutbox>> event_outbox(const EventTable& table) override {
        return sqlite::SqliteEventOutbox::open(*file_, table);
    }

    Result<std::unique_ptr<deliverd::Outbox>> events(std::optional<std::string> audit_actor) override {
        return make_session_events([this] { return sqlite::open_event_session(*file_); }, std::move(audit_actor));
    }

    std::unique_ptr<Upkeep> upkeep() override { return std::make_unique<sqlite::SqliteUpkeep>(*file_); }

    Result<std::unique_ptr<Lease>> lease(std::optional<std::string> audit_actor) override {
        return make_session_lease([this] { return open_session(*file_); }, std::move(audit_actor), max_payload_bytes_);
    }

    Result<std::vector<std::int64_t>> enqueue_memories(std::span<const NewMemory> memories) override {
        auto session = open_session(*file_);
        if (!session) return Failure(std::move(session.error()));
        return enqueue_in_session(**session, memories, max_payload_bytes_);
    }

    Result<std::int64_t> remove_memories(std::string_view target_space, std::int64_t first_id,
                                         std::int64_t last_id) override {
        auto handle = file_->writer();
        if (!handle) return Failure(std::move(handle.error()));
        auto transaction = Transaction::begin(**handle, Durability::full);
        if (!transaction) return Failure(std::move(transaction.error()));
        std::int64_t removed = 0;
        for (const std::string_view sql : {sqlite::kRemoveAudit, sqlite::kRemoveRows}) {
            auto statement = (*handle)->prepared(sql);
            if (!statement) return Failure(std::move(statement.error()));
            (*statement)->bind(1, target_space).bind(2, first_id).bind(3, last_id);
            if (auto done = (*statement)->run(); !done) return Failure(std::move(done.error()));
            removed = (*handle)->changes();
        }
        if (auto done = transaction->commit(); !done) return Failure(std::move(done.error()));
        return removed;
    }

    Result<std::vector<Finding>> inspect() override {
        auto handle = file_->writer();
        if (!handle) return Failure(std::move(handle.error()));
        return sqlite::inspect(**handle, file_->path());
    }

    Result<void> ping(Duration deadline) override { return sqlite::SqliteOutbox(*file_, "").ping(deadline); }

    void limit_waits(Duration at_most) override { file_->limit_waits(at_most); }

private:
    std::unique_ptr<File> file_;
    const std::int64_t max_payload_bytes_;
};

}  // namespace

Result<std::unique_ptr<Database>> open_sqlite(SqliteOptions options, Log& log) {
    auto file = File::open(options.path, options.busy_timeout);
    if (!file) return Failure(std::move(file.error()));
    log.debug("database opened", {{"path", options.path}});
    return std::make_unique<SqliteDatabase>(std::move(*file), options.max_payload_bytes);
}

}  // namespace deliverd::store
