// What a posted order must look like. Pure: no database, no clock.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
    std::string json;    // as posted, byte for byte; with a `trace_id` added where there was none
    std::string digest;  // "sha256:…" of the canonical form without idempotency_key and trace_id
    std::string trace_id;
};

struct Reading {
    std::optional<OrderRequest> order;
    Refusal refusal;  // when there is no order
};

/// `header_key`: the Idempotency-Key header; empty when absent. Checked in this order: header there; body is JSON (one
/// object, UTF-8, no duplicate keys, not too deep, numbers a double can hold); body key equals the header; every field,
/// all wrong ones told at once. `random` makes a trace id where none was given.
[[nodiscard]] Reading read_order(std::string_view header_key, std::string_view body, Random& random);

}  // namespace deliverd::orders
