// The lane's statements on outbox_memory and outbox_audit: one a batch.
#pragma once

#include <string_view>

#include "store/postgres/queues/batch_outbox.h"

namespace deliverd::store::postgres {

/// Column numbers of the claim statements' answers.
enum ClaimColumn {
    kClaimId,
    kClaimItemId,
    kClaimSpace,
    kClaimPayload,
    kClaimSha,
    kClaimRetryCount,
    kClaimDueAt,  // microseconds since 2000, as are times in PostgreSQL's binary format
    kClaimNow,
    kClaimDuplicateOf,
    kClaimDuplicateReceipt,
};

/// settle takes worker, ids, kinds (SettleKind), notes, delays in seconds, failures before.
struct OutboxStatements : BatchStatements {
    explicit OutboxStatements(std::string_view schema);

    Statement claim;        // worker, limit, lease seconds
    Statement claim_after;  // … and the position: due time, id
    Statement remove;       // space, first id, last id
};

}  // namespace deliverd::store::postgres
