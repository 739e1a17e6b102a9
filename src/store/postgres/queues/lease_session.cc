#include "store/postgres/queues/lease_session.h"

#include <utility>

#include "client/lease_postgres.h"
#include "store/postgres/connection/session_call.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

class PostgresLeaseSession final : public LeaseSession {
public:
    PostgresLeaseSession(Borrowed connection, const std::string& schema)
        : connection_(std::move(connection)), schema_(schema), lease_(client::lease_over(call_on(*connection_))) {}

    ~PostgresLeaseSession() override {
        // Should this fail too, the pool throws the connection away, which rolls back as well.
        if (connection_->usable() && connection_->in_transaction()) {
            static_cast<void>(connection_->script("rollback", Effect::read, connection_->statement_deadline()));
        }
    }

    Lease& lease() override { return *lease_; }

    Result<void> audit(const LeaseAudit& entry) override {
        const std::string tables = quoted(schema_) + ".";
        const Statement statement{
            "lease_audit", "insert into " + tables +
                               "outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count,"
                               " last_error, worker, actor)"
                               " select 'memory', o.outbox_id, $2::text, $3::text, o.status, o.retry_count,"
                               " o.last_error, $4::text, $5::text from " +
                               tables + "outbox_memory o where o.outbox_id = any ($1::bigint[]) order by o.outbox_id"};
        Params params;
        params.int64_array(entry.ids).text(entry.reason);
        params.literal(entry.status_from ? std::optional<std::string>(*entry.status_from) : std::nullopt);
        params.literal(entry.worker ? std::optional<std::string>(*entry.worker) : std::nullopt);
        params.text(entry.actor);
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
    std::unique_ptr<Lease> lease_;
};

}  // namespace

Result<std::unique_ptr<LeaseSession>> open_lease_session(Pool& pool, const std::string& schema) {
    auto connection = pool.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const Deadline deadline = (*connection)->statement_deadline();
    if (auto begun = (*connection)->script("begin", Effect::read, deadline); !begun) {
        return Failure(std::move(begun.error()));
    }
    return std::make_unique<PostgresLeaseSession>(std::move(*connection), schema);
}

}  // namespace deliverd::store::postgres
