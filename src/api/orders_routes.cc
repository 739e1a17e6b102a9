#include "api/orders_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/random.h"
#include "base/text.h"
#include "orders/order_json.h"
#include "orders/order_request.h"

namespace deliverd::api {

namespace {

constexpr std::string_view kOrdersPath = "/api/v1/orders";
constexpr std::string_view kKeyHeader = "Idempotency-Key";
constexpr std::size_t kMaxShownKeyBytes = 256;

std::string shown_key(std::string_view text) {
    return shorten(one_line(text), kMaxShownKeyBytes);
}

http::Response internal_error(const Error& error, std::string_view request_id, Log& log) {
    return database_refused("INTERNAL_ERROR", "orders: the database refused a request", error, request_id, log);
}

http::Response not_stored(const Error& error, std::string_view request_id, Log& log) {
    if (error.code == codes::kOverloaded) return try_later("OVERLOADED", error.message, request_id);
    // The caller's next step is always to post again. Only whether something may have been stored differs.
    switch (error.error_class) {
        case ErrorClass::retryable:
            return try_later("DATABASE_UNAVAILABLE",
                             "the database cannot store orders at the moment; nothing was stored, post the order again",
                             request_id);
        case ErrorClass::ambiguous:
            return try_later("OUTCOME_UNKNOWN",
                             "the connection to the database was lost during the commit; the order may have been "
                             "stored: post it again with the same key, it is stored only once",
                             request_id);
        case ErrorClass::permanent:
            break;
    }
    return internal_error(error, request_id, log);
}

http::Response conflict(const store::Order& stored, std::string_view digest, std::string_view request_id) {
    return error_response(409, "IDEMPOTENCY_CONFLICT",
                          fmt::format("the key '{}' belongs to another order; a new order needs a new key",
                                      shown_key(stored.idempotency_key)),
                          request_id,
                          {{"idempotency_key", fmt::format("its order has request_digest {}, this one {}",
                                                           stored.request_digest, digest)}});
}

http::Response accepted(const Result<store::AcceptAnswer>& answer, std::string_view digest, std::string_view request_id,
                        Log& log) {
    if (!answer) return not_stored(answer.error(), request_id, log);
    if (answer->kind == store::AcceptKind::conflict) return conflict(answer->order, digest, request_id);
    http::Response response = json_response(orders::acceptance_json(*answer));
    if (answer->kind == store::AcceptKind::fresh) {
        // Only the first post creates it. The same order again is 200, so that a caller can tell.
        response.status = 201;
        response.headers.emplace_back("Location",
                                      fmt::format("{}/{}", kOrdersPath, url_encoded(answer->order.idempotency_key)));
    }
    return response;
}

http::Response refused(const orders::Refusal& refusal, std::string_view request_id) {
    std::vector<Detail> details;
    for (const auto& problem : refusal.details) details.push_back({problem.field, problem.message});
    return error_response(refusal.status, refusal.code, refusal.message, request_id, details);
}

bool has_two_keys(const http::Request& request) {
    const std::string_view first = request.header(kKeyHeader);
    return std::ranges::any_of(request.headers, [first](const auto& header) {
        return equal_ignoring_case(header.first, kKeyHeader) && header.second != first;
    });
}

void post_order(orders::Intake& intake, Random& random, Log& log, const Call& call, const http::Reply& reply) {
    // Whoever logs or routes by the other value would know this order under a name that we do not.
    if (has_two_keys(call.request)) {
        return reply(error_response(422, "IDEMPOTENCY_MISMATCH",
                                    "the header Idempotency-Key was sent twice with different values", call.request_id,
                                    {{"idempotency_key", "must equal the header Idempotency-Key"}}));
    }
    auto reading =
        orders::read_order(call.request.header(kKeyHeader), call.request.body, SystemClock().wall_now(), random);
    if (!reading.order) return reply(refused(reading.refusal, call.request_id));
    orders::OrderRequest& order = *reading.order;
    store::NewOrder row{std::move(order.idempotency_key), std::move(order.json), order.digest,
                        std::move(order.trace_id), call.caller.name};
    // The reply is kept by the intake: no handler thread waits for the commit, so that orders are stored in groups.
    intake.submit(std::move(row),
                  [reply, &log, id = call.request_id, digest = std::move(order.digest)](
                      const Result<store::AcceptAnswer>& answer) { reply(accepted(answer, digest, id, log)); });
}

http::Response get_order(store::Orders& orders, Log& log, const Call& call) {
    const std::string& key = call.path_values.front();
    const auto found = orders.find(key);
    if (!found && found.error().error_class == ErrorClass::permanent) {
        return internal_error(found.error(), call.request_id, log);
    }
    if (!found) return try_later("DATABASE_UNAVAILABLE", "the database is out of reach; ask again", call.request_id);
    if (!*found) {
        return error_response(404, "ORDER_NOT_FOUND",
                              fmt::format("there is no order with the key '{}'", shown_key(key)), call.request_id);
    }
    return json_response(orders::detail_json(**found));
}

}  // namespace

std::vector<Route> orders_routes(orders::Intake& intake, store::Orders& orders, Log& log) {
    // Shared: handlers run on several threads at once.
    const auto post = [&intake, &log, random = std::make_shared<SystemRandom>()](const Call& call,
                                                                                 const http::Reply& reply) {
        post_order(intake, *random, log, call, reply);
    };
    const auto get = [&orders, &log](const Call& call) { return get_order(orders, log, call); };
    return {{"POST", std::string(kOrdersPath), Role::operator_, {}, post},
            {"GET", fmt::format("{}/{{key}}", kOrdersPath), Role::viewer, get}};
}

}  // namespace deliverd::api
