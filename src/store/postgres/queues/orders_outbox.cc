#include "store/postgres/queues/orders_outbox.h"

#include <array>
#include <utility>

#include "client/lease_arguments.h"
#include "store/order_row.h"
#include "store/postgres/connection/cells.h"
#include "store/settle_batch.h"

namespace deliverd::store::postgres {
namespace {

Claimed claimed_at(const PGresult* result, int row) {
    OrderFields fields;
    fields.id = int64_at(result, row, kOrderClaimId);
    fields.idempotency_key = text_at(result, row, kOrderClaimKey);
    fields.request = text_at(result, row, kOrderClaimRequest);
    fields.trace_id = text_at(result, row, kOrderClaimTrace);
    fields.retry_count = int32_at(result, row, kOrderClaimRetryCount);

    Claimed claimed;
    claimed.message = order_message(fields);
    claimed.age_seconds = seconds_between(result, row, kOrderClaimCreatedAt, kOrderClaimNow);
    return claimed;
}

// The settle statement names the kinds by number.
static_assert(static_cast<int>(SettleKind::sent) == 0 && static_cast<int>(SettleKind::duplicate) == 1 &&
              static_cast<int>(SettleKind::retry) == 2 && static_cast<int>(SettleKind::dead) == 3);

}  // namespace

Result<ClaimBatch> PostgresOrdersOutbox::claim(const ClaimRequest& request) {
    if (auto ok = client::check_claim(request.worker_id, request.limit, to_seconds(request.lease)); !ok) {
        return Failure(ok.error());
    }
    Params requeue;
    requeue.text(request.worker_id).int32(request.limit);
    Params params = requeue;
    if (auto ok = add_position(params, request.after); !ok) return Failure(std::move(ok.error()));
    const std::array steps = {Step{&sql_.requeue, &requeue},
                              Step{request.after ? &sql_.claim_after : &sql_.claim, &params}};
    return run_claim(steps, {claimed_at, kOrderClaimId, kOrderClaimDueAt});
}

Result<std::int64_t> PostgresOrdersOutbox::rescue(std::string_view worker_id, Duration stuck_for) {
    if (auto ok = client::check_worker(worker_id); !ok) return Failure(ok.error());
    if (stuck_for < Duration::zero()) return permanent("bad_argument", "stuck_for is negative");
    Params params;
    params.text(worker_id).float64(to_seconds(stuck_for));
    auto result = run_once(pool(), sql_.rescue, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    return PQntuples(result->get());
}

Params PostgresOrdersOutbox::settle_params(std::string_view worker_id, std::span<const Settlement> settlements,
                                           std::span<const std::size_t> order) const {
    std::vector<std::int64_t> ids;
    std::vector<std::int32_t> kinds;
    std::vector<std::int32_t> failures;
    std::vector<double> delays;
    std::vector<std::int32_t> in_doubt;
    std::array<std::vector<std::optional<std::string>>, 6> texts;
    for (const std::size_t index : order) {
        const Settlement& settlement = settlements[index];
        ids.push_back(settlement.id);
        kinds.push_back(static_cast<std::int32_t>(settlement.kind));
        failures.push_back(settlement.failures_before);
        delays.push_back(settle_delay_seconds(settlement));
        in_doubt.push_back(settlement.in_doubt ? 1 : 0);
        OrderSettled settled = order_settled(settlement);
        texts[0].emplace_back(order_settle_reason(settlement.kind));
        texts[1].push_back(std::move(settled.last_error));
        texts[2].push_back(std::move(settled.last_error_detail));
        texts[3].push_back(std::move(settled.broker_order_id));
        texts[4].push_back(std::move(settled.result_digest));
        texts[5].push_back(std::move(settled.result_json));
    }
    Params params;
    params.text(worker_id).int64_array(ids).int32_array(kinds).int32_array(failures).float64_array(delays);
    for (const auto& column : texts) params.text_array(column);
    params.float64(to_seconds(options_.ledger_ttl)).int32_array(in_doubt);
    return params;
}

}  // namespace deliverd::store::postgres
