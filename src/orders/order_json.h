// Orders as JSON, the same for the API and the command line.
//
// A result is stored as text because it is only ever given back: as `jsonb` its numbers would change and its digest
// would no longer match, and the body of a 409 need not be JSON at all.
#pragma once

#include <string>

#include "store/orders.h"

namespace deliverd::orders {

/// The body of an acceptance: id, idempotency_key, status, request_digest, created_at. An order that was known adds
/// broker_order_id, result_digest and result once there is a result, and last_error and in_doubt if it is dead.
[[nodiscard]] std::string acceptance_json(const store::AcceptAnswer& answer);

/// The body of GET /api/v1/orders/{key}: the acceptance's fields, then retry_count, next_attempt_at, last_error,
/// last_error_detail, in_doubt, broker_order_id, result_digest, result, trace_id, request, updated_at and audit (oldest
/// first). `result` and `request` are the JSON texts, byte for byte; a result that is not JSON is shown as a string.
/// Times: 2026-02-20T10:30:00.000+00:00.
[[nodiscard]] std::string detail_json(const store::OrderDetail& detail);

/// One object with the table's column names, for listings.
[[nodiscard]] std::string row_json(const store::Order& order);

}  // namespace deliverd::orders
