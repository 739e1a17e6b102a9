// What the outboxes of memories and orders do in the same way: one statement per batch on a borrowed connection, and
// its answer matched with what was asked.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/postgres/connection/cells.h"
#include "store/postgres/connection/pool.h"
#include "store/row_queue.h"

namespace deliverd::store::postgres {

/// Texts of the statements with the same parameters and answers in each outbox; the .sql files say what they are.
struct BatchTexts {
    std::string_view settle;
    std::string_view letters;
    std::string_view states;
    std::string_view renew;
    std::string_view release;
    std::string_view audit;
    std::string_view lag;
    std::string_view counts;
};

class BatchOutbox : public RowQueue {
public:
    Result<std::vector<SettleAnswer>> settle(std::string_view worker_id, std::span<const Settlement> settlements) final;
    Result<RenewAnswer> renew(std::string_view worker_id, std::span<const std::int64_t> ids) final;
    Result<std::int64_t> release(std::string_view worker_id, std::span<const std::int64_t> ids) final;
    Result<void> audit(std::string_view worker_id, std::span<const AuditNote> notes) final;
    Result<double> lag_seconds() final;
    Result<RowCounts> counts() final;
    Result<void> ping(Duration deadline) final { return ping_server(pool_, deadline); }

protected:
    /// `pool` and `texts` outlive the outbox. Dead letters are of `lane`.
    BatchOutbox(Pool& pool, std::string_view schema, std::string lane, const BatchTexts& texts);

    /// Runs the steps in one transaction, without waiting for the disk; the last one is the claim. `read` reads a row
    /// of its answer, and the row's due time.
    Result<ClaimBatch> run_claim(std::vector<Step> steps, Claimed (*read)(const Row& row, std::int64_t& due_micros));

    Pool& pool_;
    const Statements sql_;

private:
    /// `batch`: in the order in which rows are to be locked.
    [[nodiscard]] virtual Params settle_params(std::string_view worker_id,
                                               std::span<const Settlement* const> batch) const = 0;

    /// Runs a statement that takes worker and ids. Without ids answers a null result, which libpq treats as empty.
    Result<PgResult> run_on_ids(std::string_view text, std::string_view worker_id, std::span<const std::int64_t> ids);
    /// Fills in the rows whose settlement did not apply.
    Result<void> read_states(Connection& connection, std::vector<SettleAnswer>& answers);

    const std::string lane_;
    const BatchTexts& texts_;
};

/// Adds the position behind which to claim, due time and id; without one, a position before all rows. Failure:
/// `bad_argument`.
[[nodiscard]] Result<void> add_position(Params& params, const std::optional<Cursor>& after);

/// As the settle statements name the kinds.
[[nodiscard]] inline std::int32_t settle_kind_number(const Settlement* settlement) {
    return static_cast<std::int32_t>(settlement->kind);
}
static_assert(static_cast<int>(SettleKind::sent) == 0 && static_cast<int>(SettleKind::duplicate) == 1 &&
              static_cast<int>(SettleKind::retry) == 2 && static_cast<int>(SettleKind::dead) == 3);

}  // namespace deliverd::store::postgres
