#include "store/postgres/lease_session.h"

#include <utility>

#include "base/sha256.h"
#include "client/lease_postgres.h"
#include "store/postgres/sql_text.h"

namespace deliverd::store::postgres {
namespace {

/// The lease protocol's statements on one of the pool's connections. Inside a transaction nothing is done until
/// the commit, so that a lost answer here is never ambiguous.
class CallOnConnection final : public client::PostgresCall {
public:
    explicit CallOnConnection(Connection& connection) : connection_(connection) {}

    Result<PgResult> run(const char* sql, std::span<const std::optional<std::string>> values, Effect) override {
        Params params;
        for (const auto& value : values) params.literal(value);
        // The server keeps 63 bytes of a statement's name.
        const Statement statement{"lease_" + sha256_hex(sql).substr(0, 32), sql};
        return connection_.run(Step{&statement, &params, Format::text}, Effect::read, connection_.statement_deadline());
    }

private:
    Connection& connection_;
};

class PostgresLeaseSession final : public LeaseSession {
public:
    PostgresLeaseSession(Borrowed connection, const std::string& schema)
        : connection_(std::move(connection)),
          schema_(schema),
          lease_(client::lease_over(std::make_unique<CallOnConnection>(*connection_))) {}

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
