#include "store/postgres/letters/redrive_sql.h"

#include <string>
#include <utility>
#include <vector>

#include "store/postgres/letters/dead_letters_sql.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

using std::string;

constexpr std::string_view kRedrive = R"(r.topic, r.actor, r.position_created_at, r.position_id::text,
    r.up_to_created_at, r.up_to_id::text, r.published, r.failed, r.in_doubt, r.taken_over, r.finished)";

constexpr std::string_view kNobody = "'00000000-0000-0000-0000-000000000000'::uuid";

/// What the process that died had begun is anybody's. The redrive's row stays locked until it is taken.
constexpr std::string_view kFreeRedrive = R"(
with lost as materialized (
    select r.owner, r.position_created_at as at, r.position_id as id
    from deliverd.redrives r
    where r.topic = $1::text and r.owner <> $2::text and not r.finished and r.expires_at < now()
    for update
)
update dlq.dlq_messages d
set retry_expires_at = '-infinity'
from (select m.id from lost l join dlq.dlq_messages m on @from_topic and m.retry_owner = l.owner
          and (m.created_at, m.id) <= (l.at, l.id)
      union all
      select m.id from lost l join dlq.dlq_messages m on @once_of_topic and m.retry_owner = l.owner
          and (m.created_at, m.id) <= (l.at, l.id)) w
where d.id = any (array[w.id]))";

/// One that is taken up starts over: what lies before the position and was given back, or begun by a process that died,
/// is found again, and what it has tried is left out (kMine).
constexpr std::string_view kOpenRedrive = R"(
insert into deliverd.redrives as r (topic, actor, owner, expires_at, up_to_created_at, up_to_id)
select $1::text, $3::text, $2::text, now() + $4::float8 * interval '1 second',
    coalesce(newest.created_at, '-infinity'), coalesce(newest.id, @nobody)
from (values (1)) as one
left join lateral (
    select p.id, p.created_at
    from ((select m.id, m.created_at from dlq.dlq_messages m where @from_topic
           order by m.source_topic desc, m.created_at desc, m.id desc limit 1)
          union all
          (select m.id, m.created_at from dlq.dlq_messages m where @once_of_topic
           order by m.original_topic desc, m.created_at desc, m.id desc limit 1)) p
    order by p.created_at desc, p.id desc
    limit 1) newest on true
on conflict (topic) do update
set actor = case when r.finished then excluded.actor else r.actor end,
    owner = excluded.owner, expires_at = excluded.expires_at,
    position_created_at = case when r.owner = excluded.owner and not r.finished then r.position_created_at end,
    position_id = case when r.owner = excluded.owner and not r.finished then r.position_id end,
    up_to_created_at = case when r.finished then excluded.up_to_created_at else r.up_to_created_at end,
    up_to_id = case when r.finished then excluded.up_to_id else r.up_to_id end,
    published = case when r.finished then 0 else r.published end,
    failed = case when r.finished then 0 else r.failed end,
    in_doubt = case when r.finished then 0 else r.in_doubt end,
    taken_over = case when r.finished then 0 else r.taken_over end,
    started_at = case when r.finished then now() else r.started_at end,
    finished = false, updated_at = now()
where r.finished or r.expires_at < now() or r.owner = excluded.owner
returning @redrive)";

/// A retry whose process died is gone on with: it is the same one, and
/// does not count once more. Waits for no letter's lock: who has it is at work on the letter.
/// A letter is looked up once: the scan that finds it locks it too, and the update goes to its place. One that changed
/// in between is not seen there and is left out, like one that is locked. What is answered is read at that place too,
/// as it was before the update: as what the update returns, the whole row would be copied three times on its way out.
/// In no order.
/// The redrive's row is held against those who would take it over (kFreeRedrive), not against its own pages that end
/// meanwhile and count there: with a stronger lock beginning and ending would take turns.
constexpr std::string_view kNextOfRedrive = R"(
with mine as materialized (
    select coalesce(r.position_created_at, '-infinity') as at, coalesce(r.position_id, @nobody) as id,
        r.up_to_created_at, r.up_to_id, r.started_at, $3::int as room
    from deliverd.redrives r
    where r.topic = $1::text and r.owner = $2::text and not r.finished
    for key share
), from_topic as materialized (
    select @candidate
    from dlq.dlq_messages m
    where @from_topic and @window and @mine
    order by m.source_topic, m.created_at, m.id
    limit (select room from mine)
    for no key update of m skip locked
), once_of_topic as materialized (
    select @candidate
    from dlq.dlq_messages m
    where @once_of_topic and @window and @mine
    order by m.original_topic, m.created_at, m.id
    limit (select room from mine)
    for no key update of m skip locked
), found as materialized (
    select p.place, p.id, p.created_at, p.taken_over,
        sum(p.bytes) over (order by p.created_at, p.id rows unbounded preceding) - p.bytes as bytes_before
    from (select * from from_topic union all select * from once_of_topic) p
    order by p.created_at, p.id
    limit (select room from mine)
), next as materialized (
    select * from found where bytes_before < $6::bigint
), begun as (
    update dlq.dlq_messages m
    set status = 'RETRYING', retry_count = m.retry_count + case when h.taken_over then 0 else 1 end,
        retried_before_at = case when h.taken_over then m.retried_before_at else m.last_retry_at end,
        last_retry_at = now(), updated_at = now(), in_doubt = m.in_doubt or h.taken_over, retry_owner = $2::text,
        retry_expires_at = now() + $4::float8 * interval '1 second'
    from next h
    where m.ctid = h.place
    returning m.id, h.taken_over, m.in_doubt
), trail as (
    insert into dlq.dlq_audit (message_id, action, actor, status_from, status_to, detail)
    select b.id, 'retry_begun', $5::text, 'RETRYING', 'RETRYING',
           'an earlier retry did not end: it may have been published'
    from begun b
    where b.taken_over
), reached as (
    select r.created_at, r.id
    from ((select n.created_at, n.id from next n order by n.created_at desc, n.id desc limit 1)
          union all
          (select m.up_to_created_at, m.up_to_id from mine m
           where (select count(*) from next) = (select count(*) from found)
               and (select count(*) from found) < m.room)) r
    order by r.created_at desc, r.id desc
    limit 1
), moved as (
    update deliverd.redrives r
    set position_created_at = coalesce((select created_at from reached), r.position_created_at),
        position_id = coalesce((select id from reached), r.position_id),
        taken_over = r.taken_over + (select count(*) from begun where in_doubt),
        expires_at = greatest(r.expires_at, now() + $4::float8 * interval '1 second'), updated_at = now()
    from mine
    where r.topic = $1::text
)
select @begun, w.held, w.looked, m.taken_over
from (select (select count(*) from mine) as held, (select count(*) from next) as looked) w
left join (select m.*, h.taken_over from next h join dlq.dlq_messages m on m.ctid = h.place) m on true)";

constexpr std::string_view kCandidate = R"(m.ctid as place, m.id, m.created_at, m.retry_owner is not null as taken_over,
        coalesce(octet_length(m.record_key), 0)
            + coalesce(octet_length(m.record_value), octet_length(m.payload::text), 0)
            + pg_column_size(m.record_headers) as bytes)";
constexpr std::string_view kWindow = R"((m.created_at, m.id) > ((select at from mine), (select id from mine))
    and (m.created_at, m.id) <= ((select up_to_created_at from mine), (select up_to_id from mine)))";
/// What the redrive has tried already is not tried again, though it may go over it once more.
constexpr std::string_view kMine = R"(@wanted and not (m.source = 'kafka' and m.original_topic = any ($7::text[]))
    and case when m.retry_owner is not null then m.retry_expires_at < now()
             else m.retry_count < m.max_retries
                 and (m.status = 'RETRYING' and m.last_retry_at >= (select started_at from mine)) is not true end)";

constexpr std::string_view kCloseRedrive = R"(
update deliverd.redrives r set finished = true, expires_at = now(), updated_at = now()
where r.topic = $1::text and r.owner = $2::text and not r.finished
returning @redrive)";

constexpr std::string_view kReleaseRedrive = R"(
update deliverd.redrives r set expires_at = '-infinity', updated_at = now()
where r.topic = $1::text and r.owner = $2::text and not r.finished)";

constexpr std::string_view kAbandoned = R"(
select @redrive from deliverd.redrives r where not r.finished and r.expires_at < now() order by r.topic)";

/// What `begun` makes of a letter, told of the row as it was before.
string begun_columns() {
    string columns = replay_columns("m");
    const std::vector<std::pair<std::string_view, string>> changed = {
        {"m.status", "'RETRYING'::text"},
        {"m.retry_count", "m.retry_count + case when m.taken_over then 0 else 1 end"},
        {"m.updated_at", "now()"},
        {"m.last_retry_at", "now()"},
        {"m.in_doubt or (m.retry_owner is not null and m.retry_expires_at < now())", "m.in_doubt or m.taken_over"},
        {"m.retry_owner is not null and m.retry_expires_at < now()", "false"}};
    for (const auto& [before, after] : changed) columns = replaced(std::move(columns), before, after);
    return columns;
}

Statement statement(string name, std::string_view text) {
    string sql(text);
    // Those that have others in them come first.
    const std::vector<std::pair<std::string_view, string>> parts = {
        {"@candidate", string(kCandidate)}, {"@window", string(kWindow)},      {"@mine", string(kMine)},
        {"@wanted", wanted_letter()},       {"@begun", begun_columns()},       {"@redrive", string(kRedrive)},
        {"@nobody", string(kNobody)},       {"@from_topic", from_topic("$1")}, {"@once_of_topic", once_of_topic("$1")}};
    for (const auto& [mark, value] : parts) sql = replaced(std::move(sql), mark, value);
    return Statement{"redrive_" + std::move(name), std::move(sql)};
}

}  // namespace

RedriveStatements::RedriveStatements()
    : free(statement("free", kFreeRedrive)),
      open(statement("open", kOpenRedrive)),
      next(statement("next", kNextOfRedrive)),
      close(statement("close", kCloseRedrive)),
      release(statement("release", kReleaseRedrive)),
      abandoned(statement("abandoned", kAbandoned)) {}

}  // namespace deliverd::store::postgres
