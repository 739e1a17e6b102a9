// What a posted order must look like. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/random.h"

namespace deliverd::orders {

/// One invalid field: "qty", "meta".
struct FieldProblem {
    std::string field;
    std::string message;
};

/// Why an order was refused: the API's status and error.
struct Refusal {
    int status = 422;
    std::string code;     // IDEMPOTENCY_KEY_REQUIRED | BAD_JSON | IDEMPOTENCY_MISMATCH | VALIDATION_ERROR
    std::string message;  // what is wrong, where, what to do
    std::vector<FieldProblem> details{};
};

/// An order as it will be stored and sent.
struct OrderRequest {
    std::string idempotency_key;
    /// As posted, byte for byte, without space around it; with a `trace_id` added if there was none.
    std::string json;
    /// "sha256:…" of the canonical form (RFC 8785) without idempotency_key and trace_id. In that form numbers are
    /// doubles: 1, 1.0 and 1e0 are equal, and so are 9007199254740992 and 9007199254740993. A null differs from an
    /// absent field.
    std::string digest;
    std::string trace_id;
};

struct Reading {
    std::optional<OrderRequest> order;
    Refusal refusal;  // when there is no order
};

inline constexpr std::size_t kMinKeyChars = 8;
inline constexpr std::size_t kMaxKeyChars = 64;
inline constexpr std::size_t kMaxTraceIdChars = 128;
/// The databases cannot store numbers with more characters, or with an exponent beyond 9999.
inline constexpr std::size_t kMaxNumberChars = 1000;
/// At most this many unknown fields are named; the rest is counted.
inline constexpr std::size_t kMaxUnknownFieldsNamed = 20;

/// `header_key`: the Idempotency-Key header; empty when absent. Checks in this order: the header is there; the body is
/// one JSON object (UTF-8, no duplicate keys, at most kMaxJsonDepth levels, numbers inside `meta` that a double can
/// hold); its key equals the header; every field, reporting all invalid ones at once. `now` and `random` make a trace
/// id if none was given.
[[nodiscard]] Reading read_order(std::string_view header_key, std::string_view body, WallTime now, Random& random);

}  // namespace deliverd::orders
