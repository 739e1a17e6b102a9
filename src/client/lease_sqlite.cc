#include <algorithm>
#include <tuple>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "client/decimal.h"
#include "client/lease_arguments.h"
#include "client/sqlite_protocol.h"
#include "client/sqlite_rows.h"
#include "client/sqlite_statement.h"

namespace deliverd::client {

MemoryRow memory_row(const SqliteStatement& statement) {
    MemoryRow row;
    row.outbox_id = statement.integer(0);
    if (!statement.is_null(1)) row.item_id = statement.integer(1);
    row.target_space = statement.text(2);
    row.payload_md = statement.text(3);
    row.payload_sha = statement.text(4);
    row.status = statement.text(5);
    row.retry_count = static_cast<std::int32_t>(statement.integer(6));
    row.next_attempt_at = statement.text(7);
    row.locked_at = statement.optional_text(8);
    row.locked_by = statement.optional_text(9);
    row.last_error = statement.optional_text(10);
    row.created_at = statement.text(11);
    row.updated_at = statement.text(12);
    return row;
}

std::string lease_modifier(double lease_seconds) {
    return "-" + decimal(lease_seconds, 3) + " seconds";
}

std::string json_ids(std::span<const std::int64_t> ids) {
    std::string text = "[";
    for (const std::int64_t id : ids) {
        if (text.size() > 1) text.push_back(',');
        text += std::to_string(id);
    }
    text.push_back(']');
    return text;
}

std::optional<std::string> receipt_note(const std::optional<std::string>& memory_id) {
    if (!memory_id) return std::nullopt;
    return "memory_id=" + *memory_id;
}

namespace {

class SqliteLease final : public Lease {
public:
    explicit SqliteLease(sqlite3* connection) : connection_(connection) {}

    Result<std::int64_t> enqueue_memory(std::string_view target_space, std::string_view payload_md,
                                        std::optional<std::int64_t> item_id, std::int64_t max_payload_bytes) override {
        if (auto ok = check_memory(target_space, payload_md, max_payload_bytes); !ok) return Failure(ok.error());
        auto statement = SqliteStatement::prepare(connection_, sqlite_sql::kEnqueue);
        if (!statement) return Failure(std::move(statement.error()));
        const std::string digest = sha256_hex(payload_md);
        statement->bind(1, target_space).bind(2, payload_md).bind(3, std::string_view(digest));
        if (item_id) statement->bind(4, *item_id);
        auto row = statement->step();
        if (!row) return Failure(std::move(row.error()));
        const std::int64_t id = statement->integer(0);
        if (auto ended = statement->run(); !ended) return Failure(std::move(ended.error()));
        return id;
    }

    Result<std::vector<MemoryRow>> claim_outbox(std::string_view worker_id, std::int32_t limit,
                                                double lease_seconds) override {
        if (auto ok = check_claim(worker_id, limit, lease_seconds); !ok) return Failure(ok.error());
        auto statement = SqliteStatement::prepare(connection_, sqlite_sql::kClaim);
        if (!statement) return Failure(std::move(statement.error()));
        const std::string lease = lease_modifier(lease_seconds);
        statement->bind(1, worker_id).bind(2, std::int64_t{limit}).bind(3, std::string_view(lease));
        std::vector<MemoryRow> rows;
        for (;;) {
            auto more = statement->step();
            if (!more) return Failure(std::move(more.error()));
            if (!*more) break;
            rows.push_back(memory_row(*statement));
        }
        std::sort(rows.begin(), rows.end(), [](const MemoryRow& a, const MemoryRow& b) {
            return std::tie(a.next_attempt_at, a.outbox_id) < std::tie(b.next_attempt_at, b.outbox_id);
        });
        return rows;
    }

    Result<bool> ack_sent(std::int64_t outbox_id, std::string_view worker_id,
                          std::optional<std::string_view> memory_id) override {
        if (auto ok = check_settle(worker_id, "memory_id", memory_id.value_or("")); !ok) return Failure(ok.error());
        std::optional<std::string> note;
        if (memory_id) note = receipt_note(std::string(*memory_id));
        return change(sqlite_sql::kAckSent, outbox_id, worker_id, [&](SqliteStatement& s) { s.bind(3, note); });
    }

    Result<bool> fail_retry(std::int64_t outbox_id, std::string_view worker_id, std::string_view error,
                            std::string_view next_attempt_at) override {
        if (auto ok = check_settle(worker_id, "error", error); !ok) return Failure(ok.error());
        if (auto ok = check_time("next_attempt_at", next_attempt_at); !ok) return Failure(ok.error());
        const std::string next = rfc3339_millis(*parse_rfc3339(next_attempt_at));
        return change(sqlite_sql::kFailRetry, outbox_id, worker_id,
                      [&](SqliteStatement& s) { s.bind(3, error).bind(4, std::string_view(next)); });
    }

    Result<bool> mark_dead_by_worker(std::int64_t outbox_id, std::string_view worker_id,
                                     std::string_view error) override {
        if (auto ok = check_settle(worker_id, "error", error); !ok) return Failure(ok.error());
        // Both or neither, also where the caller is in no transaction.
        if (auto begun = sqlite_run(connection_, "savepoint deliverd_dead"); !begun) return Failure(begun.error());
        auto dead = mark_dead_with_letter(outbox_id, worker_id, error);
        const bool keep = dead && *dead;
        auto ended = sqlite_run(connection_,
                                keep ? "release deliverd_dead" : "rollback to deliverd_dead; release deliverd_dead");
        if (dead && !ended) {
            // A release that ends the transaction can find the file busy: the savepoint must not stay open.
            static_cast<void>(sqlite_run(connection_, "rollback to deliverd_dead; release deliverd_dead"));
            return Failure(ended.error());
        }
        return dead;
    }

    Result<bool> renew_lease(std::int64_t outbox_id, std::string_view worker_id) override {
        if (auto ok = check_worker(worker_id); !ok) return Failure(ok.error());
        return change(sqlite_sql::kRenew, outbox_id, worker_id, [](SqliteStatement&) {});
    }

    Result<std::int64_t> renew_lease_batch(std::span<const std::int64_t> outbox_ids,
                                           std::string_view worker_id) override {
        if (auto ok = check_worker(worker_id); !ok) return Failure(ok.error());
        auto statement = SqliteStatement::prepare(connection_, sqlite_sql::kRenewBatch);
        if (!statement) return Failure(std::move(statement.error()));
        const std::string ids = json_ids(outbox_ids);
        statement->bind(1, std::string_view(ids)).bind(2, worker_id);
        std::int64_t renewed = 0;
        for (;;) {
            auto more = statement->step();
            if (!more) return Failure(std::move(more.error()));
            if (!*more) return renewed;
            ++renewed;
        }
    }

    Result<std::optional<DedupHit>> check_dedup(std::string_view target_space, std::string_view payload_sha) override {
        if (auto ok = check_text("target_space", target_space); !ok) return Failure(ok.error());
        if (auto ok = check_text("payload_sha", payload_sha); !ok) return Failure(ok.error());
        auto statement = SqliteStatement::prepare(connection_, sqlite_sql::kCheckDedup);
        if (!statement) return Failure(std::move(statement.error()));
        auto found = statement->bind(1, target_space).bind(2, payload_sha).step();
        if (!found) return Failure(std::move(found.error()));
        if (!*found) return std::nullopt;
        return DedupHit{statement->integer(0), statement->optional_text(1)};
    }

    Result<std::optional<MemoryRow>> show(std::int64_t outbox_id) override {
        auto statement = SqliteStatement::prepare(connection_, sqlite_sql::kShow);
        if (!statement) return Failure(std::move(statement.error()));
        auto found = statement->bind(1, outbox_id).step();
        if (!found) return Failure(std::move(found.error()));
        if (!*found) return std::nullopt;
        return memory_row(*statement);
    }

private:
    Result<bool> mark_dead_with_letter(std::int64_t outbox_id, std::string_view worker_id, std::string_view error) {
        auto dead = change(sqlite_sql::kMarkDead, outbox_id, worker_id, [&](SqliteStatement& s) { s.bind(3, error); });
        if (!dead || !*dead) return dead;
        return change(sqlite_sql::kMemoryLetter, outbox_id, worker_id,
                      [](SqliteStatement& s) { s.bind(3, sqlite_sql::kMemoryLane); });
    }

    /// Runs one guarded update; `bind_rest` binds from 3 on.
    template <typename BindRest>
    Result<bool> change(std::string_view sql, std::int64_t outbox_id, std::string_view worker_id, BindRest bind_rest) {
        auto statement = SqliteStatement::prepare(connection_, sql);
        if (!statement) return Failure(std::move(statement.error()));
        statement->bind(1, outbox_id).bind(2, worker_id);
        bind_rest(*statement);
        if (auto done = statement->run(); !done) return Failure(std::move(done.error()));
        return sqlite3_changes(connection_) == 1;
    }

    sqlite3* connection_;
};

}  // namespace
}  // namespace deliverd::client

namespace deliverd {

std::unique_ptr<Lease> lease_on(sqlite3* connection) {
    return std::make_unique<client::SqliteLease>(connection);
}

}  // namespace deliverd
