#include <algorithm>
#include <tuple>
#include <utility>

#include "base/sha256.h"
#include "base/text.h"
#include "base/try.h"
#include "client/arguments.h"
#include "client/protocol_rows.h"
#include "client/sql_values.h"
#include "client/sqlite_statement.h"
#include "client/statements.h"

namespace deliverd::client {
namespace {

/// Statements on the caller's connection, which outlives it: typed values in, typed rows out.
/// Prepares each statement anew: a statement that is kept would keep the caller from closing the connection.
class SqliteQuery : public SqliteCalls<SqliteQuery> {
public:
    explicit SqliteQuery(sqlite3* connection) : connection_(connection) {}

    template <typename T, typename... Values>
    Result<std::vector<T>> rows(std::string_view sql, const Values&... values) {
        return all(sql, &row_as<T, SqliteStatement>, values...);
    }
    template <typename T, typename... Values>
    Result<std::optional<T>> row(std::string_view sql, const Values&... values) {
        return one(sql, &row_as<T, SqliteStatement>, values...);
    }

    [[nodiscard]] Result<std::unique_ptr<SqliteStatement>> prepared(std::string_view sql) const {
        TRY_ASSIGN(auto statement, SqliteStatement::prepare(connection_, sql));
        return std::make_unique<SqliteStatement>(std::move(statement));
    }
    [[nodiscard]] sqlite3* raw() const { return connection_; }

private:
    sqlite3* connection_;
};

/// The lane of rows that a worker without a lane gave up.
constexpr std::string_view kMemoryLane = "memory";

class SqliteLease final : public Lease {
public:
    explicit SqliteLease(sqlite3* connection) : query_(connection) {}

    Result<std::int64_t> enqueue_memory(std::string_view target_space, std::string_view payload_md,
                                        std::optional<std::int64_t> item_id, std::int64_t max_payload_bytes) override {
        TRY(check_memory(target_space, payload_md, max_payload_bytes));
        TRY_ASSIGN(const auto id,
                   query_.value<std::int64_t>(sql::enqueue, target_space, payload_md, sha256_hex(payload_md), item_id));
        return id.value_or(0);
    }

    Result<std::vector<MemoryRow>> claim_outbox(std::string_view worker_id, std::int32_t limit,
                                                double lease_seconds) override {
        TRY(check_claim(worker_id, limit, lease_seconds));
        // What an UPDATE returns comes in any order.
        TRY_ASSIGN(auto rows, query_.rows<MemoryRow>(sql::claim, worker_id, limit, time_ago(lease_seconds), "", 0));
        std::sort(rows.begin(), rows.end(), [](const MemoryRow& a, const MemoryRow& b) {
            return std::tie(a.next_attempt_at, a.outbox_id) < std::tie(b.next_attempt_at, b.outbox_id);
        });
        return rows;
    }

    Result<bool> ack_sent(std::int64_t outbox_id, std::string_view worker_id,
                          std::optional<std::string_view> memory_id) override {
        TRY(check_settle(worker_id, "memory_id", memory_id.value_or("")));
        std::optional<std::string> note;
        if (memory_id) note = "memory_id=" + std::string(*memory_id);
        return changed(sql::ack_sent, outbox_id, worker_id, note);
    }

    Result<bool> fail_retry(std::int64_t outbox_id, std::string_view worker_id, std::string_view error,
                            std::string_view next_attempt_at) override {
        TRY(check_settle(worker_id, "error", error));
        TRY(check_time("next_attempt_at", next_attempt_at));
        // Times are compared as text: all must have the tables' form.
        return changed(sql::fail_retry, outbox_id, worker_id, error, rfc3339_millis(*parse_rfc3339(next_attempt_at)));
    }

    /// The row and its dead letter: both or neither, also where the caller is in no transaction.
    Result<bool> mark_dead_by_worker(std::int64_t outbox_id, std::string_view worker_id,
                                     std::string_view error) override {
        TRY(check_settle(worker_id, "error", error));
        // A savepoint works inside a caller's transaction and outside of one, where it is a transaction itself.
        TRY(sqlite_run(query_.raw(), "savepoint deliverd_dead"));
        auto dead = mark_dead_with_letter(outbox_id, worker_id, error);
        const bool keep = dead && *dead;
        auto ended = sqlite_run(query_.raw(),
                                keep ? "release deliverd_dead" : "rollback to deliverd_dead; release deliverd_dead");
        if (dead && !ended) {
            // A release that ends the transaction can find the file busy: the savepoint must not stay open.
            static_cast<void>(sqlite_run(query_.raw(), "rollback to deliverd_dead; release deliverd_dead"));
            return Failure(ended.error());
        }
        return dead;
    }

    Result<bool> renew_lease(std::int64_t outbox_id, std::string_view worker_id) override {
        TRY(check_worker(worker_id));
        return changed(sql::renew, outbox_id, worker_id);
    }

    Result<std::int64_t> renew_lease_batch(std::span<const std::int64_t> outbox_ids,
                                           std::string_view worker_id) override {
        TRY(check_worker(worker_id));
        return query_.change(sql::renew_batch, json_ids(outbox_ids), worker_id);
    }

    Result<std::optional<DedupHit>> check_dedup(std::string_view target_space, std::string_view payload_sha) override {
        TRY(check_text("target_space", target_space));
        TRY(check_text("payload_sha", payload_sha));
        return query_.row<DedupHit>(sql::check_dedup, target_space, payload_sha);
    }

    Result<std::optional<MemoryRow>> show(std::int64_t outbox_id) override {
        return query_.row<MemoryRow>(sql::show, outbox_id);
    }

private:
    Result<bool> mark_dead_with_letter(std::int64_t outbox_id, std::string_view worker_id, std::string_view error) {
        TRY_ASSIGN(const bool dead, changed(sql::mark_dead, outbox_id, worker_id, error));
        if (!dead) return false;
        return changed(sql::memory_letter, outbox_id, worker_id, kMemoryLane);
    }

    template <typename... Values>
    Result<bool> changed(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(const auto rows, query_.change(sql, values...));
        return rows == 1;
    }

    SqliteQuery query_;
};

class SqliteEvents final : public Outbox {
public:
    explicit SqliteEvents(sqlite3* connection) : query_(connection) {}

    Result<std::int64_t> add(const NewEvent& event) override {
        TRY(check_event(event));
        TRY_ASSIGN(const auto id, query_.value<std::int64_t>(sql::add_event, event.aggregate_id, event.event_type,
                                                             event.payload, event.metadata));
        return id.value_or(0);
    }

    Result<std::vector<Event>> fetch_unpublished(std::int32_t limit) override {
        TRY(check_limit(limit));
        return query_.rows<Event>(sql::fetch_unpublished, limit);
    }

    Result<bool> mark_published(std::int64_t id) override {
        TRY_ASSIGN(const auto changed, query_.change(sql::mark_published, id));
        return changed == 1;
    }

    Result<std::optional<std::int32_t>> increment_retry_count(std::int64_t id, std::string_view error) override {
        TRY(check_text("error", error));
        return query_.value<std::int32_t>(sql::increment_retry_count, id, error);
    }

    Result<std::int64_t> delete_published(double older_than_seconds, std::int32_t limit) override {
        TRY(check_seconds("older_than_seconds", older_than_seconds));
        TRY(check_limit(limit));
        return query_.change(sql::delete_published, time_ago(older_than_seconds), limit);
    }

    Result<OutboxStats> stats() override {
        TRY_ASSIGN(const auto stats, query_.row<OutboxStats>(sql::event_stats));
        return stats.value_or(OutboxStats{});
    }

    Result<std::vector<Event>> by_aggregate(std::string_view aggregate_id, std::int32_t limit) override {
        TRY(check_text("aggregate_id", aggregate_id));
        TRY(check_limit(limit));
        return query_.rows<Event>(sql::events_by_aggregate, aggregate_id, limit);
    }

    Result<std::optional<Event>> show(std::int64_t id) override { return query_.row<Event>(sql::show_event, id); }

private:
    SqliteQuery query_;
};

}  // namespace
}  // namespace deliverd::client

namespace deliverd {

std::unique_ptr<Lease> lease_on(sqlite3* connection) {
    return std::make_unique<client::SqliteLease>(connection);
}

std::unique_ptr<Outbox> outbox_on(sqlite3* connection) {
    return std::make_unique<client::SqliteEvents>(connection);
}

}  // namespace deliverd
