-- Letters of rows that a lane gave up on: a further step of the transaction that settles them. Only of rows that this
-- transaction made dead. Parameters: lane, worker, ids. {schema} holds the outbox tables.

-- part: letters
insert into dlq.dlq_messages as m (original_topic, source, lane, producer, event_id, outbox, outbox_row_id, status,
    error_message, error_class, in_doubt, record_key, record_headers, payload, record_value)

-- A row that dies again after it was sent back makes its letter what it was at first, except the count of its retries;
-- after the last of them it is DEAD. A trigger (migration 0010) decides whether it is the same message, or another one
-- whose row has the same id.
-- part: same_row
on conflict (lane, outbox, outbox_row_id) where lane is not null do update
set status = case when m.retry_count < m.max_retries then excluded.status else 'DEAD' end,
    error_message = excluded.error_message, error_class = excluded.error_class, in_doubt = excluded.in_doubt,
    producer = excluded.producer, record_key = excluded.record_key, record_headers = excluded.record_headers,
    payload = excluded.payload, record_value = excluded.record_value,
    event_id = coalesce(excluded.event_id, m.event_id),
    retry_owner = null, retry_expires_at = null, updated_at = now()

-- The class of "CODE: detail" is the code; a text that begins with words has none.
-- name: memory_letters
{letters}
select $1::text, 'lane:' || $1::text, $1::text, $2::text, null::text, 'memory', o.outbox_id::text, 'PENDING',
    coalesce(nullif(o.last_error, ''), 'unknown error'), left(substring(o.last_error from '^([^ ]+?): '), 512),
    false, convert_to(o.target_space, 'UTF8'), '[]', to_jsonb(o.payload_md), convert_to(o.payload_md, 'UTF8')
from unnest($3::bigint[]) as i (id)
join {schema}.outbox_memory o on o.outbox_id = any (array[i.id])
where o.status = 'dead' and o.updated_at = now()
{same_row}

-- An order is never sent again.
-- name: order_letters
{letters}
select $1::text, 'lane:' || $1::text, $1::text, $2::text, null::text, 'orders', o.id::text, 'DEAD',
    coalesce(nullif(o.last_error_detail, ''), nullif(o.last_error, ''), 'unknown error'), nullif(o.last_error, ''),
    o.in_doubt, convert_to(o.idempotency_key, 'UTF8'), '[]', o.request_json,
    convert_to(coalesce(o.request_body, o.request_json::text), 'UTF8')
from unnest($3::bigint[]) as i (id)
join {schema}.outbox_orders o on o.id = any (array[i.id])
where o.status = 'dead' and o.updated_at = now()
{same_row}

-- Of an event table. {table} and {id} (a column of o) are the lane's; {ids} is the parameter of ids as an array of the
-- column's type; {event_id}, {error}, {aggregate}, {headers}, {payload} and {value} are expressions on the row o;
-- {died} is the condition that this transaction made it dead, with the join that it needs.
-- name: event_letters
{letters}
select $1::text, 'lane:' || $1::text, $1::text, $2::text, {event_id}, 'events', {id}::text, 'PENDING',
    coalesce(nullif({error}, ''), 'unknown error'), left(substring({error} from '^([^ ]+?): '), 512),
    false, convert_to({aggregate}::text, 'UTF8'), {headers}, {payload}, {value}
from unnest({ids}) as i (id)
join {table} o on {id} = any (array[i.id])
{died}
{same_row}

-- Where a lane's events are, for those that go back to it. Parameters: lane, schema, table, columns for id, published,
-- retry_count, next_attempt_at, dead_at ('' where there is none), type of the id, column for event_id ('' as well).
-- name: keep_event_table
insert into deliverd.event_tables as t (lane, table_schema, table_name, id_column, published_column,
    retry_count_column, next_attempt_at_column, dead_at_column, id_type, event_id_column)
values ($1::text, $2::text, $3::text, $4::text, nullif($5::text, ''), nullif($6::text, ''), nullif($7::text, ''),
    nullif($8::text, ''), $9::text, nullif($10::text, ''))
on conflict (lane) do update
set table_schema = excluded.table_schema, table_name = excluded.table_name, id_column = excluded.id_column,
    published_column = excluded.published_column, retry_count_column = excluded.retry_count_column,
    next_attempt_at_column = excluded.next_attempt_at_column, dead_at_column = excluded.dead_at_column,
    id_type = excluded.id_type, event_id_column = excluded.event_id_column
where t is distinct from excluded
