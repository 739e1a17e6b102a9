#include "store/postgres/queues/orders_outbox.h"

#include <array>
#include <utility>

#include "base/try.h"
#include "client/lease_arguments.h"
#include "deliverd/error_codes.h"
#include "store/order_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/statements.h"
#include "store/postgres/queues/statements.h"
#include "store/settle_batch.h"

namespace deliverd::store::postgres {
namespace {

constexpr BatchTexts kOrderTexts{.settle = queues::sql::settle_orders,
                                 .letters = letters::sql::order_letters,
                                 .states = queues::sql::order_states,
                                 .renew = queues::sql::renew_orders,
                                 .release = queues::sql::release_orders,
                                 .audit = queues::sql::audit_orders,
                                 .lag = queues::sql::order_lag,
                                 .counts = queues::sql::order_counts};

Claimed claimed_order_at(const PGresult* result, int row, std::int64_t& due_micros) {
    OrderFields fields;
    std::int64_t created_micros = 0;
    std::int64_t now_micros = 0;
    read_row(result, row, fields.id, fields.idempotency_key, fields.request, fields.trace_id, fields.retry_count,
             created_micros, due_micros, now_micros);
    Claimed claimed;
    claimed.message = order_message(fields);
    claimed.age_seconds = seconds_between(created_micros, now_micros);
    return claimed;
}

}  // namespace

PostgresOrdersOutbox::PostgresOrdersOutbox(Pool& pool, std::string_view schema, const OrdersOptions& options,
                                           std::string lane)
    : BatchOutbox(pool, schema, std::move(lane), kOrderTexts), options_(options) {}

Result<ClaimBatch> PostgresOrdersOutbox::claim(const ClaimRequest& request) {
    TRY(client::check_claim(request.worker_id, request.limit, to_seconds(request.lease)));
    const Params requeue(request.worker_id, request.limit);
    Params params = requeue;
    TRY(add_position(params, request.after));
    const std::array steps = {Step{&sql_[queues::sql::requeue_orders], &requeue},
                              Step{&sql_[queues::sql::claim_orders], &params}};
    return run_claim(steps, claimed_order_at);
}

Result<std::int64_t> PostgresOrdersOutbox::rescue(std::string_view worker_id, Duration stuck_for) {
    TRY(client::check_worker(worker_id));
    if (stuck_for < Duration::zero()) return permanent(codes::kBadArgument, "stuck_for is negative");
    TRY_ASSIGN(auto result, run_once(pool_, sql_[queues::sql::rescue_orders], Params(worker_id, to_seconds(stuck_for)),
                                     Effect::write));
    return PQntuples(result.get());
}

Params PostgresOrdersOutbox::settle_params(std::string_view worker_id, std::span<const Settlement* const> batch) const {
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

}  // namespace deliverd::store::postgres
