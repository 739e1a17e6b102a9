#include "store/sqlite/queues/orders.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "base/failpoint.h"
#include "base/text.h"
#include "client/lease_arguments.h"
#include "client/sqlite_rows.h"
#include "store/sqlite/file/time_modifier.h"
#include "store/sqlite/queues/orders_sql.h"

namespace deliverd::store::sqlite {
namespace {

/// A time that someone wrote by hand and nobody can read is shown as the beginning of time.
WallTime order_time_at(const SqliteStatement& row, int column) {
    return parse_rfc3339(row.text(column)).value_or(WallTime{});
}

Order order_at(const SqliteStatement& row) {
    Order order;
    order.id = row.integer(0);
    order.idempotency_key = row.text(1);
    order.request_json = row.text(2);
    order.request_digest = row.text(3);
    order.trace_id = row.text(4);
    order.status = row.text(5);
    order.retry_count = static_cast<std::int32_t>(row.integer(6));
    order.next_attempt_at = order_time_at(row, 7);
    order.last_error = row.optional_text(8);
    order.last_error_detail = row.optional_text(9);
    order.in_doubt = row.integer(10) != 0;
    order.broker_order_id = row.optional_text(11);
    order.created_at = order_time_at(row, 12);
    order.updated_at = order_time_at(row, 13);
    return order;
}

Result<std::optional<Order>> find_order(Handle& handle, std::string_view idempotency_key) {
    auto statement = handle.prepared(orders_sql::kFind);
    if (!statement) return Failure(std::move(statement.error()));
    SqliteStatement& row = **statement;
    auto found = row.bind(1, idempotency_key).step();
    if (!found) return Failure(std::move(found.error()));
    if (!*found) return std::nullopt;
    Order order = order_at(row);
    order.result_digest = row.optional_text(14);
    order.result_json = row.optional_text(15);
    row.reset();
    return order;
}

AuditLine audit_line_at(const SqliteStatement& row) {
    AuditLine line;
    line.at = order_time_at(row, 0);
    line.reason = row.text(1);
    line.status_from = row.optional_text(2);
    line.status_to = row.optional_text(3);
    if (!row.is_null(4)) line.retry_count = static_cast<std::int32_t>(row.integer(4));
    line.last_error = row.optional_text(5);
    line.detail = row.optional_text(6);
    line.broker_order_id = row.optional_text(7);
    line.worker = row.optional_text(8);
    line.actor = row.optional_text(9);
    return line;
}

Result<std::vector<AuditLine>> trail(Handle& handle, std::int64_t order_id) {
    auto statement = handle.prepared(orders_sql::kTrail);
    if (!statement) return Failure(std::move(statement.error()));
    (*statement)->bind(1, order_id).bind(2, std::int64_t{kMaxAuditLines});
    std::vector<AuditLine> lines;
    auto read = each_row(**statement, [&](const SqliteStatement& row) { lines.push_back(audit_line_at(row)); });
    if (!read) return Failure(std::move(read.error()));
    std::reverse(lines.begin(), lines.end());
    return lines;
}

Result<void> check_order(const NewOrder& order) {
    if (order.idempotency_key.empty()) {
        return permanent("bad_argument", "idempotency_key is empty: every order needs a key of its own");
    }
    if (auto ok = client::check_text("idempotency_key", order.idempotency_key); !ok) return ok;
    if (auto ok = client::check_text("request_json", order.request_json); !ok) return ok;
    if (auto ok = client::check_text("request_digest", order.request_digest); !ok) return ok;
    if (auto ok = client::check_text("trace_id", order.trace_id); !ok) return ok;
    return client::check_text("actor", order.actor);
}

/// The order as stored now; none when its key is known.
Result<std::optional<Order>> insert_order(Handle& handle, const NewOrder& fresh) {
    auto statement = handle.prepared(orders_sql::kAccept);
    if (!statement) return Failure(std::move(statement.error()));
    SqliteStatement& row = **statement;
    row.bind(1, std::string_view(fresh.idempotency_key)).bind(2, std::string_view(fresh.request_json));
    row.bind(3, std::string_view(fresh.request_digest)).bind(4, std::string_view(fresh.trace_id));
    auto inserted = row.step();
    if (!inserted) return Failure(std::move(inserted.error()));
    if (!*inserted) return std::nullopt;
    Order order;
    order.id = row.integer(0);
    order.idempotency_key = fresh.idempotency_key;
    order.request_digest = fresh.request_digest;
    order.trace_id = fresh.trace_id;
    order.status = row.text(1);
    order.created_at = order_time_at(row, 2);
    order.updated_at = order_time_at(row, 3);
    row.reset();
    return order;
}

}  // namespace

Result<void> write_ledger(Handle& handle, std::int64_t order_id, Duration ttl,
                          const std::optional<std::string>& result_digest,
                          const std::optional<std::string>& result_json) {
    auto statement = handle.prepared(orders_sql::kLedger);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string until = time_ahead(to_seconds(ttl));
    (*statement)->bind(1, order_id).bind(2, std::string_view(until)).bind(3, result_digest).bind(4, result_json);
    return (*statement)->run();
}

Result<void> audit_orders(Handle& handle, std::span<const std::int64_t> ids, const OrderStep& step) {
    if (ids.empty()) return {};
    auto statement = handle.prepared(orders_sql::kAuditRows);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string list = client::json_ids(ids);
    (*statement)->bind(1, std::string_view(list)).bind(2, step.reason).bind(3, step.status_from);
    (*statement)->bind(4, step.worker).bind(5, step.actor);
    return (*statement)->run();
}

Result<AcceptAnswer> SqliteOrders::accept_one(Handle& handle, const NewOrder& order) const {
    auto stored = insert_order(handle, order);
    if (!stored) return Failure(std::move(stored.error()));
    if (*stored) {
        const std::int64_t id = (*stored)->id;
        auto kept = write_ledger(handle, id, options_.ledger_ttl, std::nullopt, std::nullopt);
        if (!kept) return Failure(std::move(kept.error()));
        const OrderStep accepted{"order_accepted", std::nullopt, std::nullopt, order.actor};
        auto noted = audit_orders(handle, std::span(&id, 1), accepted);
        if (!noted) return Failure(std::move(noted.error()));
        return AcceptAnswer{AcceptKind::fresh, std::move(**stored)};
    }
    auto known = find_order(handle, order.idempotency_key);
    if (!known) return Failure(std::move(known.error()));
    if (!*known) return permanent("db_error", "the table outbox_orders refuses a key it does not have");
    const bool same = (*known)->request_digest == order.request_digest;
    return AcceptAnswer{same ? AcceptKind::known : AcceptKind::conflict, std::move(**known)};
}

Result<std::vector<AcceptAnswer>> SqliteOrders::accept(std::span<const NewOrder> orders) {
    using Answers = std::vector<AcceptAnswer>;
    for (const NewOrder& order : orders) {
        if (auto ok = check_order(order); !ok) return Failure(std::move(ok.error()));
    }
    if (orders.empty()) return Answers{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Answers> {
        Answers answers;
        answers.reserve(orders.size());
        for (const NewOrder& order : orders) {
            auto answer = accept_one(handle, order);
            if (!answer) return Failure(std::move(answer.error()));
            answers.push_back(std::move(*answer));
        }
        failpoint("store.during_accept");
        return answers;
    });
}

Result<std::optional<OrderDetail>> SqliteOrders::find(std::string_view idempotency_key) {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto moment = Transaction::begin_reading(**handle);
    if (!moment) return Failure(std::move(moment.error()));
    auto order = find_order(**handle, idempotency_key);
    if (!order) return Failure(std::move(order.error()));
    if (!*order) return std::nullopt;
    auto lines = trail(**handle, (*order)->id);
    if (!lines) return Failure(std::move(lines.error()));
    return OrderDetail{std::move(**order), std::move(*lines)};
}

Result<std::vector<Order>> SqliteOrders::list(const OrderQuery& query) {
    if (query.limit < 1) {
        return permanent("bad_argument",
                         "limit is " + std::to_string(query.limit) + ": at least 1 row must be asked for");
    }
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto statement = (*handle)->prepared(query.status == "dead" ? orders_sql::kListDead : orders_sql::kList);
    if (!statement) return Failure(std::move(statement.error()));
    (*statement)->bind(1, query.status);
    (*statement)->bind(2, query.below_id.value_or(std::numeric_limits<std::int64_t>::max()));
    (*statement)->bind(3, std::int64_t{query.limit});
    std::vector<Order> orders;
    auto read = each_row(**statement, [&](const SqliteStatement& row) { orders.push_back(order_at(row)); });
    if (!read) return Failure(std::move(read.error()));
    return orders;
}

}  // namespace deliverd::store::sqlite
