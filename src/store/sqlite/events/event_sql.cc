#include "store/sqlite/events/event_sql.h"

#include "base/assert.h"
#include "store/event_row.h"
#include "store/sqlite/events/statements.h"

namespace deliverd::store::sqlite {

EventSql::EventSql(const EventTable& table, bool indexed, EventNulls nulls)
    : columns_(table.columns), own_(keeps_failures(columns_)), separate_nulls_(own_ && nulls.aggregate_id) {
    // The condition of a partial index has to be in the statement as it is, and a column that may be null changes it.
    ASSERT(!indexed || !nulls.any());
    names_.set("table", quoted_table(table.table));
    names_.define("now", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')");
    names_.define("then", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?4)");
    names_.define("lane", "?5");
    for (const auto& [name, column] : kEventColumns) names_.set(name, quoted(columns_.*column));
    for (const std::string index : {"outbox_open", "outbox_open_aggregate", "outbox_waiting_aggregate",
                                    "outbox_waiting_due", "outbox_dead", "outbox_published"}) {
        names_.set("by_" + index, indexed ? " indexed by " + index : "");
    }
    for (const char* alias : {"o", "w"}) add_row(alias, nulls);
    names_.define("open", either("{o.unpublished} and o.{dead_at} is null", "{o.unpublished}"));
    // Null means "at once", and sorts as '' before every time.
    names_.define("due_at", either("coalesce(o.{next_attempt_at}, '')", "coalesce(f.next_attempt_at, '')"));
    add_columns(table.shards);
    names_.define("in_shards", "{shard} in (select value from json_each(?1))");
    names_.define("w.waits", either("w.{retry_count} > 0 and w.{dead_at} is null", "f.dead_at is null"));
    const std::string_view died = either("w.{dead_at} is not null", "f.dead_at is not null");
    names_.set("behind_waiting", failed_before("{w.waits}", "<", "{by_outbox_waiting_aggregate}"));
    names_.set("behind_dead", table.block_behind_dead ? failed_before(died, "<", "{by_outbox_dead}") : "false");

    SqlValues due = names_;
    due.define("failures", either("o.{retry_count}", "f.retry_count"));
    due.define("failed_rows", either(events::sql::own_failed_rows, events::sql::lines_failed_rows));
    due_ = due.fill(events::sql::due);
    add_settling(table);
}

void EventSql::add_row(const std::string& alias, EventNulls nulls) {
    const auto add = [&](const std::string& name, std::string_view text) {
        names_.define(replaced(name, "@", alias), replaced(std::string(text), "@", alias));
    };
    add("@.aggregate", nulls.aggregate_id ? "coalesce(@.{aggregate_id}, '')" : "@.{aggregate_id}");
    add("@.retries", nulls.retry_count ? "coalesce(@.{retry_count}, 0)" : "@.{retry_count}");
    add("@.unpublished", columns_.published.empty() ? "true"
                         : nulls.published          ? "@.{published} is not true"
                                                    : "not @.{published}");
    add("f.about_@", tells_events_apart(columns_) ? "coalesce(f.event_id = cast(@.{event_id} as text), true)"
                                                  : "f.aggregate_id = cast({@.aggregate} as text)");
}

/// What the reading statements answer of a row.
void EventSql::add_columns(std::int32_t shards) {
    const bool dated = !columns_.created_at.empty();
    // The row's id replaces a missing event id.
    names_.define("message_id", columns_.event_id.empty() ? "o.{id}" : "coalesce(o.{event_id}, o.{id})");
    names_.define("its_metadata", columns_.metadata.empty() ? "'{}'" : "o.{metadata}");
    names_.define("its_aggregate_type", columns_.aggregate_type.empty() ? "''" : "o.{aggregate_type}");
    names_.define("created", dated ? "strftime('%Y-%m-%dT%H:%M:%fZ', o.{created_at})" : "''");
    names_.define("age", dated ? "(julianday('now') - julianday(o.{created_at})) * 86400.0" : "0.0");
    // A function of the file's connections (file/row_values.h): SQLite has no hash of its own.
    names_.define("shard", "deliverd_shard(o.{aggregate_id}, " + std::to_string(shards) + ")");
}

/// Made once, because a batch runs them for each of its rows.
void EventSql::add_settling(const EventTable& table) {
    SqlValues sql = names_;
    sql.define("unchanged", either(events::sql::own_unchanged, events::sql::lines_unchanged));
    sql.define("published_when", columns_.published_at.empty() ? "" : ", {published_at} = {now}");
    sql.define("kept_event_id", tells_events_apart(columns_) ? "cast(o.{event_id} as text)" : "null");
    const bool remove = table.after_publish == AfterPublish::remove || columns_.published.empty();
    sent_ = sql.fill(remove ? events::sql::sent_and_removed : events::sql::sent_and_marked);
    const std::string_view failed = either(events::sql::own_failed, events::sql::lines_failed);
    sql.define("changed_time", either("{next_attempt_at} = {then}", "{then}, null"));
    retry_ = sql.fill(failed);
    sql.define("changed_time", either("{dead_at} = {now}", "null, {now}"));
    dead_ = sql.fill(failed);
}

std::string EventSql::failed_before(std::string_view state, std::string_view compare, std::string_view index) const {
    SqlValues sql = names_;
    sql.define("state", state);
    sql.define("compare", compare);
    sql.define("by_index", index);
    return sql.fill(separate_nulls_ ? events::sql::own_failed_before_nullable
                                    : either(events::sql::own_failed_before, events::sql::lines_failed_before));
}

std::string EventSql::forward(bool after, bool up_to) const {
    SqlValues sql = names_;
    sql.define("failures", "0");
    sql.define("fresh", either("{o.retries} = 0", events::sql::lines_fresh));
    // A text of its own for each case: SQLite takes no range of an index for `?3 is null or id > ?3`.
    sql.define("range", std::string(after ? " and o.{id} > ?3" : "") + (up_to ? " and o.{id} <= ?4" : ""));
    return sql.fill(events::sql::forward);
}

std::string EventSql::follow(bool after, bool unnamed) const {
    SqlValues sql = names_;
    sql.define("failures", either("{o.retries}", "coalesce(f.retry_count, 0)"));
    sql.define("open_rows", either(events::sql::own_open_rows, events::sql::lines_open_rows));
    sql.define("followed_aggregate", unnamed ? "{o.aggregate}" : "o.{aggregate_id}");
    sql.define("range", after ? " and o.{id} > ?3" : "");
    // Here a row's own wait counts as well.
    const std::string_view due = either("coalesce(w.{next_attempt_at}, '')", "coalesce(f.next_attempt_at, '')");
    sql.set("behind_waiting",
            failed_before("{w.waits} and " + std::string(due) + " > {now}", "<=", "{by_outbox_waiting_aggregate}"));
    return sql.fill(events::sql::follow);
}

std::string EventSql::lag(bool by_id) const {
    if (columns_.created_at.empty()) return "select 0.0";
    SqlValues sql = names_;
    sql.define("lane", "?1");
    sql.define("not_waiting", either("not ({o.retries} > 0 and {due_at} > {now})", events::sql::lines_not_waiting));
    return sql.fill(by_id ? events::sql::first_age : events::sql::highest_age);
}

std::string EventSql::counts() const {
    SqlValues sql = names_;
    sql.define("lane", "?1");
    sql.define("dead", either("o.{dead_at} is not null", events::sql::lines_dead));
    return sql.fill(events::sql::counts);
}

std::string EventSql::remove_published() const {
    const bool dated = !columns_.created_at.empty();
    if (columns_.published.empty() || (columns_.published_at.empty() && !dated)) return "";
    SqlValues sql = names_;
    sql.define("published_time", columns_.published_at.empty() ? "o.{created_at}"
                                 : dated                       ? "coalesce(o.{published_at}, o.{created_at})"
                                                               : "o.{published_at}");
    return sql.fill(events::sql::remove_published);
}

}  // namespace deliverd::store::sqlite
