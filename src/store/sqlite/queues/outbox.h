// The memory outbox on SQLite.
#pragma once

#include "store/sqlite/queues/outbox_base.h"

namespace deliverd::store::sqlite {

class SqliteOutbox final : public OutboxBase {
public:
    /// `file` outlives the outbox. Dead letters are of `lane`.
    SqliteOutbox(File& file, std::string lane);

    Result<ClaimBatch> claim(const ClaimRequest& request) override;

private:
    Result<bool> settle_row(Handle& handle, std::string_view worker_id, const Settlement& settlement) override;

    const std::string lane_;
};

}  // namespace deliverd::store::sqlite
