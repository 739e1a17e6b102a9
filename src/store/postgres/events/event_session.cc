#include "store/postgres/events/event_session.h"

#include <utility>

#include "base/try.h"
#include "client/outbox_postgres.h"
#include "store/postgres/connection/session_call.h"
#include "store/postgres/events/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

class PostgresEventSession final : public EventSession {
public:
    PostgresEventSession(Transaction transaction, const std::string& schema)
        : transaction_(std::move(transaction)),
          audit_("events_audit", filled(events::sql::audit_event, {{"schema", quoted(schema)}})),
          outbox_(client::outbox_over(call_on(transaction_.connection()))) {}

    deliverd::Outbox& protocol() override { return *outbox_; }

    Result<void> audit(const EventAudit& entry) override {
        const auto count = entry.retry_count ? std::optional(std::to_string(*entry.retry_count)) : std::nullopt;
        TRY(transaction_.run(audit_, Params(entry.id, entry.reason, entry.status_from, entry.status_to, count,
                                            entry.last_error, entry.detail, entry.actor)));
        return {};
    }

    Result<void> commit() override { return transaction_.commit(); }

private:
    Transaction transaction_;
    const Statement audit_;
    const std::unique_ptr<deliverd::Outbox> outbox_;
};

}  // namespace

Result<std::unique_ptr<EventSession>> open_event_session(Pool& pool, const std::string& schema) {
    TRY_ASSIGN(auto transaction, Transaction::begin(pool));
    return std::make_unique<PostgresEventSession>(std::move(transaction), schema);
}

}  // namespace deliverd::store::postgres
