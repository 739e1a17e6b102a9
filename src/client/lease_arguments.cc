#include "client/lease_arguments.h"

#include <string>

#include "base/text.h"
#include "base/try.h"
#include "client/sql_values.h"

namespace deliverd::client {

Result<void> check_text(std::string_view name, std::string_view text) {
    if (const auto at = text.find('\0'); at != std::string_view::npos) {
        return bad_argument(std::string(name) + " has a NUL byte at offset " + std::to_string(at) +
                            ", which text in a database cannot hold: encode it, for example as base64");
    }
    if (const auto at = find_invalid_utf8(text)) {
        return bad_argument(std::string(name) + " is not valid UTF-8 at offset " + std::to_string(*at) +
                            ": convert it, or encode it, for example as base64");
    }
    return {};
}

Result<void> check_worker(std::string_view worker_id) {
    if (worker_id.empty()) return bad_argument("worker_id is empty: every worker needs a name of its own");
    return check_text("worker_id", worker_id);
}

Result<void> check_limit(std::int32_t limit) {
    if (limit >= 1) return {};
    return bad_argument("limit is " + std::to_string(limit) + ": at least 1 row must be asked for");
}

Result<void> check_claim(std::string_view worker_id, std::int32_t limit, double lease_seconds) {
    TRY(check_worker(worker_id));
    TRY(check_limit(limit));
    if (!(lease_seconds >= 0 && lease_seconds <= kMaxLeaseSeconds)) {  // so written that NaN is refused too
        return bad_argument("lease_seconds is " + decimal(lease_seconds) +
                            ": between 0 and 1000000000 seconds are possible");
    }
    return {};
}

Result<void> check_memory(std::string_view target_space, std::string_view payload_md, std::int64_t max_payload_bytes) {
    if (target_space.empty()) return bad_argument("target_space is empty: name the space the payload goes to");
    TRY(check_text("target_space", target_space));
    if (static_cast<std::int64_t>(payload_md.size()) > max_payload_bytes) {
        return bad_argument("payload_md has " + std::to_string(payload_md.size()) + " bytes, more than the " +
                            std::to_string(max_payload_bytes) + " allowed: shorten it or raise max_payload_bytes");
    }
    return check_text("payload_md", payload_md);
}

Result<void> check_settle(std::string_view worker_id, std::string_view name, std::string_view text) {
    TRY(check_worker(worker_id));
    return check_text(name, text);
}

Result<void> check_time(std::string_view name, std::string_view time) {
    if (parse_rfc3339(time)) return {};
    return bad_argument(std::string(name) + " is not a time as in RFC 3339: write it like 2026-02-20T10:30:00Z");
}

}  // namespace deliverd::client
