#include "store/postgres/queues/orders.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "store/postgres/connection/cells.h"

namespace deliverd::store::postgres {
namespace {

using ByKey = std::map<std::string, Order, std::less<>>;

Order order_at(const PGresult* result, int row) {
    Order order;
    order.id = int64_at(result, row, kOrderId);
    order.idempotency_key = text_at(result, row, kOrderKey);
    order.request_json = text_at(result, row, kOrderRequest);
    order.request_digest = text_at(result, row, kOrderDigest);
    order.trace_id = text_at(result, row, kOrderTrace);
    order.status = text_at(result, row, kOrderStatus);
    order.retry_count = int32_at(result, row, kOrderRetryCount);
    order.next_attempt_at = time_at(result, row, kOrderDueAt);
    order.last_error = optional_text_at(result, row, kOrderLastError);
    order.last_error_detail = optional_text_at(result, row, kOrderLastErrorDetail);
    order.in_doubt = *PQgetvalue(result, row, kOrderInDoubt) != 0;
    order.broker_order_id = optional_text_at(result, row, kOrderBrokerId);
    order.created_at = time_at(result, row, kOrderCreatedAt);
    order.updated_at = time_at(result, row, kOrderUpdatedAt);
    if (PQnfields(result) > kOrderResult) {
        order.result_digest = optional_text_at(result, row, kOrderResultDigest);
        order.result_json = optional_text_at(result, row, kOrderResult);
    }
    return order;
}

AuditLine audit_at(const PGresult* result, int row) {
    AuditLine line;
    line.at = time_at(result, row, kAuditAt);
    line.reason = text_at(result, row, kAuditReason);
    line.status_from = optional_text_at(result, row, kAuditFrom);
    line.status_to = optional_text_at(result, row, kAuditTo);
    if (!null_at(result, row, kAuditRetryCount)) line.retry_count = int32_at(result, row, kAuditRetryCount);
    line.last_error = optional_text_at(result, row, kAuditLastError);
    line.detail = optional_text_at(result, row, kAuditDetail);
    line.broker_order_id = optional_text_at(result, row, kAuditBrokerId);
    line.worker = optional_text_at(result, row, kAuditWorker);
    line.actor = optional_text_at(result, row, kAuditActor);
    return line;
}

/// Of each key the first order, in order of the keys.
std::vector<std::size_t> firsts_by_key(std::span<const NewOrder> orders) {
    std::vector<std::size_t> firsts(orders.size());
    std::iota(firsts.begin(), firsts.end(), std::size_t{0});
    const auto key = [&](std::size_t index) -> const std::string& { return orders[index].idempotency_key; };
    std::stable_sort(firsts.begin(), firsts.end(), [&](auto a, auto b) { return key(a) < key(b); });
    firsts.erase(std::unique(firsts.begin(), firsts.end(), [&](auto a, auto b) { return key(a) == key(b); }),
                 firsts.end());
    return firsts;
}

/// The answers to those that were stored; the others keep id 0.
std::vector<AcceptAnswer> fresh_answers(std::span<const NewOrder> orders, std::span<const std::size_t> firsts,
                                        const PGresult* fresh) {
    std::map<std::string_view, int> rows;
    for (int row = 0; row < PQntuples(fresh); ++row) rows.emplace(text_at(fresh, row, kFreshKey), row);
    std::vector<AcceptAnswer> answers(orders.size());
    for (const std::size_t index : firsts) {
        const auto found = rows.find(orders[index].idempotency_key);
        if (found == rows.end()) continue;
        Order& order = answers[index].order;
        order.id = int64_at(fresh, found->second, kFreshId);
        order.idempotency_key = orders[index].idempotency_key;
        order.request_digest = orders[index].request_digest;
        order.trace_id = orders[index].trace_id;
        order.status = "queued";
        order.created_at = time_at(fresh, found->second, kFreshCreatedAt);
        order.updated_at = time_at(fresh, found->second, kFreshUpdatedAt);
    }
    return answers;
}

/// A statement of its own after the insert: it sees what the insert waited for.
Result<ByKey> read_present(Connection& connection, const Statement& find, std::span<const NewOrder> orders,
                           std::span<const AcceptAnswer> answers) {
    std::vector<std::optional<std::string>> keys;
    for (std::size_t i = 0; i < orders.size(); ++i) {
        if (answers[i].order.id == 0) keys.emplace_back(orders[i].idempotency_key);
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    Params params;
    params.text_array(keys);
    auto result = connection.run(Step{&find, &params}, Effect::read, connection.statement_deadline());
    if (!result) return Failure(std::move(result.error()));
    ByKey present;
    for (int row = 0; row < PQntuples(result->get()); ++row) {
        Order order = order_at(result->get(), row);
        std::string key = order.idempotency_key;
        present.emplace(std::move(key), std::move(order));
    }
    return present;
}

/// Answers those that were there before.
Result<void> answer_present(std::span<const NewOrder> orders, const ByKey& present, std::span<AcceptAnswer> answers) {
    for (std::size_t i = 0; i < orders.size(); ++i) {
        if (answers[i].order.id != 0) continue;
        const auto found = present.find(orders[i].idempotency_key);
        if (found == present.end()) {
            return retryable("db_error", "an order was deleted while it was posted again: post it once more");
        }
        const bool same = found->second.request_digest == orders[i].request_digest;
        answers[i] = {same ? AcceptKind::known : AcceptKind::conflict, found->second};
    }
    return {};
}

}  // namespace

Params PostgresOrders::accept_params(std::span<const NewOrder> orders, std::span<const std::size_t> firsts) const {
    std::array<std::vector<std::optional<std::string>>, 5> columns;
    for (auto& column : columns) column.reserve(firsts.size());
    for (const std::size_t index : firsts) {
        const NewOrder& order = orders[index];
        columns[0].emplace_back(order.idempotency_key);
        columns[1].emplace_back(order.request_json);
        columns[2].emplace_back(order.request_digest);
        columns[3].push_back(order.trace_id.empty() ? std::nullopt : std::optional(order.trace_id));
        columns[4].emplace_back(order.actor);
    }
    Params params;
    for (const auto& column : columns) params.text_array(column);
    params.float64(to_seconds(options_.ledger_ttl));
    return params;
}

Result<std::vector<AcceptAnswer>> PostgresOrders::accept(std::span<const NewOrder> orders) {
    if (orders.empty()) return std::vector<AcceptAnswer>();
    const std::vector<std::size_t> firsts = firsts_by_key(orders);
    const Params params = accept_params(orders, firsts);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const Step step{&sql_.accept, &params, Format::binary, "store.during_accept"};
    auto fresh = (*connection)->run(step, Effect::write, (*connection)->statement_deadline());
    if (!fresh) return Failure(std::move(fresh.error()));

    std::vector<AcceptAnswer> answers = fresh_answers(orders, firsts, fresh->get());
    const int stored = PQntuples(fresh->get());
    if (static_cast<std::size_t>(stored) == orders.size()) return answers;
    auto present = read_present(**connection, sql_.find, orders, answers);
    auto done = present ? answer_present(orders, *present, answers) : Result<void>(Failure(present.error()));
    if (done) return answers;
    // What was stored is committed. Accepting all of it again is safe.
    if (stored > 0) return ambiguous(done.error().code, std::move(done.error().message));
    return Failure(std::move(done.error()));
}

Result<std::optional<OrderDetail>> PostgresOrders::find(std::string_view idempotency_key) {
    const std::array<std::optional<std::string>, 1> keys = {std::string(idempotency_key)};
    Params order_params;
    order_params.text_array(keys);
    Params audit_params;
    audit_params.text(idempotency_key).int32(kMaxAuditLines);
    auto connection = pool_.borrow();
    if (!connection) return Failure(std::move(connection.error()));
    const std::array steps = {Step{&sql_.find, &order_params}, Step{&sql_.audit, &audit_params}};
    auto results = (*connection)->run(steps, Effect::read, (*connection)->statement_deadline());
    if (!results) return Failure(std::move(results.error()));
    const PGresult* order = results->front().get();
    const PGresult* audit = results->back().get();
    if (PQntuples(order) == 0) return std::nullopt;
    OrderDetail detail;
    detail.order = order_at(order, 0);
    for (int row = PQntuples(audit) - 1; row >= 0; --row) detail.audit.push_back(audit_at(audit, row));
    return detail;
}

Result<std::vector<Order>> PostgresOrders::list(const OrderQuery& query) {
    if (query.limit < 1) return permanent("bad_argument", "limit must be at least 1");
    Params params;
    params.literal(query.status)
        .literal(query.below_id ? std::optional(std::to_string(*query.below_id)) : std::nullopt)
        .int32(query.limit);
    auto result = run_once(pool_, query.status == "dead" ? sql_.list_dead : sql_.list, params, Effect::read);
    if (!result) return Failure(std::move(result.error()));
    std::vector<Order> orders;
    for (int row = 0; row < PQntuples(result->get()); ++row) orders.push_back(order_at(result->get(), row));
    return orders;
}

}  // namespace deliverd::store::postgres
