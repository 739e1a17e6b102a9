#include "store/postgres/events/event_letters.h"

#include "store/postgres/letters/lane_letters.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

/// A column of a table of others, whatever its type.
class Cell {
public:
    Cell(const EventShape& shape, const string& column)
        : type_(column.empty() ? "" : shape.column(column).type), name_("o." + quoted(column)) {}

    [[nodiscard]] string json() const {
        if (type_ == "jsonb") return name_;
        return "deliverd.json_or_null(" + (type_ == "bytea" ? name_ : name_ + "::text") + ")";
    }
    [[nodiscard]] string bytes() const { return type_ == "bytea" ? name_ : "convert_to(" + name_ + "::text, 'UTF8')"; }

private:
    string type_;
    string name_;
};

}  // namespace

string event_letters_sql(const EventTable& table, const TablePlace& place, const EventShape& shape) {
    const EventColumns& columns = table.columns;
    const bool own = !columns.dead_at.empty();
    const bool numbers = id_kind(shape, columns) == IdKind::number;
    const string id = "o." + quoted(columns.id);
    const string error = own ? "o." + quoted(columns.last_error) : "f.last_error";
    const string headers =
        columns.metadata.empty() ? "'[]'" : "deliverd.headers_of(" + Cell(shape, columns.metadata).json() + ")";
    const Cell payload(shape, columns.payload);
    string from = " from unnest(" + string(numbers ? "$3::bigint[]" : "$3::text[]::uuid[]") + ") as i (id) join " +
                  place.quoted_name() + " o on " + id + " = any (array[i.id])";
    if (own) {
        // As it was written: a column may keep less of a moment than there is.
        from += " where o." + quoted(columns.dead_at) + " = now()::" + shape.column(columns.dead_at).spelt;
    } else {
        from +=
            " join deliverd.event_failures f on f.lane = $1::text and f.row_id = any (array[i.id::text])"
            " where f.dead_at = now()";
    }
    return insert_letters_sql("'events', " + id + "::text, 'PENDING', " + error_columns_sql(error) +
                                  ", false, convert_to(o." + quoted(columns.aggregate_id) + "::text, 'UTF8'), " +
                                  headers + ", " + payload.json() + ", " + payload.bytes() + from,
                              columns.event_id.empty() ? "null::text" : "o." + quoted(columns.event_id) + "::text");
}

string keep_event_table_sql() {
    return "insert into deliverd.event_tables as t (lane, table_schema, table_name, id_column, published_column,"
           " retry_count_column, next_attempt_at_column, dead_at_column, id_type) values ($1::text, $2::text, $3::text,"
           " $4::text, nullif($5::text, ''), nullif($6::text, ''), nullif($7::text, ''), nullif($8::text, ''),"
           " $9::text)"
           " on conflict (lane) do update set table_schema = excluded.table_schema, table_name = excluded.table_name,"
           " id_column = excluded.id_column, published_column = excluded.published_column,"
           " retry_count_column = excluded.retry_count_column,"
           " next_attempt_at_column = excluded.next_attempt_at_column, dead_at_column = excluded.dead_at_column,"
           " id_type = excluded.id_type where t is distinct from excluded";
}

}  // namespace deliverd::store::postgres
