// Orders on PostgreSQL: their intake, and the outbox for lanes.
//
// The request is kept twice: request_json is for queries, and PostgreSQL rewrites its numbers (1e2 becomes 100) and
// sorts its fields; request_body holds the bytes that were posted, which are what the broker gets. SQLite has no such
// type and needs no second column.
//
// Claims go by next_attempt_at, not by created_at. A new order is due when it is created, so the two differ only for
// retries. With the due time one small index answers both what is due and what comes first; a retry is behind the
// position where the next claim starts, instead of before it; and while a broker fails, retries of old orders do not
// push back all new ones.
//
// In `sending`, updated_at is the lease: the rule for stuck rows reads it anyway. A worker renews at a third of the
// threshold, so the threshold may be shorter than a slow send. rescue() is a statement of its own and not part of the
// claim, because it has an audit line of its own and the claim's index holds only what is queued.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "base/try.h"
#include "client/arguments.h"
#include "deliverd/error_codes.h"
#include "store/outbox_row.h"
#include "store/postgres/letters/statements.h"
#include "store/postgres/queues/batch_outbox.h"
#include "store/postgres/queues/queues.h"
#include "store/postgres/queues/statements.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::postgres {
namespace {

/// The answers to those that were stored; the others keep id 0.
std::vector<AcceptAnswer> fresh_answers(std::span<const NewOrder> orders, std::span<const std::size_t> firsts,
                                        const PGresult* fresh) {
    std::map<std::string, Order> stored;
    for (const Row& row : rows_of(fresh)) {
        Order order;
        row.read(order.id, order.idempotency_key, order.created_at, order.updated_at);
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

/// Answers those that were there before. A statement of its own after the insert: a snapshot taken before would not
/// show the rows that the insert waited for.
Result<void> answer_present(Connection& connection, const Statement& find, std::span<const NewOrder> orders,
                            std::span<AcceptAnswer> answers) {
    std::set<std::string_view> keys;
    for (std::size_t i = 0; i < orders.size(); ++i) {
        if (answers[i].order.id == 0) keys.insert(orders[i].idempotency_key);
    }
    Params params(std::vector<std::string_view>(keys.begin(), keys.end()));
    TRY_ASSIGN(auto result, connection.run(Step{&find, std::move(params)}, Effect::read));
    std::map<std::string, Order> present;
    for (const Row& row : rows_of(result.get())) {
        Order order = order_and_ledger_at(row);
        present.emplace(order.idempotency_key, std::move(order));
    }
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

class PostgresOrders final : public Orders {
public:
    PostgresOrders(Pool& pool, std::string_view schema, const OrdersOptions& options)
        : pool_(pool), sql_(schema, {queues::sql::all}), options_(options) {}

    Result<std::vector<AcceptAnswer>> accept(std::span<const NewOrder> orders) override {
        if (orders.empty()) return std::vector<AcceptAnswer>();
        // In order of the keys, so that two batches with the same keys wait for each other in one direction.
        const std::vector<std::size_t> firsts =
            firsts_by_key(orders, [](const NewOrder& order) { return std::string_view(order.idempotency_key); });
        const Step step{&sql_[queues::sql::accept_orders], accept_params(orders, firsts, options_.ledger_ttl),
                        Format::binary, "store.during_accept"};
        TRY_ASSIGN(auto connection, pool_.borrow());
        TRY_ASSIGN(auto fresh, connection->run(step, Effect::write));

        std::vector<AcceptAnswer> answers = fresh_answers(orders, firsts, fresh.get());
        const int stored = PQntuples(fresh.get());
        if (static_cast<std::size_t>(stored) == orders.size()) return answers;
        auto done = answer_present(*connection, sql_[queues::sql::find_orders], orders, answers);
        if (done) return answers;
        // What was stored is committed. Accepting all of it again is safe, and answers `known` for it.
        if (stored > 0) return ambiguous(done.error().code, std::move(done.error().message));
        return Failure(std::move(done.error()));
    }

    Result<std::optional<OrderDetail>> find(std::string_view idempotency_key) override {
        const std::array steps = {Step{&sql_[queues::sql::find_orders], Params(std::vector{idempotency_key})},
                                  Step{&sql_[queues::sql::order_audit], Params(idempotency_key, kMaxAuditLines)}};
        TRY_ASSIGN(auto results, run_once(pool_, steps, Effect::read));
        const PGresult* order = results.front().get();
        if (PQntuples(order) == 0) return std::nullopt;
        OrderDetail detail{order_and_ledger_at(Row(order)), rows_as(results.back().get(), &order_audit_at<Row>)};
        std::ranges::reverse(detail.audit);  // read from the newest on, so that the limit cuts the oldest
        return detail;
    }

    Result<std::vector<Order>> list(const OrderQuery& query) override {
        TRY(client::check_limit(query.limit));
        const auto below = query.below_id ? std::optional(std::to_string(*query.below_id)) : std::nullopt;
        const auto text = query.status == "dead" ? queues::sql::list_dead_orders : queues::sql::list_orders;
        TRY_ASSIGN(auto result, run_once(pool_, sql_[text], Params(query.status, below, query.limit), Effect::read));
        return rows_as(result.get(), &order_and_ledger_at<Row>);
    }

private:
    Pool& pool_;
    const Statements sql_;
    const OrdersOptions options_;
};

constexpr BatchTexts kOrderTexts{.settle = queues::sql::settle_orders,
                                 .letters = letters::sql::order_letters,
                                 .states = queues::sql::order_states,
                                 .renew = queues::sql::renew_orders,
                                 .release = queues::sql::release_orders,
                                 .audit = queues::sql::audit_orders,
                                 .lag = queues::sql::order_lag,
                                 .counts = queues::sql::order_counts};

Claimed claimed_order_at(const Row& row, std::int64_t& due_micros) {
    OrderFields fields;
    std::int64_t created_micros = 0;
    std::int64_t now_micros = 0;
    row.read(fields.id, fields.idempotency_key, fields.request, fields.trace_id, fields.retry_count, created_micros,
             due_micros, now_micros);
    Claimed claimed;
    claimed.message = order_message(fields);
    claimed.age_seconds = seconds_between(created_micros, now_micros);
    return claimed;
}

class OrderQueue final : public BatchOutbox {
public:
    OrderQueue(Pool& pool, std::string_view schema, const OrdersOptions& options, std::string lane)
        : BatchOutbox(pool, schema, std::move(lane), kOrderTexts), options_(options) {}

    Result<ClaimBatch> claim(const ClaimRequest& request) override {
        TRY(client::check_claim(request.worker_id, request.limit, to_seconds(request.lease)));
        // In one transaction with the claim, so that the claim takes retries that are due as well.
        const Params requeue(request.worker_id, request.limit);
        Params params = requeue;
        TRY(add_position(params, request.after));
        return run_claim(
            {Step{&sql_[queues::sql::requeue_orders], requeue}, Step{&sql_[queues::sql::claim_orders], params}},
            claimed_order_at);
    }

    Result<std::int64_t> rescue(std::string_view worker_id, Duration stuck_for) override {
        TRY(client::check_worker(worker_id));
        TRY(check_upkeep_span("stuck_for", stuck_for));
        TRY_ASSIGN(auto result, run_once(pool_, sql_[queues::sql::rescue_orders],
                                         Params(worker_id, to_seconds(stuck_for)), Effect::write));
        return PQntuples(result.get());
    }

private:
    [[nodiscard]] Params settle_params(std::string_view worker_id,
                                       std::span<const Settlement* const> batch) const override {
        const auto settled = column(batch, [](const Settlement* one) { return order_settled(*one); });
        return Params(worker_id, column(batch, &Settlement::id), column(batch, settle_kind_number),
                      column(batch, &Settlement::failures_before),
                      column(batch, [](const Settlement* one) { return settle_delay_seconds(*one); }),
                      column(batch, [](const Settlement* one) { return order_settle_reason(one->kind); }),
                      column(settled, &OrderSettled::last_error), column(settled, &OrderSettled::last_error_detail),
                      column(settled, &OrderSettled::broker_order_id), column(settled, &OrderSettled::result_digest),
                      column(settled, &OrderSettled::result_json), to_seconds(options_.ledger_ttl),
                      column(batch, [](const Settlement* one) { return one->in_doubt ? 1 : 0; }));
    }

    const OrdersOptions options_;
};

}  // namespace

std::unique_ptr<Orders> make_orders(Pool& pool, std::string_view schema, const OrdersOptions& options) {
    return std::make_unique<PostgresOrders>(pool, schema, options);
}

std::unique_ptr<RowQueue> make_order_queue(Pool& pool, std::string_view schema, const OrdersOptions& options,
                                           std::string lane) {
    return std::make_unique<OrderQueue>(pool, schema, options, std::move(lane));
}

}  // namespace deliverd::store::postgres
