// The statements on outbox_orders, idempo_ledger and outbox_audit: one a batch.
#pragma once

#include <string_view>

#include "store/postgres/queues/batch_outbox.h"

namespace deliverd::store::postgres {

/// Column numbers of the claim statements' answers.
enum OrderClaimColumn {
    kOrderClaimId,
    kOrderClaimKey,
    kOrderClaimRequest,
    kOrderClaimTrace,
    kOrderClaimRetryCount,
    kOrderClaimCreatedAt,
    kOrderClaimDueAt,
    kOrderClaimNow,
};

/// settle takes worker, ids, kinds (SettleKind), failures before, delays in seconds, reasons, codes, details, broker
/// order ids, result digests, results, and the ledger's time to live in seconds.
struct OrdersOutboxStatements : BatchStatements {
    explicit OrdersOutboxStatements(std::string_view schema);

    Statement requeue;      // worker, limit
    Statement claim;        // worker, limit
    Statement claim_after;  // … and the position: due time, id
    Statement rescue;       // worker, stuck for so many seconds; answers the ids
};

/// Column numbers of an order with its ledger, or of one from a list, which ends before the ledger's.
enum OrderColumn {
    kOrderId,
    kOrderKey,
    kOrderRequest,
    kOrderDigest,
    kOrderTrace,
    kOrderStatus,
    kOrderRetryCount,
    kOrderDueAt,
    kOrderLastError,
    kOrderLastErrorDetail,
    kOrderInDoubt,
    kOrderBrokerId,
    kOrderCreatedAt,
    kOrderUpdatedAt,
    kOrderResultDigest,
    kOrderResult,
};

/// Column numbers of what accept() stored.
enum FreshColumn { kFreshId, kFreshKey, kFreshCreatedAt, kFreshUpdatedAt };

/// Column numbers of an audit line.
enum AuditColumn {
    kAuditAt,
    kAuditReason,
    kAuditFrom,
    kAuditTo,
    kAuditRetryCount,
    kAuditLastError,
    kAuditDetail,
    kAuditBrokerId,
    kAuditWorker,
    kAuditActor,
};

struct OrdersStatements {
    explicit OrdersStatements(std::string_view schema);

    Statement accept;     // keys (sorted, each once), requests, digests, traces, actors, the ledger's seconds
    Statement find;       // keys; answers the orders that are there, with their ledger
    Statement audit;      // key, limit; the newest lines, newest first
    Statement list;       // status or null, below this id or null, limit
    Statement list_dead;  // the same by its index: they are few, and would be far between
};

}  // namespace deliverd::store::postgres
