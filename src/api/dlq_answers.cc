#include "api/dlq_answers.h"

#include <fmt/format.h>

#include "deliverd/error_codes.h"

namespace deliverd::api {

namespace {

constexpr std::string_view kInternalError = "SYS_DLQ_INTERNAL_ERROR";
constexpr std::string_view kRetryAfterSeconds = "1";

}  // namespace

http::Response dlq_validation_error(std::string_view message, std::string_view request_id,
                                    const std::vector<Detail>& details) {
    return error_response(400, "SYS_DLQ_VALIDATION_ERROR", message, request_id, details);
}

http::Response dlq_not_found(std::string_view id, std::string_view request_id) {
    return error_response(404, "SYS_DLQ_NOT_FOUND", fmt::format("dlq message not found: {}", id), request_id);
}

http::Response dlq_conflict(std::string_view message, std::string_view request_id) {
    return error_response(409, "SYS_DLQ_CONFLICT", message, request_id);
}

http::Response dlq_internal_error(std::string_view message, std::string_view request_id) {
    return error_response(500, kInternalError, message, request_id);
}

http::Response dlq_try_later(std::string_view message, std::string_view request_id) {
    auto response = error_response(503, kInternalError, message, request_id);
    response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
    return response;
}

http::Response dlq_store_failure(const Error& error, bool changes, std::string_view request_id, Log& log) {
    if (error.error_class == ErrorClass::retryable && error.code == codes::kDbTimeout) {
        log.warn("dead letters: the database took too long", {{"request_id", request_id}, {"error", error.message}});
        return dlq_try_later(changes ? "the database took too long; nothing was changed, ask again"
                                     : "the database took too long: ask for less (a topic, a time range)",
                             request_id);
    }
    if (error.error_class == ErrorClass::retryable) {
        return dlq_try_later(changes ? "the database is out of reach; nothing was changed, ask again"
                                     : "the database is out of reach; ask again",
                             request_id);
    }
    if (error.error_class == ErrorClass::ambiguous) {
        return dlq_try_later(
            "the database went away during the commit; it may have been done: check before you ask again", request_id);
    }
    log.error("dead letters: the database refused a request",
              {{"request_id", request_id}, {"code", error.code}, {"error", error.message}});
    return dlq_internal_error("the database refused the request; the log has the cause under this request id",
                              request_id);
}

}  // namespace deliverd::api
