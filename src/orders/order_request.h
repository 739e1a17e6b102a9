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

/// One wrong field. `field` is a path for people: "qty", "meta".
struct FieldProblem {
    std::string field;
    std::string message;
};

/// Why an order was refused, in the words of the API: SPEC A's status and `error.code`.
struct Refusal {
    int status = 422;
    std::string code;     // IDEMPOTENCY_KEY_REQUIRED | BAD_JSON | IDEMPOTENCY_MISMATCH | VALIDATION_ERROR
    std::string message;  // what is wrong, where, what to do
    std::vector<FieldProblem> details{};
};

/// An order as it will be stored and sent.
struct OrderRequest {
    std::string idempotency_key;
    std::string
        json;  // as posted, byte for byte, without space around it; with a `trace_id` added where there was none
    /// "sha256:…" of the canonical form (RFC 8785) without idempotency_key and trace_id. That form knows numbers as
    /// doubles: 1, 1.0 and 1e0 are one number to it, and so are 9007199254740992 and 9007199254740993. A null and an
    /// absent field differ.
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
/// Longer spellings of a number, and exponents beyond 9999, do not fit the databases' own numbers.
inline constexpr std::size_t kMaxNumberChars = 1000;
/// So many unknown fields are named one by one, the rest by their count.
inline constexpr std::size_t kMaxUnknownFieldsNamed = 20;

/// `header_key`: the Idempotency-Key header; empty when absent. Checked in this order: header there; body is JSON (one
/// object, UTF-8, no duplicate keys, not too deep, numbers inside `meta` that a double can hold); body key equals the
/// header; every field, all wrong ones told at once. `now` and `random` make a trace id where none was given.
[[nodiscard]] Reading read_order(std::string_view header_key, std::string_view body, WallTime now, Random& random);

}  // namespace deliverd::orders
