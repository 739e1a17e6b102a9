#include "store/postgres/letters/lane_letters.h"

#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

/// "CODE: detail"; a text that begins with words has no code.
constexpr std::string_view kClass = "left(substring(@ from '^([^ ]+?): '), 512)";

}  // namespace

string insert_letters_sql(const string& selected, const string& event_id) {
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

string error_columns_sql(const string& error) {
    return "coalesce(nullif(" + error + ", ''), 'unknown error'), " + replaced(string(kClass), "@", error);
}

string memory_letters_sql(const string& memory) {
    return insert_letters_sql("'memory', o.outbox_id::text, 'PENDING', " + error_columns_sql("o.last_error") +
                              ", false, convert_to(o.target_space, 'UTF8'), '[]', to_jsonb(o.payload_md),"
                              " convert_to(o.payload_md, 'UTF8') from unnest($3::bigint[]) as i (id) join " +
                              memory +
                              " o on o.outbox_id = any (array[i.id]) where o.status = 'dead' and o.updated_at ="
                              " now()");
}

string order_letters_sql(const string& orders) {
    // An order is not sent again.
    return insert_letters_sql(
        "'orders', o.id::text, 'DEAD', coalesce(nullif(o.last_error_detail, ''), nullif(o.last_error, ''),"
        " 'unknown error'), nullif(o.last_error, ''), o.in_doubt, convert_to(o.idempotency_key, 'UTF8'), '[]',"
        " o.request_json, convert_to(coalesce(o.request_body, o.request_json::text), 'UTF8')"
        " from unnest($3::bigint[]) as i (id) join " +
        orders + " o on o.id = any (array[i.id]) where o.status = 'dead' and o.updated_at = now()");
}

}  // namespace deliverd::store::postgres
