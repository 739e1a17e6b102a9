#include "store/postgres/letters/dead_letters_sql.h"

#include <utility>
#include <vector>

#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

/// Arrays: ids, topics, partitions, offsets, timestamps, their types, keys, values, headers, payloads, truncated,
/// original topics, partitions, offsets, error messages, classes, stack traces, producers, sources. Stored once: by its
/// place in Kafka, or by its id. No audit line: the row itself says when it came.
constexpr std::string_view kStore = R"(
insert into dlq.dlq_messages (id, source_topic, source_partition, source_offset, record_timestamp_ms,
    record_timestamp_type, record_key, record_value, record_headers, payload, truncated, original_topic,
    original_partition, original_offset, error_message, error_class, stack_trace, producer, source)
select i.id::uuid, i.topic, i.partition, i."offset", i.timestamp_ms, i.timestamp_type, i.key, i.value, i.headers::jsonb,
    @payload, i.truncated = 1, i.original_topic, i.original_partition, i.original_offset, i.error_message,
    i.error_class, i.stack_trace, i.producer, i.source
from unnest($1::text[], $2::text[], $3::int[], $4::bigint[], $5::bigint[], $6::text[], $7::bytea[], $8::bytea[],
            $9::text[], $10::text[], $11::int[], $12::text[], $13::int[], $14::bigint[], $15::text[], $16::text[],
            $17::text[], $18::text[], $19::text[])
    as i (id, topic, partition, "offset", timestamp_ms, timestamp_type, key, value, headers, payload, truncated,
          original_topic, original_partition, original_offset, error_message, error_class, stack_trace, producer,
          source)
on conflict @once do nothing)";

/// An array of one id: only a look-up answers that, whatever the planner thinks of the table.
constexpr std::string_view kFind = R"(
select @detail
from unnest($1::text[]::uuid[]) as i (id)
cross join lateral (select d.* from dlq.dlq_messages d where d.id = any (array[i.id])) m)";

constexpr std::string_view kAudit = R"(
select a.at, a.action, a.actor, a.status_from, a.status_to, a.detail
from dlq.dlq_audit a
where a.message_id = $1::uuid
order by a.id
limit $2::int)";

/// The newest of a topic by index; of what did not come from one, by its source, or by its topic where only the seed's
/// columns were given.
constexpr std::string_view kTopics = R"(
select k.topic, k.source, k.pending, k.retrying, k.resolved, k.dead,
    coalesce(
        (select m.created_at from dlq.dlq_messages m where m.source_topic = k.topic and m.source = k.source
         order by m.created_at desc, m.id desc limit 1),
        (select m.created_at from dlq.dlq_messages m
         where m.source = k.source and m.source <> 'kafka' and m.original_topic = k.topic
         order by m.created_at desc, m.id desc limit 1),
        (select m.created_at from dlq.dlq_messages m
         where m.original_topic = k.topic and m.source_topic is distinct from m.original_topic
             and m.source_topic is null and m.source = k.source
         order by m.created_at desc, m.id desc limit 1),
        '-infinity')
from (
    select c.topic, c.source, coalesce(sum(c.letters) filter (where c.status = 'PENDING'), 0)::bigint as pending,
        coalesce(sum(c.letters) filter (where c.status = 'RETRYING'), 0)::bigint as retrying,
        coalesce(sum(c.letters) filter (where c.status = 'RESOLVED'), 0)::bigint as resolved,
        coalesce(sum(c.letters) filter (where c.status = 'DEAD'), 0)::bigint as dead
    from dlq.dlq_counts c
    group by c.topic, c.source
    having sum(c.letters) > 0
) k
order by k.topic collate "C", k.source collate "C")";

constexpr std::string_view kDestinations = R"(
select c.original_topic, c.source, sum(c.letters)::bigint
from (select k.original_topic, k.source, k.status, k.letters from dlq.dlq_counts k where k.topic = $1::text
      union all
      select k.original_topic, k.source, k.status, k.letters
      from dlq.dlq_counts k
      where k.original_topic = $1::text and k.topic <> $1::text) c
where c.status in ('PENDING', 'RETRYING')
group by c.original_topic, c.source
having sum(c.letters) > 0
order by 3 desc, c.original_topic collate "C", c.source collate "C"
limit $2::int)";

constexpr std::string_view kFree = "(m.retry_owner is null or m.retry_expires_at < now())";

/// The conditions stand in the update itself: there they are looked at again in the version that the lock gave. One
/// that did not end is gone on with.
constexpr std::string_view kBegin = R"(
with held as materialized (
    select i.id, m.status, m.live, m.died
    from unnest($1::text[]::uuid[]) as i (id)
    cross join lateral (
        select m.status, not @free as live, m.retry_owner is not null as died
        from dlq.dlq_messages m
        where m.id = any (array[i.id])
        for no key update of m) m
), begun as (
    update dlq.dlq_messages m
    set status = 'RETRYING', retry_count = m.retry_count + case when m.retry_owner is null then 1 else 0 end,
        retried_before_at = case when m.retry_owner is null then m.last_retry_at else m.retried_before_at end,
        last_retry_at = now(), updated_at = now(), in_doubt = m.in_doubt or m.retry_owner is not null, retry_owner = $2::text,
        retry_expires_at = now() + $3::float8 * interval '1 second'
    from held h
    where m.id = any (array[h.id]) and @wanted and @free
        and (m.retry_count < m.max_retries or m.retry_owner is not null)
    returning m.id, h.status, h.died
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to, detail)
    select b.id, 'retry_begun', $4::text, b.status, 'RETRYING',
           case when b.died then 'an earlier retry did not end: it may have been published' end
    from begun b
)
select b.id::text, true, false, b.died from begun b
union all
select h.id::text, false, h.live, false from held h)";

/// The same as retry_effect() in store/letter_rules.h. 0 published, 1 failed, 2 in doubt, 3 not tried, 4 unpublished, 5
/// returned. What a redrive began counts for it.
constexpr std::string_view kEnd = R"(
with ended as (
    update dlq.dlq_messages m
    set status = case when i.result in (0, 4, 5) then 'RESOLVED'
                      when i.result = 1 and m.retry_count >= m.max_retries then 'DEAD'
                      when i.result = 3 and m.retry_count <= 1 and not m.in_doubt then 'PENDING'
                      else 'RETRYING' end,
        retry_count = case i.result when 3 then greatest(m.retry_count - 1, m.in_doubt::int) else m.retry_count end,
        last_retry_at = case i.result when 3 then m.retried_before_at else m.last_retry_at end,
        last_retry_error = case when i.result in (0, 4, 5) then null
                                when i.result = 3 then m.last_retry_error
                                else i.detail end,
        in_doubt = case when i.result in (0, 4, 5) then false else m.in_doubt or i.result = 2 end,
        retry_owner = null, retry_expires_at = null, updated_at = now()
    from unnest($3::text[]::uuid[], $4::int[], $5::text[]) as i (id, result, detail)
    where m.id = any (array[i.id]) and m.retry_owner = $1::text
    returning m.id, m.status, i.result, i.detail
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to, detail)
    select e.id,
           case e.result when 0 then 'published' when 2 then 'retry_in_doubt' when 4 then 'resolved_unpublished' when 5 then 'returned'
                         else 'retry_failed' end,
           $2::text, 'RETRYING', e.status, nullif(e.detail, '')
    from ended e
), counted as (
    update deliverd.redrives r
    set published = r.published + (select count(*) from ended where result in (0, 4, 5)),
        failed = r.failed + (select count(*) from ended where result = 1),
        in_doubt = r.in_doubt + (select count(*) from ended where result = 2), updated_at = now()
    where r.owner = $1::text and not r.finished
)
select count(*) from ended)";

constexpr std::string_view kLock = R"(
select @letter from dlq.dlq_messages m where m.id = $1::uuid for no key update)";

constexpr std::string_view kMarkDead = R"(
with dead as (
    update dlq.dlq_messages m
    set status = 'DEAD', retry_owner = null, retry_expires_at = null, updated_at = now()
    from (select o.id, o.status from dlq.dlq_messages o where o.id = $1::uuid) before
    where m.id = before.id and m.status in ('PENDING', 'RETRYING') and @free
    returning m.id, before.status
)
insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to)
select d.id, 'dead', $2::text, d.status, 'DEAD' from dead d)";

constexpr std::string_view kRevive = R"(
with revived as (
    update dlq.dlq_messages m
    set status = 'PENDING', retry_count = 0, updated_at = now()
    where m.id = $1::uuid and m.status = 'DEAD' and m.outbox is distinct from 'orders'
    returning m.id
)
insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to)
select r.id, 'revived', $2::text, 'DEAD', 'PENDING' from revived r)";

constexpr std::string_view kRemove = R"(
with held as materialized (
    select m.id from dlq.dlq_messages m where m.id = $1::uuid for update
), gone as (
    delete from dlq.dlq_messages m using held h where m.id = h.id and @free returning m.id, m.status
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from)
    select g.id, 'deleted', $2::text, g.status from gone g
)
select (select count(*) from held), (select count(*) from gone))";

/// A letter is not younger than its last change, so that the index by age finds what may be old enough. So may many be
/// that are kept, for their status or their last change: a statement looks at $7 of them at most, and no further than
/// it must.
constexpr std::string_view kPurge = R"(
with look as materialized (
    select m.id, m.created_at,
        m.status = $1::text and m.updated_at < now() - $2::float8 * interval '1 second' and @free as old
    from dlq.dlq_messages m
    where m.created_at < now() - $2::float8 * interval '1 second'
        and (m.created_at, m.id) > ($4::timestamptz, $5::uuid)
        and coalesce((select sum(c.letters) > 0 from dlq.dlq_counts c where c.status = $1::text), false)
    order by m.created_at, m.id
    limit $7::int
), old as materialized (
    select l.id, l.created_at
    from look l
    cross join lateral (
        select m.id
        from dlq.dlq_messages m
        where m.id = any (array[l.id]) and m.status = $1::text
            and m.updated_at < now() - $2::float8 * interval '1 second' and @free
        for update of m skip locked) m
    where l.old
    limit $3::int
), gone as (
    delete from dlq.dlq_messages m using old where m.id = any (array[old.id]) returning m.id
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from)
    select g.id, 'purged', $6::text, $1::text from gone g
)
select (select count(*) from gone), reached.created_at, reached.id::text
from (select count(*) = $3::int as is_full from old) found
left join lateral (
    (select o.created_at, o.id from old o where found.is_full order by o.created_at desc, o.id desc limit 1)
    union all
    (select l.created_at, l.id
     from look l
     where case when found.is_full then false else (select count(*) from look) = $7::int end
     order by l.created_at desc, l.id desc
     limit 1)) reached on true)";

/// Lines are never changed, so that one is deleted at the place it was found at.
constexpr std::string_view kPurgeHistory = R"(
with ended as (
    delete from deliverd.redrives r
    where r.topic in (
        select e.topic from deliverd.redrives e
        where e.finished and (e.updated_at < now() - $1::float8 * interval '1 second'
                              or e.up_to_id = '00000000-0000-0000-0000-000000000000')
        limit $2::int
        for update skip locked)
    returning 1
), old as materialized (
    select a.ctid as place, a.at
    from dlq.dlq_audit a
    where a.at < now() - $1::float8 * interval '1 second' and a.at >= $3::timestamptz
    order by a.at
    limit greatest(0, $2::int - (select count(*) from ended))
), gone as (
    delete from dlq.dlq_audit a using old o where a.ctid = o.place returning 1
)
select (select count(*) from ended) + (select count(*) from gone), (select max(o.at) from old o))";

constexpr std::string_view kOwned = R"(
select m.id::text, m.lane, m.outbox, m.outbox_row_id, t.table_schema, t.table_name, t.id_column, t.id_type,
    t.published_column, t.retry_count_column, t.next_attempt_at_column, t.dead_at_column
from unnest($2::text[]::uuid[]) as i (id)
cross join lateral (
    select m.id, m.lane, m.outbox, m.outbox_row_id
    from dlq.dlq_messages m
    where m.id = any (array[i.id]) and m.retry_owner = $1::text
    for no key update of m) m
left join deliverd.event_tables t on t.lane = m.lane)";

constexpr std::string_view kReturnMemory = R"(
update @memory o
set status = 'pending', retry_count = 0, next_attempt_at = now(), locked_at = null, locked_by = null, updated_at = now()
where o.outbox_id = any ($1::text[]::bigint[]) and o.status = 'dead'
returning o.outbox_id::text)";

/// A uuid does not fit into outbox_id: it stands in the column for keys.
constexpr std::string_view kNoteReturned = R"(
insert into @audit (outbox, outbox_id, idempotency_key, reason, status_from, status_to, actor)
select $1::text, case when i.id ~ '^-?[0-9]+$' then i.id::bigint else 0 end,
    case when i.id ~ '^-?[0-9]+$' then null else i.id end, 'dead_letter_returned', 'dead', 'pending', $3::text
from unnest($2::text[]) as i (id))";

string filled_in(std::string_view text, const string& prefix) {
    string sql(text);
    const std::vector<std::pair<std::string_view, string>> parts = {
        {"@wanted", wanted_letter()},          {"@free", string(kFree)},
        {"@detail", detail_columns("m")},      {"@letter", letter_columns("m")},
        {"@memory", prefix + "outbox_memory"}, {"@audit", prefix + "outbox_audit"}};
    for (const auto& [name, value] : parts) sql = replaced(std::move(sql), name, value);
    return sql;
}

}  // namespace

string letter_columns(std::string_view a) {
    return replaced(
        "@.id::text, @.source, @.original_topic, @.original_partition, @.original_offset, @.error_message,"
        " @.error_class, @.stack_trace, @.producer, @.retry_count, @.max_retries, @.payload::text, @.status,"
        " @.created_at, @.updated_at, @.last_retry_at, @.last_retry_error,"
        " @.in_doubt or (@.retry_owner is not null and @.retry_expires_at < now()), @.source_topic,"
        " @.source_partition, @.source_offset, @.lane, @.outbox, @.outbox_row_id, octet_length(@.record_value),"
        " @.truncated, @.retry_owner is not null and @.retry_expires_at < now()",
        "@", a);
}

string detail_columns(std::string_view a) {
    return letter_columns(a) + replaced(
                                   ", @.record_key, @.record_value, @.record_headers::text, @.record_timestamp_ms,"
                                   " @.record_timestamp_type",
                                   "@", a);
}

string replay_columns(std::string_view a) {
    const string row(a);
    const string payload = row + ".payload::text";
    const string of_no_record = "case when " + row + ".record_value is null then " + payload + " end";
    return replaced(replaced(detail_columns(a), payload, of_no_record), row + ".stack_trace", "null::text");
}

string from_topic(std::string_view topic, std::string_view a) {
    return replaced("@.source_topic = any (array[" + string(topic) + "::text])", "@", a);
}

string once_of_topic(std::string_view topic, std::string_view a) {
    return replaced("@.original_topic = any (array[" + string(topic) +
                        "::text]) and @.source_topic is distinct from @.original_topic",
                    "@", a);
}

string wanted_letter() {
    return "m.status in ('PENDING', 'RETRYING') and case when m.lane is null then not m.truncated"
           " else m.outbox <> 'orders' and m.outbox_row_id is not null end";
}

DeadLetterStatements::DeadLetterStatements(std::string_view schema) {
    const string prefix = quoted(schema) + ".";
    const auto statement = [&](string name, std::string_view text) {
        return Statement{"dlq_" + std::move(name), filled_in(text, prefix)};
    };
    // The index by name: somebody else's rule for the table must not swallow a letter.
    const auto by_place = [](std::string_view payload) {
        return replaced(replaced(string(kStore), "@once",
                                 "(source_topic, source_partition, source_offset, record_timestamp_ms)"
                                 " where source_topic is not null"),
                        "@payload", payload);
    };
    store = statement("store", by_place("i.payload::jsonb"));
    store_any_json = statement("store_any_json", by_place("deliverd.json_or_null(i.payload)"));
    const auto by_id = [](std::string_view payload) {
        return replaced(replaced(string(kStore), "@once", "(id)"), "@payload", payload);
    };
    store_by_id = statement("store_by_id", by_id("i.payload::jsonb"));
    store_by_id_any_json = statement("store_by_id_any_json", by_id("deliverd.json_or_null(i.payload)"));
    find = statement("find", kFind);
    audit = statement("audit", kAudit);
    topics = statement("topics", kTopics);
    destinations = statement("destinations", kDestinations);
    begin = statement("begin", kBegin);
    end = statement("end", kEnd);
    lock = statement("lock", kLock);
    mark_dead = statement("mark_dead", kMarkDead);
    revive = statement("revive", kRevive);
    remove = statement("remove", kRemove);
    purge = statement("purge", kPurge);
    purge_history = statement("purge_history", kPurgeHistory);
    owned = statement("owned", kOwned);
    return_memory = statement("return_memory", kReturnMemory);
    note_returned = statement("note_returned", kNoteReturned);
}

}  // namespace deliverd::store::postgres
