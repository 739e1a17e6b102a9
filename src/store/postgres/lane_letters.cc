#include "store/postgres/lane_letters.h"

#include "store/postgres/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

/// "CODE: detail"; a text that begins with words has no code.
constexpr std::string_view kClass = "left(substring(@ from '^([^ ]+?): '), 512)";

/// `selected` are the columns from `outbox` on, and where they come from. A row that dies again after it was sent back
/// makes its letter what it was at first, but for the count of its retries; after the last of them it is DEAD. Whether
/// it is the same message, or one whose row has the same id, a trigger decides (0010).
string insert_letters(const string& selected, const string& event_id = "null::text") {
    return "insert into dlq.dlq_messages as m (original_topic, source, lane, producer, event_id, outbox, outbox_row_id,"
           " status, error_message, error_class, in_doubt, record_key, record_headers, payload, record_value)"
           " select $1::text, 'lane:' || $1::text, $1::text, $2::text, " +
           event_id + ", " + selected +
           " on conflict (lane, outbox, outbox_row_id) where lane is not null do update"
           " set status = case when m.retry_count < m.max_retries then excluded.status else 'DEAD' end,"
           " error_message = excluded.error_message, error_class = excluded.error_class,"
           " in_doubt = excluded.in_doubt, producer = excluded.producer, record_key = excluded.record_key,"
           " record_headers = excluded.record_headers, payload = excluded.payload, record_value = "
           "excluded.record_value, event_id = coalesce(excluded.event_id, m.event_id),"
           " retry_owner = null, retry_expires_at = null, updated_at = now()";
}

string error_columns(const string& error) {
    return "coalesce(nullif(" + error + ", ''), 'unknown error'), " + replaced(string(kClass), "@", error);
}

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

string memory_letters_sql(const string& memory) {
    return insert_letters("'memory', o.outbox_id::text, 'PENDING', " + error_columns("o.last_error") +
                          ", false, convert_to(o.target_space, 'UTF8'), '[]', to_jsonb(o.payload_md),"
                          " convert_to(o.payload_md, 'UTF8') from unnest($3::bigint[]) as i (id) join " +
                          memory +
                          " o on o.outbox_id = any (array[i.id]) where o.status = 'dead' and o.updated_at ="
                          " now()");
}

string order_letters_sql(const string& orders) {
    // An order is not sent again.
    return insert_letters(
        "'orders', o.id::text, 'DEAD', coalesce(nullif(o.last_error_detail, ''), nullif(o.last_error, ''),"
        " 'unknown error'), nullif(o.last_error, ''), o.in_doubt, convert_to(o.idempotency_key, 'UTF8'), '[]',"
        " o.request_json, convert_to(coalesce(o.request_body, o.request_json::text), 'UTF8')"
        " from unnest($3::bigint[]) as i (id) join " +
        orders + " o on o.id = any (array[i.id]) where o.status = 'dead' and o.updated_at = now()");
}

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
    return insert_letters("'events', " + id + "::text, 'PENDING', " + error_columns(error) + ", false, convert_to(o." +
                              quoted(columns.aggregate_id) + "::text, 'UTF8'), " + headers + ", " + payload.json() +
                              ", " + payload.bytes() + from,
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
