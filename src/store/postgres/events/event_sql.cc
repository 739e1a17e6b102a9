#include "store/postgres/events/event_sql.h"

#include <functional>
#include <utility>

#include "store/postgres/events/event_letters.h"
#include "store/postgres/letters/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

constexpr std::string_view kFailures = "deliverd.event_failures";
constexpr std::string_view kDue = "coalesce(@next, '-infinity'::timestamptz)";

string number(int value) {
    return "$" + std::to_string(value);
}

/// Conditions and expressions on a table, whatever its names are and wherever its failures are kept. `a` is an alias of
/// the table, `lane` the parameter that holds the lane.
class Fragments {
public:
    Fragments(const EventTable& table, const TablePlace& place, const EventShape& shape)
        : table_(table), columns_(table.columns), shape_(shape), name_(place.quoted_name()) {}

    [[nodiscard]] const string& table() const { return name_; }
    [[nodiscard]] bool own() const { return !columns_.retry_count.empty(); }
    [[nodiscard]] bool numbers() const { return id_kind(shape_, columns_) == IdKind::number; }
    [[nodiscard]] bool has(const string& column) const { return !column.empty(); }
    [[nodiscard]] static string of(std::string_view a, const string& column) {
        return string(a) + "." + quoted(column);
    }
    [[nodiscard]] string id(std::string_view a) const { return of(a, columns_.id); }
    [[nodiscard]] string aggregate(std::string_view a) const { return of(a, columns_.aggregate_id); }
    /// The aggregate as text. Null is the empty one: all rows without an aggregate belong together.
    [[nodiscard]] string aggregate_text(std::string_view a) const {
        const string text = aggregate(a) + "::text";
        return aggregate_may_be_null() ? "coalesce(" + text + ", '')" : text;
    }
    [[nodiscard]] bool aggregate_may_be_null() const { return !shape_.column(columns_.aggregate_id).not_null; }
    [[nodiscard]] string id_type() const { return numbers() ? "bigint" : "uuid"; }
    [[nodiscard]] const string& aggregate_type() const { return shape_.column(columns_.aggregate_id).spelt; }
    /// In what order rows of an aggregate, and all rows, are read.
    [[nodiscard]] string order(std::string_view a) const {
        if (numbers() || !has(columns_.created_at)) return id(a);
        return of(a, columns_.created_at) + ", " + id(a);
    }
    [[nodiscard]] string unpublished(std::string_view a) const {
        if (!has(columns_.published)) return "true";
        const string column = of(a, columns_.published);
        return shape_.column(columns_.published).not_null ? "not " + column : column + " is not true";
    }
    [[nodiscard]] string retry_count(std::string_view a) const {
        const string column = of(a, columns_.retry_count);
        return shape_.column(columns_.retry_count).not_null ? column : "coalesce(" + column + ", 0)";
    }
    [[nodiscard]] string due_at(std::string_view a) const {
        return replaced(string(kDue), "@next", own() ? of(a, columns_.next_attempt_at) : "f.next_attempt_at");
    }
    /// Neither published nor given up.
    [[nodiscard]] string open(std::string_view a, const string& lane) const {
        if (own()) return unpublished(a) + " and " + of(a, columns_.dead_at) + " is null";
        return unpublished(a) + " and not exists (" + line("", a, lane) + " and x.dead_at is not null)";
    }
    /// The same for a row that is looked up by its id, written so that the planner cannot use an index of open rows:
    /// see applies().
    [[nodiscard]] string still_open(std::string_view a, const string& lane) const {
        const string condition = open(a, lane);
        return condition.starts_with("true and ") ? condition : "case when " + condition + " then true else false end";
    }
    /// There is an event id, and it is not the row id, which may be used again.
    [[nodiscard]] bool tells_events_apart() const { return has(columns_.event_id) && columns_.event_id != columns_.id; }
    /// The line x of failures is about the event in the row `a`, and not about an earlier one whose row had this id.
    [[nodiscard]] string same_event(std::string_view x, std::string_view a) const {
        const string line(x);
        if (!tells_events_apart()) return line + ".aggregate_id = " + aggregate_text(a);
        return "coalesce(" + line + ".event_id = " + of(a, columns_.event_id) + "::text, true)";
    }
    /// Failed attempts of a row that may have some.
    [[nodiscard]] string failures(std::string_view a, const string& lane) const {
        if (own()) return retry_count(a);
        return "coalesce((" + line("x.retry_count", a, lane) + "), 0)";
    }
    /// The row has not failed.
    [[nodiscard]] string fresh(std::string_view a, const string& lane) const {
        if (own()) return retry_count(a) + " = 0";
        return "not exists (" + line("", a, lane) + ")";
    }
    /// No row w of o's aggregate waits for its retry, or was given up, for which `which` holds. A subquery of its own,
    /// which the planner cannot make a join of: one probe of an index a row, however many there are that wait.
    [[nodiscard]] string none(bool dead, const string& which, const string& lane) const {
        if (own()) {
            const string state = " and " + which + " and " + unpublished("w") + " and " +
                                 (dead ? of("w", columns_.dead_at) + " is not null"
                                       : retry_count("w") + " > 0 and " + of("w", columns_.dead_at) + " is null") +
                                 " limit 1) is null";
            const string probe = "(select 1 from " + name_ + " w where ";
            string same = probe + aggregate("w") + " = " + aggregate("o") + state;
            if (!aggregate_may_be_null()) return same;
            // Apart from the others, whom an index of the column still serves.
            return "(" + same + " and (" + aggregate_text("o") + " <> '' or " + probe + aggregate_text("w") + " = ''" +
                   state + "))";
        }
        // A line whose row is gone counts for nothing.
        return "(select 1 from " + string(kFailures) + " f join " + name_ + " w on " + id("w") +
               " = f.row_id::" + id_type() + " and " + same_event("f", "w") + " where f.lane = " + lane +
               " and f.aggregate_id = " + aggregate_text("o") + " and f.dead_at is " + (dead ? "not null" : "null") +
               " and " + which + " and " + unpublished("w") + " limit 1) is null";
    }
    /// Nothing waits at all: asked once a statement, and mostly so. By the index of due times, which nothing else fits.
    [[nodiscard]] string none_at_all(const string& lane) const {
        if (own()) {
            return "(select 1 from " + name_ + " w where " + retry_count("w") + " > 0 and " + open("w", lane) +
                   " and " + due_at("w") + " <= 'infinity' order by " + due_at("w") + " limit 1) is null";
        }
        return "(select 1 from " + string(kFailures) + " f where f.lane = " + lane + " limit 1) is null";
    }
    /// `and` what keeps rows behind a dead one, where that is wanted.
    [[nodiscard]] string behind_no_dead(const string& lane) const {
        if (!table_.block_behind_dead) return "";
        return " and " + none(true, before_it(), lane);
    }
    /// w is before o. Random ids have no order within an aggregate: there each one is before all others.
    [[nodiscard]] string before_it() const { return numbers() ? id("w") + " < " + id("o") : "true"; }
    [[nodiscard]] string shard(std::string_view a) const {
        return "((hashtextextended(" + aggregate_text(a) + ", 0) & 9223372036854775807) % " +
               std::to_string(table_.shards) + ")::int";
    }
    /// EventColumn, and in place of kEventBytes those of the row itself. Both lengths are below 2^30.
    [[nodiscard]] string selected(const string& failures) const {
        const auto text = [&](const string& column) -> string {
            if (!has(column)) return "null::text";
            // These are their own text in the binary format, or easily become it.
            for (const char* plain : {"text", "varchar", "json", "jsonb", "uuid", "bytea"}) {
                if (shape_.column(column).type == plain) return of("o", column);
            }
            return of("o", column) + "::text";
        };
        const string created =
            has(columns_.created_at) ? of("o", columns_.created_at) + "::timestamptz" : "null::timestamptz";
        return (numbers() ? id("o") + "::bigint" : id("o")) + ", " + text(columns_.aggregate_id) + ", " +
               text(columns_.event_type) + ", " + text(columns_.payload) + ", " + text(columns_.event_id) + ", " +
               text(columns_.metadata) + ", " + text(columns_.aggregate_type) + ", " + created + ", now(), (" +
               failures + ")::int, " + shard("o") + ", " + length(columns_.payload) + " + " +
               length(columns_.metadata) + " as bytes";
    }

private:
    /// The row's line of failures.
    [[nodiscard]] string line(std::string_view selected, std::string_view a, const string& lane) const {
        return "select " + string(selected) + " from " + string(kFailures) + " x where x.lane = " + lane +
               " and x.row_id = " + id(a) + "::text and " + same_event("x", a);
    }
    [[nodiscard]] string length(const string& column) const {
        if (!has(column)) return "0";
        const bool bytes = shape_.column(column).type == "bytea";
        return "coalesce(octet_length(" + of("o", column) + (bytes ? "" : "::text") + "), 0)";
    }

    const EventTable& table_;
    const EventColumns& columns_;
    const EventShape& shape_;
    string name_;
};

/// The parameters that follow a reading statement's own: the shards where only some are asked for, and the lane where
/// failures are kept under it.
struct Tail {
    string in_shards;  // " and …"
    string lane;

    Tail(const Fragments& on, bool some_shards, int next) {
        if (some_shards) in_shards = " and " + on.shard("o") + " = any (" + number(next++) + "::int[])";
        lane = on.own() ? "" : number(next) + "::text";
    }
};

/// The rows of a statement in its order, until those before a row have `limit` bytes. A window without an order of its
/// own takes them as they come, and sorts nothing.
string until_bytes(const string& rows, const string& limit) {
    constexpr std::string_view kNames =
        "id, aggregate, type, payload, message_id, metadata, aggregate_type, created_at,"
        " read_at, failures, shard";
    return "select " + string(kNames) + ", so_far from (select " + string(kNames) +
           ", bytes, sum(bytes) over (rows between unbounded preceding and current row) as so_far from (" + rows +
           ") r (" + string(kNames) + ", bytes)) r where so_far - bytes < " + limit + "::bigint";
}

string forward_sql(const Fragments& on, bool some_shards) {
    const Tail tail(on, some_shards, on.numbers() ? 5 : 3);
    string sql = "select " + on.selected("0") + " from " + on.table() + " o where " +
                 (on.own() ? on.open("o", tail.lane) : on.unpublished("o")) + " and " + on.fresh("o", tail.lane);
    if (on.numbers()) sql += " and " + on.id("o") + " > $3::bigint and " + on.id("o") + " <= $4::bigint";
    sql += tail.in_shards + " and (" + on.none_at_all(tail.lane) + " or " + on.none(false, on.before_it(), tail.lane) +
           ")" + on.behind_no_dead(tail.lane);
    return until_bytes(sql + " order by " + on.order("o") + " limit $1::int", "$2");
}

/// Of an aggregate's waiting rows only the first. Random ids are put in their own order for it: any will do.
string due_sql(const Fragments& on, bool some_shards) {
    const Tail tail(on, some_shards, 3);
    const string earlier = " and " + on.none(false, on.id("w") + " < " + on.id("o"), tail.lane);
    const string rest = tail.in_shards + earlier + on.behind_no_dead(tail.lane) + " order by " + on.due_at("o") + ", " +
                        on.id("o") + " limit $1::int";
    if (on.own()) {
        return until_bytes("select " + on.selected(on.retry_count("o")) + " from " + on.table() + " o where " +
                               on.retry_count("o") + " > 0 and " + on.open("o", tail.lane) + " and " + on.due_at("o") +
                               " <= now() and " + on.id("o") + " is not null" + rest,
                           "$2");
    }
    return until_bytes("select " + on.selected("f.retry_count") + " from " + string(kFailures) + " f join " +
                           on.table() + " o on " + on.id("o") + " = f.row_id::" + on.id_type() + " and " +
                           on.same_event("f", "o") + " where f.lane = " + tail.lane + " and f.dead_at is null and " +
                           on.due_at("o") + " <= now() and " + on.unpublished("o") + rest,
                       "$2");
}

/// What holds a row back holds all behind it: so the limit comes first, and a long aggregate that waits is not walked.
string follow_sql(const Fragments& on, bool some_shards) {
    const int limit = on.numbers() ? 3 : 2;
    const Tail tail(on, some_shards, limit + 2);
    const string at_or_before = on.numbers() ? on.id("w") + " <= " + on.id("o") : "true";
    const string waits = at_or_before + " and " + on.due_at("w") + " > now()";
    string sql = "select " + on.selected(on.failures("o", tail.lane)) + " from ";
    sql += on.numbers() ? "unnest($1::text[], $2::bigint[]) with ordinality as i (aggregate, after, place)"
                        : "unnest($1::text[]) with ordinality as i (aggregate, place)";
    const string first_ones = " order by " + on.order("o") + " limit " + number(limit) + "::int)";
    const auto rows_of = [&](const string& aggregate) {
        return "(select o.* from " + on.table() + " o where " + aggregate +
               (on.numbers() ? " and " + on.id("o") + " > i.after" : "") + " and " + on.open("o", tail.lane) +
               first_ones;
    };
    const string named = on.aggregate("o") + " = " +
                         (on.aggregate_may_be_null() ? "nullif(i.aggregate, '')" : "i.aggregate") +
                         "::" + on.aggregate_type();
    if (on.aggregate_may_be_null()) {
        // Rows without an aggregate apart from the others, whom an index of the column still serves.
        sql += " cross join lateral (select * from (" + rows_of(named) + " union all " +
               rows_of("i.aggregate = '' and " + on.aggregate_text("o") + " = ''") + ") o" + first_ones + " o";
    } else {
        sql += " cross join lateral " + rows_of(named) + " o";
    }
    sql += " where " + on.none(false, waits, tail.lane) + on.behind_no_dead(tail.lane) + tail.in_shards;
    return until_bytes(sql + " order by i.place, " + on.order("o"), number(limit + 1));
}

/// The leases that are still the owner's, locked so that they stay it until the commit; one after the other as they
/// come, which is the order in which tend() locks them as well. A lease that ran out and that no other relay took is
/// still the owner's.
constexpr std::string_view kHeldEvents = R"(
with held as materialized (
    select p.place::int as lease
    from unnest($3::int[], $4::bigint[]) with ordinality as p (shard, token, place)
    cross join lateral (
        select 1 from deliverd.shards s
        where s.lane = $1::text and s.shard = p.shard and s.owner = $2::text and s.token = p.token
        for share) s
))";

/// Answers which of them applied only when not all did.
string settled_ids(const Fragments& on, int expected) {
    const string all = "(select count(*) from done) = " + number(expected) + "::int";
    return string(" select d.id::") + (on.numbers() ? "bigint" : "text") + ", null::int from done d where not " + all +
           " union all select null, h.lease from held h where not " + all + " union all select null, 0 where " + all;
}

string ids_param(const Fragments& on) {
    return on.numbers() ? "$5::bigint[]" : "$5::text[]::uuid[]";
}

/// The rows of the batch that may be settled: i in, o out. An array of one id: only a look-up answers that, no walk
/// over the whole index beside the batch, which the planner finds cheaper where it thinks that there is next to
/// nothing.
string applies(const Fragments& on) {
    return on.id("o") + " = any (array[i.id]) and i.lease = any ((select array_agg(lease) from held)::int[]) and " +
           on.still_open("o", "$1::text") + " and " + on.failures("o", "$1::text") + " = i.failures";
}

/// Locks the batch's rows, skipping those already locked, so that settling never blocks. Where failures are kept in
/// lines of their own, it locks the lines of those that failed before as well.
string free_rows(const Fragments& on, const string& input, const char* lock) {
    string sql = ", free as materialized (select " + on.id("o") + " as id from " + input + " join " + on.table() +
                 " o on " + applies(on) + " order by 1 for " + lock + " of o skip locked)";
    if (on.own()) return sql;
    return sql + ", lines as materialized (select f.row_id from free join " + string(kFailures) +
           " f on f.lane = $1::text and f.row_id = free.id::text order by 1 for update of f skip locked)";
}

/// `and` i is one of them.
string is_free(const Fragments& on) {
    const string row = " and i.id in (select id from free)";
    return on.own() ? row : row + " and (i.failures = 0 or i.id::text in (select row_id from lines))";
}

/// The others that might be settled.
string locked_ids(const Fragments& on, const string& input) {
    return string(" union all select i.id::") + (on.numbers() ? "bigint" : "text") + ", " +
           std::to_string(EventStatements::kLocked) + " from " + input + " join " + on.table() + " o on " +
           applies(on) + " where not (true" + is_free(on) + ")";
}

string settle_sent_sql(const Fragments& on, const EventTable& table, bool past_locks) {
    const bool remove = table.after_publish == AfterPublish::remove || table.columns.published.empty();
    const string input = "unnest(" + ids_param(on) + ", $6::int[], $7::int[]) as i (id, lease, failures)";
    string sql(kHeldEvents);
    if (past_locks) sql += free_rows(on, input, remove ? "update" : "no key update");
    if (remove) {
        sql += ", done as (delete from " + on.table() + " o using " + input;
    } else {
        sql += ", done as (update " + on.table() + " o set " + quoted(table.columns.published) + " = true";
        if (on.has(table.columns.published_at)) sql += ", " + quoted(table.columns.published_at) + " = now()";
        sql += " from " + input;
    }
    sql +=
        " where " + applies(on) + (past_locks ? is_free(on) : "") + " returning " + on.id("o") + " as id, i.failures)";
    if (!on.own()) {
        sql += ", cleared as (delete from " + string(kFailures) +
               " f using done d where f.lane = $1::text and f.row_id = d.id::text and d.failures > 0)";
    }
    return sql + settled_ids(on, 8) + (past_locks ? locked_ids(on, input) : "");
}

string settle_failed_sql(const Fragments& on, const EventTable& table, std::string_view audit_schema, bool past_locks) {
    const EventColumns& columns = table.columns;
    const string input = "unnest(" + ids_param(on) +
                         ", $6::int[], $7::int[], $8::text[], $9::float8[], $10::int[])"
                         " as i (id, lease, failures, note, delay_seconds, dead)";
    const string again = "case when i.dead = 0 then now() + i.delay_seconds * interval '1 second' end";
    const string gone = "case when i.dead = 1 then now() end";
    const string only_free = past_locks ? is_free(on) : "";
    string sql(kHeldEvents);
    if (past_locks) sql += free_rows(on, input, "no key update");
    if (on.own()) {
        sql += ", done as (update " + on.table() + " o set " + quoted(columns.retry_count) + " = i.failures + 1, " +
               quoted(columns.next_attempt_at) + " = " + again + ", " + quoted(columns.last_error) + " = i.note, " +
               quoted(columns.dead_at) + " = " + gone + " from " + input + " where " + applies(on) + only_free +
               " returning " + on.id("o") + " as id, i.failures + 1 as retry_count, i.note, i.dead)";
    } else {
        // The condition is repeated for the line itself: two settlements of a row at the same time count once. A line
        // about an earlier event is overwritten.
        const bool has_event_id = on.tells_events_apart();
        sql += ", done as (insert into " + string(kFailures) +
               " as f (lane, row_id, aggregate_id, event_id, retry_count, next_attempt_at, last_error, dead_at)"
               " select $1::text, i.id::text, " +
               on.aggregate_text("o") + ", " +
               (has_event_id ? Fragments::of("o", columns.event_id) + "::text" : "null::text") + ", i.failures + 1, " +
               again + ", i.note, " + gone + " from " + input + " join " + on.table() + " o on " + applies(on) +
               only_free +
               " on conflict (lane, row_id) do update set aggregate_id = excluded.aggregate_id, event_id ="
               " excluded.event_id, retry_count = excluded.retry_count, next_attempt_at = excluded.next_attempt_at,"
               " last_error = excluded.last_error, dead_at = excluded.dead_at"
               " where (f.retry_count = excluded.retry_count - 1 and f.dead_at is null) or " +
               (has_event_id ? "f.event_id <> excluded.event_id" : "f.aggregate_id <> excluded.aggregate_id") +
               " returning f.row_id::" + on.id_type() +
               " as id, f.retry_count, f.last_error as note, (f.dead_at is not null)::int as dead)";
    }
    // A uuid does not fit into outbox_id: it is in the column for keys.
    sql += ", trail as (insert into " + quoted(audit_schema) +
           ".outbox_audit (outbox, outbox_id, idempotency_key, reason, status_from, status_to, retry_count, last_error,"
           " worker, actor) select 'events', " +
           (on.numbers() ? "d.id, null" : "0, d.id::text") +
           ", case d.dead when 1 then 'outbox_flush_dead' else 'outbox_flush_retry' end, 'pending',"
           " case d.dead when 1 then 'dead' else 'pending' end, d.retry_count, d.note, $2::text, $2::text from done d)";
    return sql + settled_ids(on, 11) + (past_locks ? locked_ids(on, input) : "");
}

/// By the primary key, from its end: rows of whatever state count.
string end_sql(const Fragments& on) {
    return "select max(" + on.id("o") + ")::bigint from " + on.table() + " o where " + on.id("o") + " > $1::bigint";
}

/// -infinity, which an INSERT may say, is no time to count from: kEarliestMicros in its place. Nor is null.
string lag_sql(const Fragments& on, const EventColumns& columns) {
    const string lane = on.own() ? "" : (on.numbers() ? "$2::text" : "$1::text");
    const string created = Fragments::of("o", columns.created_at) + "::timestamptz";
    const string age = on.has(columns.created_at)
                           ? "case when " + created + " is null then 0 else date_part('epoch', now() - greatest(" +
                                 created + ", timestamptz '1970-01-01 00:00:00Z')) end"
                           : "0::float8";
    return "select " + age + ", " + (on.numbers() ? on.id("o") + "::bigint" : "0::bigint") + " from " + on.table() +
           " o where " + on.open("o", lane) + " and " + on.fresh("o", lane) +
           (on.numbers() ? " and " + on.id("o") + " >= $1::bigint" : "") + " order by " + on.order("o") + " limit 1";
}

string counts_sql(const Fragments& on) {
    const string dead = on.own() ? "" : "$1::text";
    const string open = on.open("o", dead);
    return "select count(*) filter (where " + open + "), count(*) filter (where not (" + on.unpublished("o") +
           ")), count(*) filter (where " + on.unpublished("o") + " and not (" + open + ")) from " + on.table() + " o";
}

}  // namespace

EventStatements::EventStatements(const EventTable& table, const TablePlace& place, const EventShape& shape,
                                 std::string_view audit_schema)
    : ids(id_kind(shape, table.columns)), own_failures(!table.columns.retry_count.empty()) {
    const Fragments on(table, place, shape);
    const auto reading = [&](bool some) {
        return ReadStatements{statement_by_text("events_due", due_sql(on, some)),
                              statement_by_text("events_follow", follow_sql(on, some)),
                              statement_by_text("events_forward", forward_sql(on, some))};
    };
    of_all = reading(false);
    of_some = reading(true);
    const auto settling = [&](bool past_locks) {
        return SettleStatements{
            statement_by_text("events_sent", settle_sent_sql(on, table, past_locks)),
            statement_by_text("events_failed", settle_failed_sql(on, table, audit_schema, past_locks))};
    };
    settle = settling(false);
    settle_past_locks = settling(true);
    if (ids == IdKind::number) end = statement_by_text("events_end", end_sql(on));
    letters = statement_by_text("events_letters", event_letters_sql(table, place, shape));
    keep_table = {"events_keep_table", letters::sql::keep_event_table};
    table_params = Params(table.lane, place.schema, place.table, table.columns.id, table.columns.published,
                          table.columns.retry_count, table.columns.next_attempt_at, table.columns.dead_at, on.id_type(),
                          table.columns.event_id);
    lag = statement_by_text("events_lag", lag_sql(on, table.columns));
    counts = statement_by_text("events_counts", counts_sql(on));
}

}  // namespace deliverd::store::postgres
