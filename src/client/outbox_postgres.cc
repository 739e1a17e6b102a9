#include "client/outbox_postgres.h"

#include <utility>

#include "client/decimal.h"
#include "client/lease_arguments.h"
#include "client/outbox_arguments.h"
#include "client/postgres_cells.h"

namespace deliverd::client {
namespace {

using Values = std::vector<std::optional<std::string>>;

#define DELIVERD_UTC(column) "to_char(" column " at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
#define DELIVERD_EVENT \
    "select id, aggregate_id, event_type, payload, metadata, event_id, " DELIVERD_UTC("created_at") \
    ", published, " DELIVERD_UTC("published_at") ", retry_count, " DELIVERD_UTC("next_attempt_at") \
    ", last_error, " DELIVERD_UTC("dead_at") " from "
constexpr const char* kFetch = DELIVERD_EVENT "deliverd.fetch_unpublished($1)";
constexpr const char* kByAggregate = DELIVERD_EVENT "deliverd.events_by_aggregate($1, $2)";
constexpr const char* kShow = DELIVERD_EVENT "deliverd.show_event($1)";
#undef DELIVERD_EVENT
#undef DELIVERD_UTC

Event event_at(const PGresult* r, int row) {
    Event out;
    out.id = integer_cell(r, row, 0);
    out.aggregate_id = cell(r, row, 1);
    out.event_type = cell(r, row, 2);
    out.payload = cell(r, row, 3);
    out.metadata = cell(r, row, 4);
    out.event_id = cell(r, row, 5);
    out.created_at = cell(r, row, 6);
    out.published = cell(r, row, 7) == "t";
    out.published_at = optional_cell(r, row, 8);
    out.retry_count = static_cast<std::int32_t>(integer_cell(r, row, 9));
    out.next_attempt_at = optional_cell(r, row, 10);
    out.last_error = optional_cell(r, row, 11);
    out.dead_at = optional_cell(r, row, 12);
    return out;
}

class PostgresEvents final : public Outbox {
public:
    explicit PostgresEvents(std::unique_ptr<PostgresCall> call) : call_(std::move(call)) {}

    Result<std::int64_t> add(const NewEvent& event) override {
        if (auto ok = check_event(event); !ok) return Failure(std::move(ok.error()));
        auto result = write("select deliverd.add_event($1, $2, $3, $4)",
                            {std::string(event.aggregate_id), std::string(event.event_type), std::string(event.payload),
                             std::string(event.metadata)});
        if (!result) return Failure(std::move(result.error()));
        return integer_cell(result->get(), 0, 0);
    }

    Result<std::vector<Event>> fetch_unpublished(std::int32_t limit) override {
        if (auto ok = check_event_limit(limit); !ok) return Failure(std::move(ok.error()));
        return events(kFetch, {std::to_string(limit)});
    }

    Result<bool> mark_published(std::int64_t id) override {
        auto result = write("select deliverd.mark_published($1)", {std::to_string(id)});
        if (!result) return Failure(std::move(result.error()));
        return cell(result->get(), 0, 0) == "t";
    }

    Result<std::optional<std::int32_t>> increment_retry_count(std::int64_t id, std::string_view error) override {
        if (auto ok = check_text("error", error); !ok) return Failure(std::move(ok.error()));
        auto result = write("select deliverd.increment_retry_count($1, $2)", {std::to_string(id), std::string(error)});
        if (!result) return Failure(std::move(result.error()));
        if (PQgetisnull(result->get(), 0, 0) != 0) return std::nullopt;
        return static_cast<std::int32_t>(integer_cell(result->get(), 0, 0));
    }

    Result<std::int64_t> delete_published(double older_than_seconds, std::int32_t limit) override {
        if (auto ok = check_age(older_than_seconds); !ok) return Failure(std::move(ok.error()));
        if (auto ok = check_event_limit(limit); !ok) return Failure(std::move(ok.error()));
        auto result =
            write("select deliverd.delete_published($1, $2)", {decimal(older_than_seconds), std::to_string(limit)});
        if (!result) return Failure(std::move(result.error()));
        return integer_cell(result->get(), 0, 0);
    }

    Result<OutboxStats> stats() override {
        auto result = call_->run(
            "select total, unpublished, published, dead, oldest_unpublished_age_seconds, max_retries"
            " from deliverd.outbox_stats()",
            {}, Effect::read);
        if (!result) return Failure(std::move(result.error()));
        const PGresult* r = result->get();
        OutboxStats stats{integer_cell(r, 0, 0), integer_cell(r, 0, 1),
                          integer_cell(r, 0, 2), integer_cell(r, 0, 3),
                          std::nullopt,          static_cast<std::int32_t>(integer_cell(r, 0, 5))};
        if (PQgetisnull(r, 0, 4) == 0) stats.oldest_unpublished_age_seconds = real_cell(r, 0, 4);
        return stats;
    }

    Result<std::vector<Event>> by_aggregate(std::string_view aggregate_id, std::int32_t limit) override {
        if (auto ok = check_text("aggregate_id", aggregate_id); !ok) return Failure(std::move(ok.error()));
        if (auto ok = check_event_limit(limit); !ok) return Failure(std::move(ok.error()));
        return events(kByAggregate, {std::string(aggregate_id), std::to_string(limit)});
    }

    Result<std::optional<Event>> show(std::int64_t id) override {
        auto found = events(kShow, {std::to_string(id)});
        if (!found) return Failure(std::move(found.error()));
        if (found->empty()) return std::nullopt;
        return std::move(found->front());
    }

private:
    Result<PgResult> write(const char* sql, Values values) { return call_->run(sql, values, Effect::write); }

    Result<std::vector<Event>> events(const char* sql, Values values) {
        auto result = call_->run(sql, values, Effect::read);
        if (!result) return Failure(std::move(result.error()));
        std::vector<Event> rows;
        const int count = PQntuples(result->get());
        rows.reserve(static_cast<std::size_t>(count));
        for (int i = 0; i < count; ++i) rows.push_back(event_at(result->get(), i));
        return rows;
    }

    std::unique_ptr<PostgresCall> call_;
};

}  // namespace

std::unique_ptr<Outbox> outbox_over(std::unique_ptr<PostgresCall> call) {
    return std::make_unique<PostgresEvents>(std::move(call));
}

}  // namespace deliverd::client

namespace deliverd {

std::unique_ptr<Outbox> outbox_on(pg_conn* connection) {
    return client::outbox_over(client::on_callers_connection(connection));
}

}  // namespace deliverd
