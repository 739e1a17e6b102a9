#include <array>
#include <charconv>
#include <type_traits>
#include <utility>

#include "base/try.h"
#include "client/arguments.h"
#include "client/postgres_call.h"
#include "client/protocol_rows.h"
#include "client/sql_values.h"
#include "client/statements.h"

// The protocols are functions of the schema, so that every language runs the same code in one round trip. Arguments are
// checked here as well: the server would refuse them with its own words, and on a caller's transaction each refusal by
// the server ends that transaction.

namespace deliverd::client {
namespace {

/// A row of a result in text format; the result outlives it.
class PostgresRow {
public:
    PostgresRow(const PGresult* result, int row) : result_(result), row_(row) {}

    /// Cells from the first column on, each as its target's type. NULL is none, 0 or "".
    template <typename... Targets>
    void read(Targets&... targets) const {
        int column = 0;
        ((targets = get<Targets>(column++)), ...);
    }
    template <typename T>
    [[nodiscard]] T get(int column = 0) const {
        const std::string_view text(PQgetvalue(result_, row_, column),
                                    static_cast<std::size_t>(PQgetlength(result_, row_, column)));
        if constexpr (std::is_same_v<T, bool>) {
            return text == "t";
        } else if constexpr (std::is_arithmetic_v<T>) {
            T number = 0;
            std::from_chars(text.data(), text.data() + text.size(), number);
            return number;
        } else if constexpr (std::is_constructible_v<T, std::nullopt_t>) {
            return PQgetisnull(result_, row_, column) != 0 ? T() : T(get<typename T::value_type>(column));
        } else {
            return T(text);
        }
    }

private:
    const PGresult* result_;
    int row_;
};

/// Statements with typed values in and typed rows out. Values are numbers, text, or optionals of these (NULL when there
/// is none).
class PostgresQuery {
public:
    explicit PostgresQuery(std::unique_ptr<PostgresCall> call) : call_(std::move(call)) {}

    /// The first cell of the only row: what a function that changes something answers.
    template <typename T, typename... Values>
    Result<T> value(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(const auto result, run(Effect::write, sql, values...));
        return PostgresRow(result.get(), 0).get<T>();
    }
    template <typename T, typename... Values>
    Result<std::vector<T>> rows(Effect effect, std::string_view sql, const Values&... values) {
        TRY_ASSIGN(const auto result, run(effect, sql, values...));
        std::vector<T> found;
        const int count = PQntuples(result.get());
        found.reserve(static_cast<std::size_t>(count));
        for (int i = 0; i < count; ++i) found.push_back(row_as<T>(PostgresRow(result.get(), i)));
        return found;
    }
    /// Of a statement that only reads.
    template <typename T, typename... Values>
    Result<std::optional<T>> row(std::string_view sql, const Values&... values) {
        TRY_ASSIGN(auto found, rows<T>(Effect::read, sql, values...));
        return found.empty() ? std::nullopt : std::optional<T>(std::move(found.front()));
    }

private:
    template <typename T>
    static std::optional<std::string> text(const T& value) {
        if constexpr (std::is_floating_point_v<T>) {
            return decimal(value);
        } else if constexpr (std::is_integral_v<T>) {
            return std::to_string(value);
        } else {
            return std::string(value);
        }
    }
    template <typename T>
    static std::optional<std::string> text(const std::optional<T>& value) {
        return value ? text(*value) : std::nullopt;
    }
    template <typename... Values>
    Result<PgResult> run(Effect effect, std::string_view sql, const Values&... values) {
        const std::array<std::optional<std::string>, sizeof...(Values)> texts = {text(values)...};
        return call_->run(std::string(sql).c_str(), texts, effect);
    }

    std::unique_ptr<PostgresCall> call_;
};

class PostgresLease final : public Lease {
public:
    explicit PostgresLease(std::unique_ptr<PostgresCall> call) : query_(std::move(call)) {}

    Result<std::int64_t> enqueue_memory(std::string_view target_space, std::string_view payload_md,
                                        std::optional<std::int64_t> item_id, std::int64_t max_payload_bytes) override {
        TRY(check_memory(target_space, payload_md, max_payload_bytes));
        return query_.value<std::int64_t>("select deliverd.enqueue_memory($1, $2, $3, $4)", target_space, payload_md,
                                          item_id, max_payload_bytes);
    }

    Result<std::vector<MemoryRow>> claim_outbox(std::string_view worker_id, std::int32_t limit,
                                                double lease_seconds) override {
        TRY(check_claim(worker_id, limit, lease_seconds));
        return query_.rows<MemoryRow>(Effect::write, sql::postgres_claim, worker_id, limit, lease_seconds);
    }

    Result<bool> ack_sent(std::int64_t outbox_id, std::string_view worker_id,
                          std::optional<std::string_view> memory_id) override {
        TRY(check_settle(worker_id, "memory_id", memory_id.value_or("")));
        return query_.value<bool>("select deliverd.ack_sent($1, $2, $3)", outbox_id, worker_id, memory_id);
    }

    Result<bool> fail_retry(std::int64_t outbox_id, std::string_view worker_id, std::string_view error,
                            std::string_view next_attempt_at) override {
        TRY(check_settle(worker_id, "error", error));
        TRY(check_time("next_attempt_at", next_attempt_at));
        return query_.value<bool>("select deliverd.fail_retry($1, $2, $3, $4)", outbox_id, worker_id, error,
                                  next_attempt_at);
    }

    Result<bool> mark_dead_by_worker(std::int64_t outbox_id, std::string_view worker_id,
                                     std::string_view error) override {
        TRY(check_settle(worker_id, "error", error));
        return query_.value<bool>("select deliverd.mark_dead_by_worker($1, $2, $3)", outbox_id, worker_id, error);
    }

    Result<bool> renew_lease(std::int64_t outbox_id, std::string_view worker_id) override {
        TRY(check_worker(worker_id));
        return query_.value<bool>("select deliverd.renew_lease($1, $2)", outbox_id, worker_id);
    }

    Result<std::int64_t> renew_lease_batch(std::span<const std::int64_t> outbox_ids,
                                           std::string_view worker_id) override {
        TRY(check_worker(worker_id));
        return query_.value<std::int64_t>("select deliverd.renew_lease_batch($1, $2)",
                                          number_list('{', outbox_ids, '}'), worker_id);
    }

    Result<std::optional<DedupHit>> check_dedup(std::string_view target_space, std::string_view payload_sha) override {
        TRY(check_text("target_space", target_space));
        TRY(check_text("payload_sha", payload_sha));
        return query_.row<DedupHit>("select outbox_id, memory_id from deliverd.check_dedup($1, $2)", target_space,
                                    payload_sha);
    }

    Result<std::optional<MemoryRow>> show(std::int64_t outbox_id) override {
        return query_.row<MemoryRow>(sql::postgres_show, outbox_id);
    }

private:
    PostgresQuery query_;
};

class PostgresEvents final : public Outbox {
public:
    explicit PostgresEvents(std::unique_ptr<PostgresCall> call) : query_(std::move(call)) {}

    Result<std::int64_t> add(const NewEvent& event) override {
        TRY(check_event(event));
        return query_.value<std::int64_t>("select deliverd.add_event($1, $2, $3, $4)", event.aggregate_id,
                                          event.event_type, event.payload, event.metadata);
    }

    Result<std::vector<Event>> fetch_unpublished(std::int32_t limit) override {
        TRY(check_limit(limit));
        return query_.rows<Event>(Effect::read, sql::postgres_fetch_unpublished, limit);
    }

    Result<bool> mark_published(std::int64_t id) override {
        return query_.value<bool>("select deliverd.mark_published($1)", id);
    }

    Result<std::optional<std::int32_t>> increment_retry_count(std::int64_t id, std::string_view error) override {
        TRY(check_text("error", error));
        return query_.value<std::optional<std::int32_t>>("select deliverd.increment_retry_count($1, $2)", id, error);
    }

    Result<std::int64_t> delete_published(double older_than_seconds, std::int32_t limit) override {
        TRY(check_seconds("older_than_seconds", older_than_seconds));
        TRY(check_limit(limit));
        return query_.value<std::int64_t>("select deliverd.delete_published($1, $2)", older_than_seconds, limit);
    }

    Result<OutboxStats> stats() override {
        TRY_ASSIGN(const auto stats, query_.row<OutboxStats>(sql::postgres_event_stats));
        return stats.value_or(OutboxStats{});
    }

    Result<std::vector<Event>> by_aggregate(std::string_view aggregate_id, std::int32_t limit) override {
        TRY(check_text("aggregate_id", aggregate_id));
        TRY(check_limit(limit));
        return query_.rows<Event>(Effect::read, sql::postgres_events_by_aggregate, aggregate_id, limit);
    }

    Result<std::optional<Event>> show(std::int64_t id) override {
        return query_.row<Event>(sql::postgres_show_event, id);
    }

private:
    PostgresQuery query_;
};

}  // namespace

std::unique_ptr<Lease> lease_over(std::unique_ptr<PostgresCall> call) {
    return std::make_unique<PostgresLease>(std::move(call));
}

std::unique_ptr<Outbox> outbox_over(std::unique_ptr<PostgresCall> call) {
    return std::make_unique<PostgresEvents>(std::move(call));
}

}  // namespace deliverd::client

namespace deliverd {

std::unique_ptr<Lease> lease_on(pg_conn* connection) {
    return client::lease_over(client::on_callers_connection(connection));
}

std::unique_ptr<Outbox> outbox_on(pg_conn* connection) {
    return client::outbox_over(client::on_callers_connection(connection));
}

}  // namespace deliverd
