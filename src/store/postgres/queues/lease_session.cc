#include "store/postgres/queues/lease_session.h"

#include <utility>

#include "base/try.h"
#include "client/lease_postgres.h"
#include "store/postgres/connection/session_call.h"
#include "store/postgres/queues/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

class PostgresLeaseSession final : public LeaseSession {
public:
    PostgresLeaseSession(Transaction transaction, const std::string& schema)
        : transaction_(std::move(transaction)),
          audit_("queues_audit_lease", filled(queues::sql::audit_lease, {{"schema", quoted(schema)}})),
          lease_(client::lease_over(call_on(transaction_.connection()))) {}

    Lease& protocol() override { return *lease_; }

    Result<void> audit(const LeaseAudit& entry) override {
        const std::optional<std::string> status_from(entry.status_from);
        const std::optional<std::string> worker(entry.worker);
        TRY(transaction_.run(audit_, Params(entry.ids, entry.reason, status_from, worker, entry.actor)));
        return {};
    }

    Result<void> commit() override { return transaction_.commit(); }

private:
    Transaction transaction_;
    const Statement audit_;
    const std::unique_ptr<Lease> lease_;
};

}  // namespace

Result<std::unique_ptr<LeaseSession>> open_lease_session(Pool& pool, const std::string& schema) {
    TRY_ASSIGN(auto transaction, Transaction::begin(pool));
    return std::make_unique<PostgresLeaseSession>(std::move(transaction), schema);
}

}  // namespace deliverd::store::postgres
