#include "orders/order_json.h"

#include <optional>
#include <string_view>

#include "base/json_object.h"
#include "base/json_reader.h"

namespace deliverd::orders {

namespace {

using Text = std::optional<std::string>;

/// JSON byte for byte; a string if it is not JSON.
void add_json(JsonObject& object, std::string_view name, const Text& value) {
    // As JSON even if it has no canonical form: as a string, readers would have to parse it a second time.
    if (value && is_json(*value)) {
        object.raw(name, *value);
    } else {
        object.text(name, value);
    }
}

void add_acceptance(JsonObject& object, const store::Order& order) {
    object.number("id", order.id);
    object.text("idempotency_key", order.idempotency_key);
    object.text("status", order.status);
    object.text("request_digest", order.request_digest);
    object.time("created_at", order.created_at);
}

void add_attempts(JsonObject& object, const store::Order& order) {
    object.number("retry_count", order.retry_count);
    object.time("next_attempt_at", order.next_attempt_at);
    object.text("last_error", order.last_error);
    object.text("last_error_detail", order.last_error_detail);
    object.boolean("in_doubt", order.in_doubt);
}

void add_result(JsonObject& object, const store::Order& order) {
    object.text("broker_order_id", order.broker_order_id);
    object.text("result_digest", order.result_digest);
    add_json(object, "result", order.result_json);
}

std::string audit_json(const store::AuditLine& line) {
    JsonObject object;
    object.time("at", line.at);
    object.text("reason", line.reason);
    object.text("status_from", line.status_from);
    object.text("status_to", line.status_to);
    object.number("retry_count", line.retry_count);
    object.text("last_error", line.last_error);
    object.text("detail", line.detail);
    object.text("broker_order_id", line.broker_order_id);
    object.text("worker", line.worker);
    object.text("actor", line.actor);
    return object.done();
}

}  // namespace

std::string acceptance_json(const store::AcceptAnswer& answer) {
    const store::Order& order = answer.order;
    JsonObject object;
    add_acceptance(object, order);
    const bool has_result = order.broker_order_id || order.result_digest || order.result_json;
    if (answer.kind == store::AcceptKind::known && has_result) add_result(object, order);
    // Whoever posts a dead order again wants to know whether the broker may have it after all.
    if (answer.kind == store::AcceptKind::known && order.status == "dead") {
        object.text("last_error", order.last_error);
        object.boolean("in_doubt", order.in_doubt);
    }
    return object.done();
}

std::string detail_json(const store::OrderDetail& detail) {
    const store::Order& order = detail.order;
    JsonObject object;
    add_acceptance(object, order);
    add_attempts(object, order);
    add_result(object, order);
    object.text("trace_id", order.trace_id);
    add_json(object, "request", order.request_json);
    object.time("updated_at", order.updated_at);
    JsonArray audit;
    for (const store::AuditLine& line : detail.audit) audit.raw(audit_json(line));
    object.raw("audit", audit.done());
    return object.done();
}

std::string row_json(const store::Order& order) {
    JsonObject object;
    object.number("id", order.id);
    object.text("idempotency_key", order.idempotency_key);
    add_json(object, "request_json", order.request_json);
    object.text("request_digest", order.request_digest);
    object.text("status", order.status);
    add_attempts(object, order);
    object.text("trace_id", order.trace_id);
    object.text("broker_order_id", order.broker_order_id);
    object.time("created_at", order.created_at);
    object.time("updated_at", order.updated_at);
    return object.done();
}

}  // namespace deliverd::orders
