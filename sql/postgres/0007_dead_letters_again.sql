-- A row of outbox_memory that dies again after it was sent back: nothing about it is in doubt any more, and after the
-- last of its letter's retries the letter is DEAD. Otherwise as in 0004.
create or replace function deliverd.keep_dead_memory(outbox_id bigint, worker_id text, lane text)
returns void
language sql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
    insert into dlq.dlq_messages as m (original_topic, source, lane, outbox, outbox_row_id, error_message, error_class,
                                       producer, record_key, payload, record_value)
    select keep_dead_memory.lane, 'lane:' || keep_dead_memory.lane, keep_dead_memory.lane, 'memory', o.outbox_id::text,
           coalesce(nullif(o.last_error, ''), 'unknown error'), left(substring(o.last_error from '^([^ ]+?): '), 512),
           keep_dead_memory.worker_id, convert_to(o.target_space, 'UTF8'), to_jsonb(o.payload_md),
           convert_to(o.payload_md, 'UTF8')
    from ${schema}.outbox_memory o
    where o.outbox_id = keep_dead_memory.outbox_id and o.status = 'dead' and o.updated_at = now()
    on conflict (lane, outbox, outbox_row_id) where lane is not null do update
    set status = case when m.retry_count < m.max_retries then 'PENDING' else 'DEAD' end, in_doubt = false,
        error_message = excluded.error_message, error_class = excluded.error_class, producer = excluded.producer,
        record_key = excluded.record_key, payload = excluded.payload, record_value = excluded.record_value,
        retry_owner = null, retry_expires_at = null, updated_at = now()
$$;
