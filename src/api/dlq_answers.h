// The answers that the routes of dead letters share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/api.h"
#include "base/log.h"
#include "deliverd/result.h"
#include "http/server.h"

namespace deliverd::api {

[[nodiscard]] http::Response dlq_validation_error(std::string_view message, std::string_view request_id,
                                                  const std::vector<Detail>& details = {});
[[nodiscard]] http::Response dlq_not_found(std::string_view id, std::string_view request_id);
[[nodiscard]] http::Response dlq_conflict(std::string_view message, std::string_view request_id);
[[nodiscard]] http::Response dlq_internal_error(std::string_view message, std::string_view request_id);
/// 503 with Retry-After.
[[nodiscard]] http::Response dlq_try_later(std::string_view message, std::string_view request_id);

/// 503 while the database is away, 500 for a permanent refusal. The database's own message goes to the log only: it may
/// name hosts and users. `changes`: the request may have changed something before it failed.
[[nodiscard]] http::Response dlq_store_failure(const Error& error, bool changes, std::string_view request_id, Log& log);

}  // namespace deliverd::api
