#include "api/dlq_answers.h"

#include <fmt/format.h>

#include "deliverd/error_codes.h"

namespace deliverd::api {

http::Response dlq_refusal(int status, std::string_view message, std::string_view request_id,
                           const std::vector<Detail>& details) {
    // An outage has the code of a fault: existing clients know no other code for it.
    const std::string_view code = status == 400   ? "SYS_DLQ_VALIDATION_ERROR"
                                  : status == 404 ? "SYS_DLQ_NOT_FOUND"
                                  : status == 409 ? "SYS_DLQ_CONFLICT"
                                                  : "SYS_DLQ_INTERNAL_ERROR";
    if (status == 503) return try_later(code, message, request_id);
    return error_response(status, code, message, request_id, details);
}

http::Response dlq_not_found(std::string_view id, std::string_view request_id) {
    return dlq_refusal(404, fmt::format("dlq message not found: {}", id), request_id);
}

http::Response dlq_store_failure(const Error& error, bool changes, std::string_view request_id, Log& log) {
    switch (error.error_class) {
        case ErrorClass::retryable: {
            const bool slow = error.code == codes::kDbTimeout;
            if (slow) {
                log.warn("dead letters: the database took too long",
                         {{"request_id", request_id}, {"error", error.message}});
            }
            const std::string_view what = slow ? "the database took too long" : "the database is out of reach";
            const std::string_view next = changes ? "; nothing was changed, ask again"
                                          : slow  ? ": ask for less (a topic, a time range)"
                                                  : "; ask again";
            return dlq_refusal(503, fmt::format("{}{}", what, next), request_id);
        }
        case ErrorClass::ambiguous:
            return dlq_refusal(
                503, "the database went away during the commit; it may have been done: check before you ask again",
                request_id);
        case ErrorClass::permanent:
            break;
    }
    log.error("dead letters: the database refused a request",
              {{"request_id", request_id}, {"code", error.code}, {"error", error.message}});
    return dlq_refusal(500, "the database refused the request; the log has the cause under this request id",
                       request_id);
}

}  // namespace deliverd::api
