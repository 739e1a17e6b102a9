#include "client/lease_arguments.h"
#include "client/outbox_arguments.h"
#include "client/sql_values.h"
#include "client/sqlite_query.h"
#include "client/statements.h"

namespace deliverd::client {
namespace {

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
        TRY(check_age(older_than_seconds));
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

std::unique_ptr<Outbox> outbox_on(sqlite3* connection) {
    return std::make_unique<client::SqliteEvents>(connection);
}

}  // namespace deliverd
