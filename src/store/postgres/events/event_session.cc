#include "store/postgres/events/event_session.h"

#include <utility>

#include "client/outbox_postgres.h"
#include "store/postgres/connection/session_call.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

class PostgresEventSession final : public EventSession {
public:
    PostgresEventSession(Borrowed connection, const std::string& schema)
        : connection_(std::move(connection)), schema_(schema), outbox_(client::outbox_over(call_on(*connection_))) {}

    ~PostgresEventSession() override {
        // Should this fail too, the pool throws the connection away, which rolls back as well.
        if (connection_->usable() && connection_->in_transaction()) {
            static_cast<void>(connection_->script("rollback", Effect::read, connection_->statement_deadline()));
        }
    }

    deliverd::Outbox& outbox() override { return *outbox_; }

    Result<void> audit(const EventAudit& entry) override {
        const Statement statement{"event_audit",
                                  "insert into " + quoted(schema_) +
                                      ".outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count,"
                                      " last_error, detail, actor) values ('events', $1::bigint, $2::text, $3::text,"
                                      " $4::text, $5::int, $6::text, $7::text, $8::text)"};
        Params params;
        params.int64(entry.id).text(entry.reason).literal(entry.status_from).literal(entry.status_to);
        params.literal(entry.retry_count ? std::optional(std::to_string(*entry.retry_count)) : std::nullopt);
        params.literal(entry.last_error).literal(entry.detail).text(entry.actor);
        auto done = connection_->run(Step{&statement, &params}, Effect::read, connection_->statement_deadline());
        if (!done) return Failure(std::move(done.error()));
        return {};
    }

    Result<void> commit() override {
        return connection_->script("commit", Effect::write, connection_->statement_deadline());
    }

private:
    Borrowed connection_;
    const std::string schema_;
    std::unique_ptr<deliverd::Outbox> outbox_;
};

}  // namespace

Result<std::unique_ptr<EventSession>> open_event_session(Pool& pool, const std::string& schema) {
    auto connection = pool.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const Deadline deadline = (*connection)->statement_deadline();
    if (auto begun = (*connection)->script("begin", Effect::read, deadline); !begun) {
        return Failure(std::move(begun.error()));
    }
    return std::make_unique<PostgresEventSession>(std::move(*connection), schema);
}

}  // namespace deliverd::store::postgres
