#include "store/postgres/queues/orders.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "base/try.h"
#include "deliverd/error_codes.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/queues/statements.h"

namespace deliverd::store::postgres {
namespace {

using ByKey = std::map<std::string, Order, std::less<>>;

Order order_at(const PGresult* result, int row) {
    Order order;
    read_row(result, row, order.id, order.idempotency_key, order.request_json, order.request_digest, order.trace_id,
             order.status, order.retry_count, order.next_attempt_at, order.last_error, order.last_error_detail,
             order.in_doubt, order.broker_order_id, order.created_at, order.updated_at, order.result_digest,
             order.result_json);
    return order;
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
    std::map<std::string, Order> stored;
    for (int row = 0; row < PQntuples(fresh); ++row) {
        Order order;
        read_row(fresh, row, order.id, order.idempotency_key, order.created_at, order.updated_at);
        stored.emplace(order.idempotency_key, std::move(order));
    }
    std::vector<AcceptAnswer> answers(orders.size());
    for (const std::size_t index : firsts) {
        const auto found = stored.find(orders[index].idempotency_key);
        if (found == stored.end()) continue;
        Order& order = answers[index].order = std::move(found->second);
        order.request_digest = orders[index].request_digest;
        order.trace_id = orders[index].trace_id;
        order.status = "queued";
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
    const Params params(keys);
    TRY_ASSIGN(auto result, connection.run(Step{&find, &params}, Effect::read, connection.statement_deadline()));
    ByKey present;
    for (int row = 0; row < PQntuples(result.get()); ++row) {
        Order order = order_at(result.get(), row);
        present.emplace(order.idempotency_key, std::move(order));
    }
    return present;
}

/// Answers those that were there before.
Result<void> answer_present(std::span<const NewOrder> orders, const ByKey& present, std::span<AcceptAnswer> answers) {
    for (std::size_t i = 0; i < orders.size(); ++i) {
        if (answers[i].order.id != 0) continue;
        const auto found = present.find(orders[i].idempotency_key);
        if (found == present.end()) {
            return retryable(codes::kDbError, "an order was deleted while it was posted again: post it once more");
        }
        const bool same = found->second.request_digest == orders[i].request_digest;
        answers[i] = {same ? AcceptKind::known : AcceptKind::conflict, found->second};
    }
    return {};
}

Params accept_params(std::span<const NewOrder> orders, std::span<const std::size_t> firsts, Duration ledger_ttl) {
    const auto of_each = [&](const std::string NewOrder::* member) {
        return column(firsts, [&](std::size_t index) { return std::string_view(orders[index].*member); });
    };
    const auto trace = [&](std::size_t index) {
        const std::string& id = orders[index].trace_id;
        return id.empty() ? std::nullopt : std::optional<std::string_view>(id);
    };
    return Params(of_each(&NewOrder::idempotency_key), of_each(&NewOrder::request_json),
                  of_each(&NewOrder::request_digest), column(firsts, trace), of_each(&NewOrder::actor),
                  to_seconds(ledger_ttl));
}

}  // namespace

PostgresOrders::PostgresOrders(Pool& pool, std::string_view schema, const OrdersOptions& options)
    : pool_(pool), sql_(schema, {queues::sql::all}), options_(options) {}

Result<std::vector<AcceptAnswer>> PostgresOrders::accept(std::span<const NewOrder> orders) {
    if (orders.empty()) return std::vector<AcceptAnswer>();
    const std::vector<std::size_t> firsts = firsts_by_key(orders);
    const Params params = accept_params(orders, firsts, options_.ledger_ttl);
    TRY_ASSIGN(auto connection, pool_.borrow());
    const Step step{&sql_[queues::sql::accept_orders], &params, Format::binary, "store.during_accept"};
    TRY_ASSIGN(auto fresh, connection->run(step, Effect::write, connection->statement_deadline()));

    std::vector<AcceptAnswer> answers = fresh_answers(orders, firsts, fresh.get());
    const int stored = PQntuples(fresh.get());
    if (static_cast<std::size_t>(stored) == orders.size()) return answers;
    auto present = read_present(*connection, sql_[queues::sql::find_orders], orders, answers);
    auto done = present ? answer_present(orders, *present, answers) : Result<void>(Failure(present.error()));
    if (done) return answers;
    // What was stored is committed. Accepting all of it again is safe.
    if (stored > 0) return ambiguous(done.error().code, std::move(done.error().message));
    return Failure(std::move(done.error()));
}

Result<std::optional<OrderDetail>> PostgresOrders::find(std::string_view idempotency_key) {
    const Params order_params(std::vector{std::optional(idempotency_key)});
    const Params audit_params(idempotency_key, kMaxAuditLines);
    TRY_ASSIGN(auto connection, pool_.borrow());
    const std::array steps = {Step{&sql_[queues::sql::find_orders], &order_params},
                              Step{&sql_[queues::sql::order_audit], &audit_params}};
    TRY_ASSIGN(auto results, connection->run(steps, Effect::read, connection->statement_deadline()));
    const PGresult* order = results.front().get();
    const PGresult* audit = results.back().get();
    if (PQntuples(order) == 0) return std::nullopt;
    OrderDetail detail;
    detail.order = order_at(order, 0);
    for (int row = PQntuples(audit) - 1; row >= 0; --row) {
        AuditLine& line = detail.audit.emplace_back();
        read_row(audit, row, line.at, line.reason, line.status_from, line.status_to, line.retry_count, line.last_error,
                 line.detail, line.broker_order_id, line.worker, line.actor);
    }
    return detail;
}

Result<std::vector<Order>> PostgresOrders::list(const OrderQuery& query) {
    if (query.limit < 1) return permanent(codes::kBadArgument, "limit must be at least 1");
    const auto below = query.below_id ? std::optional(std::to_string(*query.below_id)) : std::nullopt;
    const auto text = query.status == "dead" ? queues::sql::list_dead_orders : queues::sql::list_orders;
    TRY_ASSIGN(auto result, run_once(pool_, sql_[text], Params(query.status, below, query.limit), Effect::read));
    std::vector<Order> orders;
    for (int row = 0; row < PQntuples(result.get()); ++row) orders.push_back(order_at(result.get(), row));
    return orders;
}

}  // namespace deliverd::store::postgres
