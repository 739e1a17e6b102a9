#include <utility>

#include "client/lease_arguments.h"
#include "client/outbox_arguments.h"
#include "client/sqlite_events.h"
#include "client/sqlite_rows.h"
#include "client/sqlite_statement.h"
#include "deliverd/outbox.h"

namespace deliverd::client {
namespace {

Event event_at(const SqliteStatement& row) {
    Event out;
    out.id = row.integer(0);
    out.aggregate_id = row.text(1);
    out.event_type = row.text(2);
    out.payload = row.text(3);
    out.metadata = row.text(4);
    out.event_id = row.text(5);
    out.created_at = row.text(6);
    out.published = row.integer(7) != 0;
    out.published_at = row.optional_text(8);
    out.retry_count = static_cast<std::int32_t>(row.integer(9));
    out.next_attempt_at = row.optional_text(10);
    out.last_error = row.optional_text(11);
    out.dead_at = row.optional_text(12);
    return out;
}

class SqliteEvents final : public Outbox {
public:
    explicit SqliteEvents(sqlite3* connection) : connection_(connection) {}

    Result<std::int64_t> add(const NewEvent& event) override {
        if (auto ok = check_event(event); !ok) return Failure(std::move(ok.error()));
        std::int64_t id = 0;
        auto done = rows(
            sqlite_sql::kAddEvent,
            [&](SqliteStatement& s) {
                s.bind(1, event.aggregate_id).bind(2, event.event_type).bind(3, event.payload).bind(4, event.metadata);
            },
            [&](const SqliteStatement& row) { id = row.integer(0); });
        if (!done) return Failure(std::move(done.error()));
        return id;
    }

    Result<std::vector<Event>> fetch_unpublished(std::int32_t limit) override {
        if (auto ok = check_event_limit(limit); !ok) return Failure(std::move(ok.error()));
        return events(sqlite_sql::kFetchUnpublished, [&](SqliteStatement& s) { s.bind(1, std::int64_t{limit}); });
    }

    Result<bool> mark_published(std::int64_t id) override {
        auto changed = count(sqlite_sql::kMarkPublished, [&](SqliteStatement& s) { s.bind(1, id); });
        if (!changed) return Failure(std::move(changed.error()));
        return *changed == 1;
    }

    Result<std::optional<std::int32_t>> increment_retry_count(std::int64_t id, std::string_view error) override {
        if (auto ok = check_text("error", error); !ok) return Failure(std::move(ok.error()));
        std::optional<std::int32_t> counted;
        auto done = rows(
            sqlite_sql::kIncrementRetryCount, [&](SqliteStatement& s) { s.bind(1, id).bind(2, error); },
            [&](const SqliteStatement& row) { counted = static_cast<std::int32_t>(row.integer(0)); });
        if (!done) return Failure(std::move(done.error()));
        return counted;
    }

    Result<std::int64_t> delete_published(double older_than_seconds, std::int32_t limit) override {
        if (auto ok = check_age(older_than_seconds); !ok) return Failure(std::move(ok.error()));
        if (auto ok = check_event_limit(limit); !ok) return Failure(std::move(ok.error()));
        const std::string age = lease_modifier(older_than_seconds);
        return count(sqlite_sql::kDeletePublished,
                     [&](SqliteStatement& s) { s.bind(1, std::string_view(age)).bind(2, std::int64_t{limit}); });
    }

    Result<OutboxStats> stats() override {
        OutboxStats stats;
        auto done = rows(
            sqlite_sql::kEventStats, [](SqliteStatement&) {},
            [&](const SqliteStatement& row) {
                stats = {row.integer(0), row.integer(1), row.integer(2),
                         row.integer(3), std::nullopt,   static_cast<std::int32_t>(row.integer(5))};
                if (!row.is_null(4)) stats.oldest_unpublished_age_seconds = row.real(4);
            });
        if (!done) return Failure(std::move(done.error()));
        return stats;
    }

    Result<std::vector<Event>> by_aggregate(std::string_view aggregate_id, std::int32_t limit) override {
        if (auto ok = check_text("aggregate_id", aggregate_id); !ok) return Failure(std::move(ok.error()));
        if (auto ok = check_event_limit(limit); !ok) return Failure(std::move(ok.error()));
        return events(sqlite_sql::kEventsByAggregate,
                      [&](SqliteStatement& s) { s.bind(1, aggregate_id).bind(2, std::int64_t{limit}); });
    }

    Result<std::optional<Event>> show(std::int64_t id) override {
        auto found = events(sqlite_sql::kShowEvent, [&](SqliteStatement& s) { s.bind(1, id); });
        if (!found) return Failure(std::move(found.error()));
        if (found->empty()) return std::nullopt;
        return std::move(found->front());
    }

private:
    /// Every row that the statement answers, to its end: only then are its changes made.
    template <typename Bind, typename Read>
    Result<void> rows(std::string_view sql, Bind bind, Read read) {
        auto statement = SqliteStatement::prepare(connection_, sql);
        if (!statement) return Failure(std::move(statement.error()));
        bind(*statement);
        for (;;) {
            auto more = statement->step();
            if (!more) return Failure(std::move(more.error()));
            if (!*more) return {};
            read(*statement);
        }
    }

    template <typename Bind>
    Result<std::vector<Event>> events(std::string_view sql, Bind bind) {
        std::vector<Event> found;
        auto done = rows(sql, bind, [&](const SqliteStatement& row) { found.push_back(event_at(row)); });
        if (!done) return Failure(std::move(done.error()));
        return found;
    }

    template <typename Bind>
    Result<std::int64_t> count(std::string_view sql, Bind bind) {
        std::int64_t counted = 0;
        auto done = rows(sql, bind, [&](const SqliteStatement&) { ++counted; });
        if (!done) return Failure(std::move(done.error()));
        return counted;
    }

    sqlite3* connection_;
};

}  // namespace
}  // namespace deliverd::client

namespace deliverd {

std::unique_ptr<Outbox> outbox_on(sqlite3* connection) {
    return std::make_unique<client::SqliteEvents>(connection);
}

}  // namespace deliverd
