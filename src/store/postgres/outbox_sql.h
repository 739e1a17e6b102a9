// The lane's statements on outbox_memory and outbox_audit: one a batch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "store/postgres/connection.h"

namespace deliverd::store::postgres {

/// `name` as SQL takes it whatever it contains.
[[nodiscard]] std::string quoted(std::string_view name);

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

/// 1970, on the scale of kClaimDueAt: ages are counted from here where a row says it was due earlier, or since ever
/// (-infinity).
inline constexpr std::int64_t kEarliestDueMicros = -946'684'800'000'000;

struct OutboxStatements {
    explicit OutboxStatements(std::string_view schema);

    /// A claim that a crash forgets is only a lease that runs out: its commit need not reach the disk.
    Statement relax_commit;
    Statement claim;        // worker, limit, lease seconds
    Statement claim_after;  // … and the position: due time, id
    Statement settle;       // worker, ids, kinds (SettleKind), notes, delays in seconds, failures before
    Statement row_states;   // ids
    Statement renew;        // worker, ids; answers id, renewed (else lost)
    Statement release;      // worker, ids
    Statement audit;        // worker, ids, reasons, details, counts
    Statement lag;
    Statement counts;
    Statement remove;  // space, first id, last id
    Statement ping;
};

}  // namespace deliverd::store::postgres
