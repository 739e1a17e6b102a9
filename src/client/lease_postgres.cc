#include "client/lease_postgres.h"

#include <utility>
#include <vector>

#include "client/decimal.h"
#include "client/lease_arguments.h"
#include "client/postgres_cells.h"

namespace deliverd::client {
namespace {

using Values = std::vector<std::optional<std::string>>;

#define DELIVERD_UTC(column) "to_char(" column " at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
constexpr const char* kRowColumns =
    "select outbox_id, item_id, target_space, payload_md, payload_sha, status, retry_count, "
    DELIVERD_UTC("next_attempt_at") ", " DELIVERD_UTC("locked_at") ", locked_by, last_error, "
    DELIVERD_UTC("created_at") ", " DELIVERD_UTC("updated_at") " from ";
#undef DELIVERD_UTC

MemoryRow memory_row(const PGresult* r, int row) {
    MemoryRow out;
    out.outbox_id = integer_cell(r, row, 0);
    if (PQgetisnull(r, row, 1) == 0) out.item_id = integer_cell(r, row, 1);
    out.target_space = cell(r, row, 2);
    out.payload_md = cell(r, row, 3);
    out.payload_sha = cell(r, row, 4);
    out.status = cell(r, row, 5);
    out.retry_count = static_cast<std::int32_t>(integer_cell(r, row, 6));
    out.next_attempt_at = cell(r, row, 7);
    out.locked_at = optional_cell(r, row, 8);
    out.locked_by = optional_cell(r, row, 9);
    out.last_error = optional_cell(r, row, 10);
    out.created_at = cell(r, row, 11);
    out.updated_at = cell(r, row, 12);
    return out;
}

std::string id_array(std::span<const std::int64_t> ids) {
    std::string text = "{";
    for (const std::int64_t id : ids) {
        if (text.size() > 1) text.push_back(',');
        text += std::to_string(id);
    }
    text.push_back('}');
    return text;
}

class PostgresLease final : public Lease {
public:
    explicit PostgresLease(std::unique_ptr<PostgresCall> call) : call_(std::move(call)) {}

    Result<std::int64_t> enqueue_memory(std::string_view target_space, std::string_view payload_md,
                                        std::optional<std::int64_t> item_id, std::int64_t max_payload_bytes) override {
        if (auto ok = check_memory(target_space, payload_md, max_payload_bytes); !ok) return Failure(ok.error());
        std::optional<std::string> item;
        if (item_id) item = std::to_string(*item_id);
        auto result = write(
            "select deliverd.enqueue_memory($1, $2, $3, $4)",
            {std::string(target_space), std::string(payload_md), std::move(item), std::to_string(max_payload_bytes)});
        if (!result) return Failure(std::move(result.error()));
        return integer_cell(result->get(), 0, 0);
    }

    Result<std::vector<MemoryRow>> claim_outbox(std::string_view worker_id, std::int32_t limit,
                                                double lease_seconds) override {
        if (auto ok = check_claim(worker_id, limit, lease_seconds); !ok) return Failure(ok.error());
        static const std::string kSql = std::string(kRowColumns) + "deliverd.claim_outbox($1, $2, $3)";
        auto result = write(kSql.c_str(), {std::string(worker_id), std::to_string(limit), decimal(lease_seconds)});
        if (!result) return Failure(std::move(result.error()));
        std::vector<MemoryRow> rows;
        const int count = PQntuples(result->get());
        rows.reserve(static_cast<std::size_t>(count));
        for (int i = 0; i < count; ++i) rows.push_back(memory_row(result->get(), i));
        return rows;
    }

    Result<bool> ack_sent(std::int64_t outbox_id, std::string_view worker_id,
                          std::optional<std::string_view> memory_id) override {
        if (auto ok = check_settle(worker_id, "memory_id", memory_id.value_or("")); !ok) return Failure(ok.error());
        std::optional<std::string> receipt;
        if (memory_id) receipt = std::string(*memory_id);
        return answer("select deliverd.ack_sent($1, $2, $3)",
                      {std::to_string(outbox_id), std::string(worker_id), std::move(receipt)});
    }

    Result<bool> fail_retry(std::int64_t outbox_id, std::string_view worker_id, std::string_view error,
                            std::string_view next_attempt_at) override {
        if (auto ok = check_settle(worker_id, "error", error); !ok) return Failure(ok.error());
        if (auto ok = check_time("next_attempt_at", next_attempt_at); !ok) return Failure(ok.error());
        return answer("select deliverd.fail_retry($1, $2, $3, $4)", {std::to_string(outbox_id), std::string(worker_id),
                                                                     std::string(error), std::string(next_attempt_at)});
    }

    Result<bool> mark_dead_by_worker(std::int64_t outbox_id, std::string_view worker_id,
                                     std::string_view error) override {
        if (auto ok = check_settle(worker_id, "error", error); !ok) return Failure(ok.error());
        return answer("select deliverd.mark_dead_by_worker($1, $2, $3)",
                      {std::to_string(outbox_id), std::string(worker_id), std::string(error)});
    }

    Result<bool> renew_lease(std::int64_t outbox_id, std::string_view worker_id) override {
        if (auto ok = check_worker(worker_id); !ok) return Failure(ok.error());
        return answer("select deliverd.renew_lease($1, $2)", {std::to_string(outbox_id), std::string(worker_id)});
    }

    Result<std::int64_t> renew_lease_batch(std::span<const std::int64_t> outbox_ids,
                                           std::string_view worker_id) override {
        if (auto ok = check_worker(worker_id); !ok) return Failure(ok.error());
        auto result =
            write("select deliverd.renew_lease_batch($1, $2)", {id_array(outbox_ids), std::string(worker_id)});
        if (!result) return Failure(std::move(result.error()));
        return integer_cell(result->get(), 0, 0);
    }

    Result<std::optional<DedupHit>> check_dedup(std::string_view target_space, std::string_view payload_sha) override {
        if (auto ok = check_text("target_space", target_space); !ok) return Failure(ok.error());
        if (auto ok = check_text("payload_sha", payload_sha); !ok) return Failure(ok.error());
        auto result = read("select outbox_id, memory_id from deliverd.check_dedup($1, $2)",
                           {std::string(target_space), std::string(payload_sha)});
        if (!result) return Failure(std::move(result.error()));
        if (PQntuples(result->get()) == 0) return std::nullopt;
        return DedupHit{integer_cell(result->get(), 0, 0), optional_cell(result->get(), 0, 1)};
    }

    Result<std::optional<MemoryRow>> show(std::int64_t outbox_id) override {
        static const std::string kSql = std::string(kRowColumns) + "deliverd.show_memory($1)";
        auto result = read(kSql.c_str(), {std::to_string(outbox_id)});
        if (!result) return Failure(std::move(result.error()));
        if (PQntuples(result->get()) == 0) return std::nullopt;
        return memory_row(result->get(), 0);
    }

private:
    Result<PgResult> write(const char* sql, Values values) { return call_->run(sql, values, Effect::write); }
    Result<PgResult> read(const char* sql, Values values) { return call_->run(sql, values, Effect::read); }
    Result<bool> answer(const char* sql, Values values) {
        auto result = write(sql, std::move(values));
        if (!result) return Failure(std::move(result.error()));
        return cell(result->get(), 0, 0) == "t";
    }

    std::unique_ptr<PostgresCall> call_;
};

}  // namespace

std::unique_ptr<Lease> lease_over(std::unique_ptr<PostgresCall> call) {
    return std::make_unique<PostgresLease>(std::move(call));
}

}  // namespace deliverd::client

namespace deliverd {

std::unique_ptr<Lease> lease_on(pg_conn* connection) {
    return client::lease_over(client::on_callers_connection(connection));
}

}  // namespace deliverd
