#include "orders/order_json.h"

#include <boost/json.hpp>
#include <optional>
#include <string_view>

#include "base/canonical_json.h"
#include "base/json_text.h"
#include "base/text.h"

namespace deliverd::orders {

namespace {

using Text = std::optional<std::string>;

std::string time_text(WallTime time) {
    std::string text = rfc3339_millis(time);
    text.replace(text.size() - 1, 1, "+00:00");  // for the Z
    return text;
}

/// Members written twice and numbers no double holds are JSON as well, though they have no canonical form.
bool is_json(std::string_view text) {
    boost::json::parse_options options;
    options.max_depth = kMaxJsonDepth;
    boost::system::error_code error;
    boost::json::parse(boost::json::string_view(text.data(), text.size()), error, {}, options);
    return !error;
}

/// Writes the members of one object in the order they are told.
class ObjectText {
public:
    void text(std::string_view name, std::string_view value) {
        begin(name);
        append_json_string(out_, valid_utf8(value));
    }
    void text(std::string_view name, const Text& value) {
        if (value) {
            text(name, std::string_view(*value));
        } else {
            raw(name, "null");
        }
    }
    void number(std::string_view name, std::int64_t value) { raw(name, std::to_string(value)); }
    void time(std::string_view name, WallTime value) { text(name, std::string_view(time_text(value))); }

    /// JSON as it came; a string where it is none.
    void json(std::string_view name, const Text& value) {
        if (value && is_json(*value)) {
            raw(name, *value);
        } else {
            text(name, value);
        }
    }
    void raw(std::string_view name, std::string_view json) {
        begin(name);
        out_ += json;
    }

    [[nodiscard]] std::string done() {
        out_.push_back('}');
        return std::move(out_);
    }

private:
    void begin(std::string_view name) {
        out_.push_back(out_.empty() ? '{' : ',');
        append_json_string(out_, name);
        out_.push_back(':');
    }

    std::string out_;
};

void add_acceptance(ObjectText& object, const store::Order& order) {
    object.number("id", order.id);
    object.text("idempotency_key", std::string_view(order.idempotency_key));
    object.text("status", std::string_view(order.status));
    object.text("request_digest", std::string_view(order.request_digest));
    object.time("created_at", order.created_at);
}

void add_result(ObjectText& object, const store::Order& order) {
    object.text("broker_order_id", order.broker_order_id);
    object.text("result_digest", order.result_digest);
    object.json("result", order.result_json);
}

std::string audit_json(const store::AuditLine& line) {
    ObjectText object;
    object.time("at", line.at);
    object.text("reason", std::string_view(line.reason));
    object.text("status_from", line.status_from);
    object.text("status_to", line.status_to);
    if (line.retry_count) {
        object.number("retry_count", *line.retry_count);
    } else {
        object.raw("retry_count", "null");
    }
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
    ObjectText object;
    add_acceptance(object, order);
    const bool has_result = order.broker_order_id || order.result_digest || order.result_json;
    if (answer.kind == store::AcceptKind::known && has_result) add_result(object, order);
    if (answer.kind == store::AcceptKind::known && order.status == "dead") {
        object.text("last_error", order.last_error);
        object.raw("in_doubt", order.in_doubt ? "true" : "false");
    }
    return object.done();
}

std::string detail_json(const store::OrderDetail& detail) {
    const store::Order& order = detail.order;
    ObjectText object;
    add_acceptance(object, order);
    object.number("retry_count", order.retry_count);
    object.time("next_attempt_at", order.next_attempt_at);
    object.text("last_error", order.last_error);
    object.text("last_error_detail", order.last_error_detail);
    object.raw("in_doubt", order.in_doubt ? "true" : "false");
    add_result(object, order);
    object.text("trace_id", std::string_view(order.trace_id));
    object.json("request", order.request_json);
    object.time("updated_at", order.updated_at);
    std::string audit = "[";
    for (const store::AuditLine& line : detail.audit) {
        if (audit.size() > 1) audit.push_back(',');
        audit += audit_json(line);
    }
    object.raw("audit", audit + "]");
    return object.done();
}

std::string row_json(const store::Order& order) {
    ObjectText object;
    object.number("id", order.id);
    object.text("idempotency_key", std::string_view(order.idempotency_key));
    object.json("request_json", order.request_json);
    object.text("request_digest", std::string_view(order.request_digest));
    object.text("status", std::string_view(order.status));
    object.number("retry_count", order.retry_count);
    object.time("next_attempt_at", order.next_attempt_at);
    object.text("last_error", order.last_error);
    object.text("last_error_detail", order.last_error_detail);
    object.raw("in_doubt", order.in_doubt ? "true" : "false");
    object.text("trace_id", std::string_view(order.trace_id));
    object.text("broker_order_id", order.broker_order_id);
    object.time("created_at", order.created_at);
    object.time("updated_at", order.updated_at);
    return object.done();
}

}  // namespace deliverd::orders
