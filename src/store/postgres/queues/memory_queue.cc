#include <utility>

#include "base/try.h"
#include "client/arguments.h"
#include "store/outbox_row.h"
#include "store/postgres/letters/statements.h"
#include "store/postgres/queues/batch_outbox.h"
#include "store/postgres/queues/queues.h"
#include "store/postgres/queues/statements.h"

namespace deliverd::store::postgres {
namespace {

constexpr BatchTexts kMemoryTexts{.settle = queues::sql::settle_memories,
                                  .letters = letters::sql::memory_letters,
                                  .states = queues::sql::memory_states,
                                  .renew = queues::sql::renew_memories,
                                  .release = queues::sql::release_memories,
                                  .audit = queues::sql::audit_memories,
                                  .lag = queues::sql::memory_lag,
                                  .counts = queues::sql::memory_counts};

Claimed claimed_memory_at(const Row& row, std::int64_t& due_micros) {
    MemoryFields fields;
    std::int64_t now_micros = 0;
    std::optional<std::int64_t> duplicate_of;
    Claimed claimed;
    row.read(fields.outbox_id, fields.item_id, fields.target_space, fields.payload_md, fields.payload_sha,
             fields.retry_count, due_micros, now_micros, duplicate_of, claimed.duplicate_receipt);
    claimed.message = memory_message(fields);
    claimed.age_seconds = seconds_between(due_micros, now_micros);
    claimed.duplicate = duplicate_of.has_value();  // its receipt may be unknown all the same
    return claimed;
}

class MemoryQueue final : public BatchOutbox {
public:
    MemoryQueue(Pool& pool, std::string_view schema, std::string lane)
        : BatchOutbox(pool, schema, std::move(lane), kMemoryTexts) {}

    Result<ClaimBatch> claim(const ClaimRequest& request) override {
        const double lease_seconds = to_seconds(request.lease);
        TRY(client::check_claim(request.worker_id, request.limit, lease_seconds));
        Params params(request.worker_id, request.limit, lease_seconds);
        TRY(add_position(params, request.after));
        return run_claim({Step{&sql_[queues::sql::claim_memories], params}}, claimed_memory_at);
    }

private:
    [[nodiscard]] Params settle_params(std::string_view worker_id,
                                       std::span<const Settlement* const> batch) const override {
        return Params(worker_id, column(batch, &Settlement::id), column(batch, settle_kind_number),
                      column(batch, [](const Settlement* one) { return settle_note(*one); }),
                      column(batch, [](const Settlement* one) { return settle_delay_seconds(*one); }),
                      column(batch, &Settlement::failures_before));
    }
};

}  // namespace

std::unique_ptr<RowQueue> make_memory_queue(Pool& pool, std::string_view schema, std::string lane) {
    return std::make_unique<MemoryQueue>(pool, schema, std::move(lane));
}

}  // namespace deliverd::store::postgres
