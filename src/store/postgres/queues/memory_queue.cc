#include <utility>

#include "base/try.h"
#include "client/arguments.h"
#include "store/outbox_row.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/letters/statements.h"
#include "store/postgres/queues/batch_outbox.h"
#include "store/postgres/queues/queues.h"
#include "store/postgres/queues/statements.h"
#include "store/sql_text.h"

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

Claimed claimed_memory_at(const PGresult* result, int row, std::int64_t& due_micros) {
    MemoryFields fields;
    std::int64_t now_micros = 0;
    std::optional<std::int64_t> duplicate_of;
    Claimed claimed;
    read_row(result, row, fields.outbox_id, fields.item_id, fields.target_space, fields.payload_md, fields.payload_sha,
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
        const Step step{&sql_[queues::sql::claim_memories], &params};
        return run_claim({&step, 1}, claimed_memory_at);
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

Result<std::int64_t> remove_memories(Pool& pool, const std::string& schema, std::string_view target_space,
                                     std::int64_t first_id, std::int64_t last_id) {
    // Rarely called: not worth the statements of an outbox.
    const Statement remove{"queues_remove_memories",
                           filled(queues::sql::remove_memories, {{"schema", quoted(schema)}})};
    TRY_ASSIGN(auto result, run_once(pool, remove, Params(target_space, first_id, last_id), Effect::write));
    return int64_at(result.get(), 0, 0);
}

}  // namespace deliverd::store::postgres
