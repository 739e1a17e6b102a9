#include "store/sqlite/events/event_session.h"

#include <utility>

namespace deliverd::store::sqlite {
namespace {

constexpr std::string_view kAuditEvent =
    "insert into outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, detail,"
    " actor) values ('events', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

class SqliteEventSession final : public EventSession {
public:
    SqliteEventSession(LockedHandle handle, Transaction transaction)
        : handle_(std::move(handle)), transaction_(std::move(transaction)), outbox_(outbox_on(handle_->raw())) {}

    deliverd::Outbox& outbox() override { return *outbox_; }

    Result<void> audit(const EventAudit& entry) override {
        auto statement = handle_->prepared(kAuditEvent);
        if (!statement) return Failure(std::move(statement.error()));
        (*statement)->bind(1, entry.id).bind(2, entry.reason).bind(3, entry.status_from).bind(4, entry.status_to);
        (*statement)->bind_null(5).bind(6, entry.last_error).bind(7, entry.detail).bind(8, entry.actor);
        if (entry.retry_count) (*statement)->bind(5, std::int64_t{*entry.retry_count});
        return (*statement)->run();
    }

    Result<void> commit() override { return transaction_.commit(); }

private:
    LockedHandle handle_;
    Transaction transaction_;  // after the handle: rolled back before it is unlocked
    std::unique_ptr<deliverd::Outbox> outbox_;
};

}  // namespace

Result<std::unique_ptr<EventSession>> open_event_session(File& file) {
    auto handle = file.writer();
    if (!handle) return Failure(std::move(handle.error()));
    auto transaction = Transaction::begin(**handle, Durability::full);
    if (!transaction) return Failure(std::move(transaction.error()));
    return std::make_unique<SqliteEventSession>(std::move(*handle), std::move(*transaction));
}

}  // namespace deliverd::store::sqlite
