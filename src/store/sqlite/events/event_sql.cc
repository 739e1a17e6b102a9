#include "store/sqlite/events/event_sql.h"

#include "store/event_row.h"
#include "store/sql_text.h"

namespace deliverd::store::sqlite {
namespace {

constexpr const char* kNow = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/// Null sorts before every time and stands for "at once".
std::string due_time(const std::string& column) {
    return "coalesce(" + column + ", '')";
}

}  // namespace

EventSql::EventSql(const EventTable& table, bool indexed, EventNulls nulls)
    : table_(table),
      indexed_(indexed),
      nulls_(nulls),
      own_state_(keeps_failures(table.columns)),
      name_(quoted_table(table.table)) {}

std::string EventSql::col(const char* alias, const std::string& name) const {
    return std::string(alias) + "." + quoted(name);
}

std::string EventSql::from(const char* alias, const char* index) const {
    return name_ + " as " + alias + (indexed_ ? std::string(" indexed by ") + index : "");
}

/// As text that is never null.
std::string EventSql::aggregate(const char* alias) const {
    const std::string column = col(alias, c_.aggregate_id);
    return nulls_.aggregate_id ? "coalesce(" + column + ", '')" : column;
}

std::string EventSql::retries(const char* alias) const {
    const std::string column = col(alias, c_.retry_count);
    return nulls_.retry_count ? "coalesce(" + column + ", 0)" : column;
}

std::string EventSql::unpublished(const char* alias) const {
    if (c_.published.empty()) return "true";
    return nulls_.published ? col(alias, c_.published) + " is not true" : "not " + col(alias, c_.published);
}

std::string EventSql::open(const char* alias) const {
    return unpublished(alias) + (own_state_ ? " and " + col(alias, c_.dead_at) + " is null" : "");
}

std::string EventSql::answered(const std::string& failures) const {
    const std::string id = col("o", c_.id);
    const std::string created = col("o", c_.created_at);
    const auto or_else = [&](const std::string& name, const char* otherwise) {
        return name.empty() ? std::string(otherwise) : col("o", name);
    };
    return "select " + id + ", " + col("o", c_.aggregate_id) + ", " + col("o", c_.event_type) + ", " +
           col("o", c_.payload) + ", " +
           (c_.event_id.empty() ? id : "coalesce(" + col("o", c_.event_id) + ", " + id + ")") + ", " +
           or_else(c_.metadata, "'{}'") + ", " +
           (c_.created_at.empty() ? "'', 0.0"
                                  : "strftime('%Y-%m-%dT%H:%M:%fZ', " + created + "), (julianday('now') - julianday(" +
                                        created + ")) * 86400.0") +
           ", " + or_else(c_.aggregate_type, "''") + ", " + failures + ", " + shard() + " from ";
}

std::string EventSql::shard() const {
    return "deliverd_shard(" + col("o", c_.aggregate_id) + ", " + std::to_string(table_.shards) + ")";
}

std::string EventSql::in_shards() const {
    return " and " + shard() + " in (select value from json_each(?1))";
}

/// There is an event id, and it is not the row id, which may be used again.
bool EventSql::tells_events_apart() const {
    return !c_.event_id.empty() && c_.event_id != c_.id;
}

/// The line f of failures is about the event in the row `alias`, and not about an earlier one whose row had this id.
std::string EventSql::same_event(const char* alias) const {
    if (!tells_events_apart()) return "f.aggregate_id = cast(" + aggregate(alias) + " as text)";
    return "coalesce(f.event_id = cast(" + col(alias, c_.event_id) + " as text), true)";
}

/// Whether there is a failed row of o's aggregate: `compare` its id with o's, `state` of it.
std::string EventSql::failed_before(const std::string& compare, const std::string& state) const {
    const std::string end = " and " + col("w", c_.id) + " " + compare + " " + col("o", c_.id) + " and " +
                            unpublished("w") + " and " + state + ")";
    if (!own_state_) {
        return "exists (select 1 from deliverd_event_failures as f join " + name_ + " as w on " + col("w", c_.id) +
               " = f.row_id and " + same_event("w") + " where f.lane = ?5 and f.aggregate_id = " + aggregate("o") + end;
    }
    const bool dead = state.ends_with("not null");
    const std::string probe =
        "exists (select 1 from " + from("w", dead ? "outbox_dead" : "outbox_waiting_aggregate") + " where ";
    std::string same = probe + col("w", c_.aggregate_id) + " = " + col("o", c_.aggregate_id) + end;
    if (!nulls_.aggregate_id) return same;
    // Apart from the others, whom an index of the column still serves.
    return "(" + same + " or (" + aggregate("o") + " = '' and " + probe + aggregate("w") + " = ''" + end + "))";
}

std::string EventSql::behind_waiting() const {
    return failed_before("<", own_state_ ? col("w", c_.retry_count) + " > 0 and " + col("w", c_.dead_at) + " is null"
                                         : "f.dead_at is null");
}

std::string EventSql::behind_dead() const {
    if (!table_.block_behind_dead) return "false";
    return failed_before("<", (own_state_ ? col("w", c_.dead_at) : "f.dead_at") + " is not null");
}

std::string EventSql::forward(bool after, bool up_to) const {
    const std::string id = col("o", c_.id);
    std::string sql = answered("0") + from("o", "outbox_open") + " where " + open("o");
    sql += own_state_ ? " and " + retries("o") + " = 0"
                      : " and not exists (select 1 from deliverd_event_failures as f where f.lane = ?5"
                        " and f.row_id = cast(" +
                            id + " as text) and " + same_event("o") + ")";
    if (after) sql += " and " + id + " > ?3";
    if (up_to) sql += " and " + id + " <= ?4";
    return sql + in_shards() + " and not " + behind_waiting() + " and not " + behind_dead() + " order by " + id +
           " limit ?2";
}

std::string EventSql::due() const {
    const std::string id = col("o", c_.id);
    const std::string time = due_time(own_state_ ? col("o", c_.next_attempt_at) : "f.next_attempt_at");
    std::string sql;
    if (own_state_) {
        sql = answered(col("o", c_.retry_count)) + from("o", "outbox_waiting_due") + " where " +
              col("o", c_.retry_count) + " > 0";
    } else {
        sql = answered("f.retry_count") + "deliverd_event_failures as f join " + name_ + " as o on " + id +
              " = f.row_id and " + same_event("o") + " where f.lane = ?5 and f.dead_at is null";
    }
    return sql + " and " + open("o") + " and " + time + " <= " + kNow + in_shards() + " and not " + behind_waiting() +
           " and not " + behind_dead() + " order by " + time + ", " + id + " limit ?2";
}

std::string EventSql::follow(bool after, bool unnamed) const {
    const std::string id = col("o", c_.id);
    std::string sql;
    if (own_state_) {
        sql = answered(retries("o")) + from("o", "outbox_open_aggregate") + " where " + open("o");
    } else {
        sql = answered("coalesce(f.retry_count, 0)") + name_ +
              " as o left join deliverd_event_failures as f on f.lane = ?5 and f.row_id = cast(" + id +
              " as text) and " + same_event("o") + " where " + open("o") + " and f.dead_at is null";
    }
    const std::string waits = own_state_ ? col("w", c_.retry_count) + " > 0 and " + col("w", c_.dead_at) +
                                               " is null and " + due_time(col("w", c_.next_attempt_at)) + " > " + kNow
                                         : "f.dead_at is null and " + due_time("f.next_attempt_at") + " > " + kNow;
    sql += " and " + (unnamed ? aggregate("o") : col("o", c_.aggregate_id)) + " = ?4";
    if (after) sql += " and " + id + " > ?3";
    return sql + in_shards() + " and not " + failed_before("<=", waits) + " and not " + behind_dead() + " order by " +
           id + " limit ?2";
}

/// The row a settlement is about, as long as it is as it was read.
std::string EventSql::this_row() const {
    const std::string row = " where " + col("o", c_.id) + " = ?1 and " + open("o") + " and ";
    if (own_state_) return row + retries("o") + " = ?2";
    return row +
           "coalesce((select iif(f.dead_at is null, f.retry_count, -1) from deliverd_event_failures as f"
           " where f.lane = ?5 and f.row_id = ?6 and " +
           same_event("o") + "), 0) = ?2";
}

std::string EventSql::sent() const {
    if (table_.after_publish == AfterPublish::remove || c_.published.empty()) {
        return "delete from " + name_ + " as o" + this_row();
    }
    const std::string at = c_.published_at.empty() ? "" : ", " + quoted(c_.published_at) + " = " + kNow;
    return "update " + name_ + " as o set " + quoted(c_.published) + " = 1" + at + this_row();
}

std::string EventSql::keep_failure(const std::string& next, const std::string& dead_at) const {
    // A line about an earlier event is overwritten.
    return "insert into deliverd_event_failures (lane, row_id, aggregate_id, event_id, retry_count, next_attempt_at,"
           " last_error, dead_at) select ?5, ?6, ?7, " +
           (tells_events_apart() ? "cast(" + col("o", c_.event_id) + " as text)" : "null") + ", ?2 + 1, " + next +
           ", ?3, " + dead_at + " from " + name_ + " as o" + this_row() +
           " on conflict (lane, row_id) do update set aggregate_id = excluded.aggregate_id,"
           " event_id = excluded.event_id, retry_count = excluded.retry_count,"
           " next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error, dead_at = excluded.dead_at";
}

std::string EventSql::retry() const {
    constexpr const char* kThen = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?4)";
    if (!own_state_) return keep_failure(kThen, "null");
    return "update " + name_ + " as o set " + quoted(c_.retry_count) + " = ?2 + 1, " + quoted(c_.last_error) +
           " = ?3, " + quoted(c_.next_attempt_at) + " = " + kThen + this_row();
}

std::string EventSql::dead() const {
    if (!own_state_) return keep_failure("null", kNow);
    return "update " + name_ + " as o set " + quoted(c_.retry_count) + " = ?2 + 1, " + quoted(c_.last_error) +
           " = ?3, " + quoted(c_.dead_at) + " = " + kNow + this_row();
}

std::string EventSql::lag(bool by_id) const {
    if (c_.created_at.empty()) return "select 0.0";
    const std::string id = col("o", c_.id);
    const std::string age = "(julianday('now') - julianday(" + col("o", c_.created_at) + ")) * 86400.0";
    std::string sql = " from " + from("o", "outbox_open");
    std::string waits = due_time(own_state_ ? col("o", c_.next_attempt_at) : "f.next_attempt_at") + " > " + kNow;
    if (own_state_) {
        sql += " where " + open("o") + " and not (" + retries("o") + " > 0 and " + waits + ")";
    } else {
        sql += " where " + open("o") +
               " and not exists (select 1 from deliverd_event_failures as f where f.lane = ?1"
               " and f.row_id = cast(" +
               id + " as text) and " + same_event("o") + " and (f.dead_at is not null or " + waits + "))";
    }
    if (!by_id) return "select max(" + age + ")" + sql;
    return "select " + age + sql + " order by " + id + " limit 1";
}

std::string EventSql::counts() const {
    const std::string dead =
        own_state_ ? col("o", c_.dead_at) + " is not null"
                   : "exists (select 1 from deliverd_event_failures as f where f.lane = ?1 and f.row_id = cast(" +
                         col("o", c_.id) + " as text) and " + same_event("o") + " and f.dead_at is not null)";
    const std::string left = unpublished("o");
    return "select count(*) filter (where " + left + " and not " + dead + "), count(*) filter (where not (" + left +
           ")), count(*) filter (where " + left + " and " + dead + ") from " + name_ + " as o";
}

std::string EventSql::remove_published() const {
    if (c_.published.empty() || (c_.published_at.empty() && c_.created_at.empty())) return "";
    const bool both = !c_.published_at.empty() && !c_.created_at.empty();
    const std::string time = both ? "coalesce(" + col("o", c_.published_at) + ", " + col("o", c_.created_at) + ")"
                                  : col("o", c_.published_at.empty() ? c_.created_at : c_.published_at);
    return "delete from " + name_ + " where " + quoted(c_.id) + " in (select " + col("o", c_.id) + " from " +
           from("o", "outbox_published") + " where " + col("o", c_.published) + " and " + time +
           " < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?1) order by " + time + " limit ?2)";
}

}  // namespace deliverd::store::sqlite
