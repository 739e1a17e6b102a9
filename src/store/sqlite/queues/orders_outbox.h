// The order outbox on SQLite, for lanes.
#pragma once

#include "store/orders.h"
#include "store/sqlite/queues/outbox_base.h"

namespace deliverd::store::sqlite {

class SqliteOrdersOutbox final : public OutboxBase {
public:
    /// `file` outlives the outbox. Dead letters are of `lane`.
    SqliteOrdersOutbox(File& file, const OrdersOptions& options, std::string lane);

    Result<ClaimBatch> claim(const ClaimRequest& request) override;
    Result<std::int64_t> rescue(std::string_view worker_id, Duration stuck_for) override;

private:
    Result<bool> settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) override;
    Result<void> note_released(Handle& handle, std::string_view worker_id, std::span<const std::int64_t> ids) override;

    const OrdersOptions options_;
    const std::string lane_;
};

}  // namespace deliverd::store::sqlite
