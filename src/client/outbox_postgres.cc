#include "client/outbox_postgres.h"

#include <utility>

#include "client/lease_arguments.h"
#include "client/outbox_arguments.h"
#include "client/postgres_query.h"
#include "client/statements.h"

namespace deliverd::client {
namespace {

class PostgresEvents final : public Outbox {
public:
    explicit PostgresEvents(std::unique_ptr<PostgresCall> call) : query_(std::move(call)) {}

    Result<std::int64_t> add(const NewEvent& event) override {
        TRY(check_event(event));
        return query_.value<std::int64_t>(Effect::write, "select deliverd.add_event($1, $2, $3, $4)",
                                          event.aggregate_id, event.event_type, event.payload, event.metadata);
    }

    Result<std::vector<Event>> fetch_unpublished(std::int32_t limit) override {
        TRY(check_limit(limit));
        return query_.rows<Event>(Effect::read, sql::postgres_fetch_unpublished, limit);
    }

    Result<bool> mark_published(std::int64_t id) override {
        return query_.value<bool>(Effect::write, "select deliverd.mark_published($1)", id);
    }

    Result<std::optional<std::int32_t>> increment_retry_count(std::int64_t id, std::string_view error) override {
        TRY(check_text("error", error));
        return query_.value<std::optional<std::int32_t>>(Effect::write, "select deliverd.increment_retry_count($1, $2)",
                                                         id, error);
    }

    Result<std::int64_t> delete_published(double older_than_seconds, std::int32_t limit) override {
        TRY(check_age(older_than_seconds));
        TRY(check_limit(limit));
        return query_.value<std::int64_t>(Effect::write, "select deliverd.delete_published($1, $2)", older_than_seconds,
                                          limit);
    }

    Result<OutboxStats> stats() override {
        TRY_ASSIGN(const auto stats, query_.row<OutboxStats>(Effect::read, sql::postgres_event_stats));
        return stats.value_or(OutboxStats{});
    }

    Result<std::vector<Event>> by_aggregate(std::string_view aggregate_id, std::int32_t limit) override {
        TRY(check_text("aggregate_id", aggregate_id));
        TRY(check_limit(limit));
        return query_.rows<Event>(Effect::read, sql::postgres_events_by_aggregate, aggregate_id, limit);
    }

    Result<std::optional<Event>> show(std::int64_t id) override {
        return query_.row<Event>(Effect::read, sql::postgres_show_event, id);
    }

private:
    PostgresQuery query_;
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
