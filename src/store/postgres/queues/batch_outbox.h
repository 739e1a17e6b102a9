// What every outbox on PostgreSQL does in the same way: one statement a batch on a borrowed connection, and its answer
// matched with what was asked.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/outbox.h"
#include "store/postgres/connection/connection.h"
#include "store/postgres/connection/pool.h"

namespace deliverd::store::postgres {

/// The statements of an outbox whose parameters and answers are the same for all.
struct BatchStatements {
    Statement settle;      // what settle_params() makes; answers the ids of those that applied
    Statement letters;     // lane, worker, ids: of those that are dead since this transaction
    Statement row_states;  // ids; answers id, status, count, worker, error of those that are there
    Statement renew;       // worker, ids; answers id, renewed (else lost)
    Statement release;     // worker, ids; answers the ids
    Statement audit;       // worker, ids, reasons, details, counts
    Statement lag;         // answers the seconds, or no row
    Statement counts;      // answers status, count
};

class BatchOutbox : public Outbox {
public:
    Result<std::vector<SettleAnswer>> settle(std::string_view worker_id, std::span<const Settlement> settlements) final;
    Result<RenewAnswer> renew(std::string_view worker_id, std::span<const std::int64_t> ids) final;
    Result<std::int64_t> release(std::string_view worker_id, std::span<const std::int64_t> ids) final;
    Result<void> audit(std::string_view worker_id, std::span<const AuditNote> notes) final;
    Result<double> lag_seconds() final;
    Result<OutboxCounts> counts() final;
    Result<void> ping(Duration deadline) final { return ping_server(pool_, deadline); }

protected:
    /// `pool` outlives the outbox. Dead letters are of `lane`.
    BatchOutbox(Pool& pool, std::string lane) : pool_(pool), lane_(std::move(lane)) {}

    Pool& pool() { return pool_; }

    /// How a claim's answer is read.
    struct ClaimReader {
        Claimed (*row)(const PGresult* rows, int row);
        int id_column;
        int due_column;
    };
    /// The steps in one transaction, without waiting for the disk: the last one is the claim.
    Result<ClaimBatch> run_claim(std::span<const Step> steps, const ClaimReader& reader);

private:
    [[nodiscard]] virtual const BatchStatements& statements() const = 0;
    /// For the settlements in this order.
    [[nodiscard]] virtual Params settle_params(std::string_view worker_id, std::span<const Settlement> settlements,
                                               std::span<const std::size_t> order) const = 0;

    /// A statement that takes worker and ids; without ids a null result, which libpq takes for an empty one.
    Result<PgResult> run_on_ids(const Statement& statement, std::string_view worker_id,
                                std::span<const std::int64_t> ids);
    Result<void> describe_rest(Connection& connection, std::vector<SettleAnswer>& answers);

    Pool& pool_;
    const std::string lane_;
};

/// Adds the position of a claim, if it has one: due time and id. Failure: `bad_argument`.
[[nodiscard]] Result<void> add_position(Params& params, const std::optional<Cursor>& after);

}  // namespace deliverd::store::postgres
