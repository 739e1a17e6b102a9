#include "store/postgres/queues/outbox.h"

#include <utility>

#include "client/lease_arguments.h"
#include "store/memory_message.h"
#include "store/postgres/connection/cells.h"
#include "store/settle_batch.h"

namespace deliverd::store::postgres {
namespace {

Claimed claimed_memory_at(const PGresult* result, int row) {
    MemoryFields fields;
    fields.outbox_id = int64_at(result, row, kClaimId);
    if (!null_at(result, row, kClaimItemId)) fields.item_id = int64_at(result, row, kClaimItemId);
    fields.target_space = text_at(result, row, kClaimSpace);
    fields.payload_md = text_at(result, row, kClaimPayload);
    fields.payload_sha = text_at(result, row, kClaimSha);
    fields.retry_count = int32_at(result, row, kClaimRetryCount);

    Claimed claimed;
    claimed.message = memory_message(fields);
    claimed.age_seconds = seconds_between(result, row, kClaimDueAt, kClaimNow);
    claimed.duplicate = !null_at(result, row, kClaimDuplicateOf);
    claimed.duplicate_receipt = optional_text_at(result, row, kClaimDuplicateReceipt);
    return claimed;
}

// The settle statement names the kinds by number.
static_assert(static_cast<int>(SettleKind::sent) == 0 && static_cast<int>(SettleKind::duplicate) == 1 &&
              static_cast<int>(SettleKind::retry) == 2 && static_cast<int>(SettleKind::dead) == 3);

}  // namespace

Result<ClaimBatch> PostgresOutbox::claim(const ClaimRequest& request) {
    const double lease_seconds = to_seconds(request.lease);
    if (auto ok = client::check_claim(request.worker_id, request.limit, lease_seconds); !ok) {
        return Failure(ok.error());
    }
    Params params;
    params.text(request.worker_id).int32(request.limit).float64(lease_seconds);
    if (auto ok = add_position(params, request.after); !ok) return Failure(std::move(ok.error()));
    const Step step{request.after ? &sql_.claim_after : &sql_.claim, &params};
    return run_claim({&step, 1}, {claimed_memory_at, kClaimId, kClaimDueAt});
}

Params PostgresOutbox::settle_params(std::string_view worker_id, std::span<const Settlement> settlements,
                                     std::span<const std::size_t> order) const {
    std::vector<std::int64_t> ids;
    std::vector<std::int32_t> kinds;
    std::vector<std::optional<std::string>> notes;
    std::vector<double> delays;
    std::vector<std::int32_t> failures;
    ids.reserve(order.size());
    kinds.reserve(order.size());
    notes.reserve(order.size());
    delays.reserve(order.size());
    failures.reserve(order.size());
    for (const std::size_t index : order) {
        const Settlement& settlement = settlements[index];
        ids.push_back(settlement.id);
        kinds.push_back(static_cast<std::int32_t>(settlement.kind));
        notes.push_back(settle_note(settlement));
        delays.push_back(settle_delay_seconds(settlement));
        failures.push_back(settlement.failures_before);
    }
    Params params;
    params.text(worker_id).int64_array(ids).int32_array(kinds).text_array(notes).float64_array(delays).int32_array(
        failures);
    return params;
}

Result<std::int64_t> PostgresOutbox::remove(std::string_view target_space, std::int64_t first_id,
                                            std::int64_t last_id) {
    Params params;
    params.text(target_space).int64(first_id).int64(last_id);
    auto result = run_once(pool(), sql_.remove, params, Effect::write);
    if (!result) return Failure(std::move(result.error()));
    return int64_at(result->get(), 0, 0);
}

}  // namespace deliverd::store::postgres
