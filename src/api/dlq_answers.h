// The refusals that the routes of dead letters share.
#pragma once

#include <string_view>
#include <vector>

#include "api/api.h"
#include "base/log.h"
#include "deliverd/result.h"

namespace deliverd::api {

/// 400, 404, 409, 500 or 503, each with its code of the SYS_DLQ family; 503 with Retry-After.
[[nodiscard]] http::Response dlq_refusal(int status, std::string_view message, std::string_view request_id,
                                         const std::vector<Detail>& details = {});

[[nodiscard]] http::Response dlq_not_found(std::string_view id, std::string_view request_id);

/// 503 while the database is away, 500 for a permanent refusal. The database's own message goes to the log only: it may
/// name hosts and users. `changes`: the request may have changed something before it failed.
[[nodiscard]] http::Response dlq_store_failure(const Error& error, bool changes, std::string_view request_id, Log& log);

}  // namespace deliverd::api
