#include "store/postgres/events/event_sql.h"

#include "store/event_row.h"
#include "store/postgres/events/statements.h"
#include "store/postgres/letters/statements.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;
using std::string_view;

/// Makes the statements of one table.
class EventSqlWriter {
public:
    EventSqlWriter(const EventTable& table, const TablePlace& place, const EventShape& shape, string_view audit_schema)
        : table_(table),
          columns_(table.columns),
          shape_(shape),
          own_(keeps_failures(columns_)),
          numbers_(id_kind(shape, columns_) == IdKind::number) {
        names_.set("table", place.quoted_name());
        names_.set("schema", quoted(audit_schema));
        names_.set("id_type", numbers_ ? "bigint" : "uuid");
        names_.set("aggregate_id_type", shape_.column(columns_.aggregate_id).spelt);
        for (const auto& [name, column] : kEventColumns) {
            names_.set(name, quoted(columns_.*column));
            add_text(name, columns_.*column);
        }
        for (const char* alias : {"o", "w"}) add_row(alias);
        names_.define("shard", "((hashtextextended({o.aggregate_text}, 0) & 9223372036854775807) % " +
                                   std::to_string(table_.shards) + ")::int");
        const bool dated = !columns_.created_at.empty();
        names_.define("created", dated ? "o.{created_at}::timestamptz" : "null::timestamptz");
        // Random ids have no order of their own.
        names_.define("o.order", dated && !numbers_ ? "o.{created_at}, o.{id}" : "o.{id}");
    }

    [[nodiscard]] ReadStatements reading(bool some_shards) const {
        const string earlier = "w.{id} < o.{id}";
        // Random ids have no order within an aggregate either: each row counts as before all others.
        const string before = numbers_ ? earlier : "true";
        const string not_after = numbers_ ? "w.{id} <= o.{id}" : "true";

        // Of several rows that are due one has to be the first, so here any order of the ids will do.
        SqlValues due = reading_names(some_shards, 3, earlier, before);
        due.define("failures", either("{o.retry_count}", "f.retry_count"));
        due.define("failed_rows", either(events::sql::own_failed_rows, events::sql::lines_failed_rows));

        SqlValues follow = reading_names(some_shards, 5, not_after + " and {w.due_at} > now()", before);
        follow.define("failures", failures());
        follow.define("is_behind", numbers_ ? "o.{id} > i.after" : "true");
        follow.define("rows_of_aggregate", nullable(columns_.aggregate_id) ? events::sql::rows_of_nullable_aggregate
                                                                           : events::sql::rows_of_aggregate);

        SqlValues forward = reading_names(some_shards, numbers_ ? 5 : 3, before, before);
        forward.define("failures", "0");
        forward.define("in_range", numbers_ ? "o.{id} > $3::bigint and o.{id} <= $4::bigint" : "true");
        forward.define("nothing_waits", either(events::sql::own_nothing_waits, events::sql::lines_nothing_waits));
        return {statement_by_text("events_due", due.fill(events::sql::due)),
                statement_by_text("events_follow", follow.fill(events::sql::follow)),
                statement_by_text("events_forward", forward.fill(events::sql::forward))};
    }

    [[nodiscard]] SettleStatements settling(bool past_locks) const {
        const bool remove = table_.after_publish == AfterPublish::remove || columns_.published.empty();
        const bool with_event_id = tells_events_apart(columns_);
        SqlValues sql = names_with_lane("$1::text");
        sql.define("ids", numbers_ ? "$5::bigint[]" : "$5::text[]::uuid[]");
        // Written so that the planner cannot use an index of open rows: these are looked up by their ids.
        sql.define("o.still_open",
                   columns_.published.empty() ? "{o.open}" : "case when {o.open} then true else false end");
        sql.define("o.failures", failures());
        const string_view is_free = either("i.id in (select id from free)",
                                           "i.id in (select id from free)"
                                           " and (i.failures = 0 or i.id::text in (select row_id from lines))");
        sql.define("is_free", past_locks ? is_free : "true");
        sql.define("published_when", columns_.published_at.empty() ? "" : ", {published_at} = now()");
        sql.define("cleared_lines", either("", events::sql::clear_lines));
        sql.define("audited_id", numbers_ ? "d.id, null" : "0, d.id::text");
        sql.define("kept_event_id", with_event_id ? "o.{event_id}::text" : "null::text");
        sql.define("f.about_another",
                   with_event_id ? "f.event_id <> excluded.event_id" : "f.aggregate_id <> excluded.aggregate_id");
        const auto make = [&](string_view name, string_view batch, string_view count, string_view lock,
                              string_view text) {
            sql.define("batch", batch);
            sql.define("count", count);
            sql.define("lock", lock);
            sql.define("free_rows_of_batch", past_locks ? either(events::sql::own_free, events::sql::lines_free) : "");
            sql.define("locked_rows", past_locks ? events::sql::locked_rows : "");
            return statement_by_text(name, sql.fill(text));
        };
        return {make("events_sent", events::sql::sent_batch, "$8", remove ? "update" : "no key update",
                     remove ? events::sql::sent_and_removed : events::sql::sent_and_marked),
                make("events_failed", events::sql::failed_batch, "$11", "no key update",
                     either(events::sql::own_failed, events::sql::lines_failed))};
    }

    [[nodiscard]] Statement end() const {
        return statement_by_text("events_end", names_.fill(events::sql::highest_id));
    }

    [[nodiscard]] Statement lag() const {
        SqlValues sql = names_with_lane(numbers_ ? "$2::text" : "$1::text");
        // An age cannot be counted from -infinity, which an INSERT may say: kEarliestMicros in its place. Nor from
        // null.
        sql.define("age", columns_.created_at.empty()
                              ? "0::float8"
                              : "case when {created} is null then 0 else date_part('epoch', now() -"
                                " greatest({created}, timestamptz '1970-01-01 00:00:00Z')) end");
        sql.define("number", numbers_ ? "o.{id}::bigint" : "0::bigint");
        sql.define("from_number", numbers_ ? "o.{id} >= $1::bigint" : "true");
        return statement_by_text("events_lag", sql.fill(events::sql::lag));
    }

    [[nodiscard]] Statement counts() const {
        return statement_by_text("events_counts", names_with_lane("$1::text").fill(events::sql::counts));
    }

    /// Only of rows that this transaction made dead.
    [[nodiscard]] Statement letters() const {
        // As it was written: a column may keep less of a moment than now() has.
        const string died = own_ ? "where o.{dead_at} = now()::" + shape_.column(columns_.dead_at).spelt
                                 : "join deliverd.event_failures f on f.lane = $1::text"
                                   " and f.row_id = any (array[i.id::text]) where f.dead_at = now()";
        const bool bytes = shape_.column(columns_.payload).type == "bytea";
        SqlValues sql = names_;
        sql.define("event_id", columns_.event_id.empty() ? "null::text" : "o.{event_id}::text");
        sql.define("error", either("o.{last_error}", "f.last_error"));
        sql.define("aggregate", "o.{aggregate_id}");
        sql.define("headers", columns_.metadata.empty()
                                  ? "'[]'"
                                  : "deliverd.headers_of(" + json_of("{metadata}", columns_.metadata) + ")");
        sql.define("value", bytes ? "o.{payload}" : "convert_to(o.{payload}::text, 'UTF8')");
        sql.define("payload", json_of("{payload}", columns_.payload));
        sql.define("died", died);
        sql.define("ids", numbers_ ? "$3::bigint[]" : "$3::text[]::uuid[]");
        sql.define("id", "o.{id}");
        return statement_by_text("events_letters", sql.fill(letters::sql::event_letters));
    }

private:
    /// What differs between a table that keeps failures itself and one whose failures are lines of event_failures. See
    /// sql/event_table.sql.
    [[nodiscard]] string_view either(string_view own, string_view lines) const { return own_ ? own : lines; }
    [[nodiscard]] string_view failures() const { return either("{o.retry_count}", events::sql::lines_failures); }

    [[nodiscard]] bool nullable(const string& column) const { return !shape_.column(column).not_null; }

    /// {name_text} and {name_bytes}: a column of o as text, and its length.
    void add_text(string_view name, const string& column) {
        const string own_name(name);
        string text = "null::text";
        string bytes = "0";
        if (!column.empty()) {
            const string& type = shape_.column(column).type;
            text = "o.{" + own_name + "}";
            bytes = "coalesce(octet_length(" + text + (type == "bytea" ? "" : "::text") + "), 0)";
            // The binary format of these is their text already.
            const bool is_text = type == "text" || type == "varchar" || type == "json" || type == "bytea";
            if (!is_text) text += "::text";
        }
        names_.define(own_name + "_text", text);
        names_.define(own_name + "_bytes", bytes);
    }

    /// Conditions and values of a row under this alias; here `@` is the alias.
    void add_row(const string& alias) {
        const auto add = [&](const string& name, string_view text) {
            names_.define(replaced(name, "@", alias), replaced(string(text), "@", alias));
        };
        // All rows without an aggregate belong together: null is the empty one.
        add("@.aggregate_text",
            nullable(columns_.aggregate_id) ? "coalesce(@.{aggregate_id}::text, '')" : "@.{aggregate_id}::text");
        add("@.unpublished", columns_.published.empty()     ? "true"
                             : nullable(columns_.published) ? "@.{published} is not true"
                                                            : "not @.{published}");
        if (own_) {
            add("@.retry_count", nullable(columns_.retry_count) ? "coalesce(@.{retry_count}, 0)" : "@.{retry_count}");
        }
        add("@.due_at", either("coalesce(@.{next_attempt_at}, '-infinity'::timestamptz)",
                               "coalesce(f.next_attempt_at, '-infinity'::timestamptz)"));
        for (const string line : {"f", "x"}) {
            add(line + ".about_@", tells_events_apart(columns_)
                                       ? "coalesce(" + line + ".event_id = @.{event_id}::text, true)"
                                       : line + ".aggregate_id = {@.aggregate_text}");
        }
    }

    [[nodiscard]] SqlValues names_with_lane(string_view lane) const {
        SqlValues sql = names_;
        sql.define("lane", lane);
        sql.define("o.open", either(events::sql::own_open, events::sql::lines_open));
        sql.define("o.fresh", either(events::sql::own_fresh, events::sql::lines_fresh));
        return sql;
    }

    /// `next`: the number of the first parameter behind a reading statement's own. These are the shards, if only some
    /// are asked for, and then the lane, if failures are lines. `none_waits`: which waiting rows of its aggregate hold
    /// a row back; `before`: which dead ones.
    [[nodiscard]] SqlValues reading_names(bool some_shards, int next, string_view none_waits,
                                          string_view before) const {
        const string last = std::to_string(some_shards ? next + 1 : next);
        SqlValues sql = names_with_lane("$" + last + "::text");
        sql.define("in_shards", some_shards ? "{shard} = any ($" + std::to_string(next) + "::int[])" : "true");
        const auto none = [&](string_view state, string_view which) {
            sql.define("state", state);
            sql.define("which", which);
            return sql.fill(own_ && nullable(columns_.aggregate_id)
                                ? events::sql::own_none_nullable
                                : either(events::sql::own_none, events::sql::lines_none));
        };
        sql.set("none_waits_before",
                none(either("{w.retry_count} > 0 and w.{dead_at} is null", "f.dead_at is null"), none_waits));
        const string_view dead = either("w.{dead_at} is not null", "f.dead_at is not null");
        sql.set("none_dead_before", table_.block_behind_dead ? none(dead, before) : "true");
        return sql;
    }

    [[nodiscard]] string json_of(const string& name, const string& column) const {
        const string& type = shape_.column(column).type;
        if (type == "jsonb") return "o." + name;
        return "deliverd.json_or_null(o." + name + (type == "bytea" ? ")" : "::text)");
    }

    const EventTable& table_;
    const EventColumns& columns_;
    const EventShape& shape_;
    const bool own_;
    const bool numbers_;
    SqlValues names_;
};

}  // namespace

const Statement& fixed_statement(string_view text) {
    static const Statements kStatements("", {events::sql::all});
    return kStatements[text];
}

EventStatements::EventStatements(const EventTable& table, const TablePlace& place, const EventShape& shape,
                                 string_view audit_schema)
    : ids(id_kind(shape, table.columns)),
      own_failures(keeps_failures(table.columns)),
      range_partitioned(shape.range_partitioned) {
    const EventSqlWriter writer(table, place, shape, audit_schema);
    of_all = writer.reading(false);
    of_some = writer.reading(true);
    settle = writer.settling(false);
    settle_past_locks = writer.settling(true);
    if (ids == IdKind::number) end = writer.end();
    lag = writer.lag();
    counts = writer.counts();
    letters = writer.letters();
    keep_table = {"events_keep_table", letters::sql::keep_event_table};
    table_params = Params(table.lane, place.schema, place.table, table.columns.id, table.columns.published,
                          table.columns.retry_count, table.columns.next_attempt_at, table.columns.dead_at,
                          ids == IdKind::number ? "bigint" : "uuid", table.columns.event_id);
}

}  // namespace deliverd::store::postgres
