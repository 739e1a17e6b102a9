#include "store/postgres/queues/outbox_sql.h"

#include "store/postgres/letters/lane_letters.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

/// @memory and @audit stand for the tables, @after for the condition of a claim with a position, @held for what a
/// batch works on.
constexpr std::string_view kClaimMemories = R"(
with picked as materialized (
    select p.outbox_id
    from @memory p
    where p.status = 'pending'
      and p.next_attempt_at <= now()
      and (p.locked_at is null or p.locked_at < now() - $3::float8 * interval '1 second') @after
    order by p.next_attempt_at, p.outbox_id
    limit $2::int
    for update skip locked
), taken as (
    update @memory o
    set locked_at = now(), locked_by = $1::text, updated_at = now()
    from picked
    where o.outbox_id = picked.outbox_id
    returning o.outbox_id, o.item_id, o.target_space, o.payload_md, o.payload_sha, o.retry_count, o.next_attempt_at
)
select t.*, now(), d.outbox_id, d.memory_id
from taken t
left join lateral (
    select s.outbox_id,
           case when s.last_error like 'memory\_id=%' then substr(s.last_error, length('memory_id=') + 1) end
               as memory_id
    from @memory s
    where s.status = 'sent'
      and hashtextextended(s.payload_sha, hashtextextended(s.target_space, 0))
          = hashtextextended(t.payload_sha, hashtextextended(t.target_space, 0))
      and s.payload_sha = t.payload_sha
      and s.target_space = t.target_space
    order by hashtextextended(s.payload_sha, hashtextextended(s.target_space, 0)), s.outbox_id
    limit 1
) d on true
order by t.next_attempt_at, t.outbox_id)";

constexpr std::string_view kAfterMemories = "and (p.next_attempt_at, p.outbox_id) > ($4::timestamptz, $5::bigint)";

/// The rows of @input that this worker holds, except those that someone has locked at this moment. The lock is the
/// one an update takes anyway, so that a foreign key that points here is in nobody's way.
constexpr std::string_view kHeldMemories = R"(
with held as materialized (
    select o.outbox_id, i.*
    from @input
    join @memory o on o.outbox_id = i.id
    where o.status = 'pending' and o.locked_by = $1::text @fence
    for no key update of o skip locked
))";

constexpr std::string_view kIdsMemories = "unnest($2::bigint[]) as i (id)";

constexpr std::string_view kSettlementsMemories =
    "unnest($2::bigint[], $3::int[], $4::text[], $5::float8[], $6::int[])"
    " as i (id, kind, note, delay_seconds, failures)";

constexpr std::string_view kSettleMemories = R"(@held, done as (
    update @memory o
    set status = case h.kind when 2 then 'pending' when 3 then 'dead' else 'sent' end,
        retry_count = o.retry_count + case when h.kind >= 2 then 1 else 0 end,
        next_attempt_at = case h.kind when 2 then now() + h.delay_seconds * interval '1 second'
                                      else o.next_attempt_at end,
        locked_at = null, locked_by = null, last_error = h.note, updated_at = now()
    from held h
    where o.outbox_id = h.outbox_id
    returning o.outbox_id, o.status, o.retry_count, o.last_error, h.kind
), trail as (
    insert into @audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, worker, actor)
    select 'memory', d.outbox_id,
           case d.kind when 0 then 'outbox_flush_success' when 1 then 'outbox_flush_dedup_hit'
                       when 2 then 'outbox_flush_retry' else 'outbox_flush_dead' end,
           'pending', d.status, d.retry_count, d.last_error, $1::text, $1::text
    from done d
)
select outbox_id from done)";

constexpr std::string_view kRowStatesMemories = R"(
select outbox_id, status, retry_count, locked_by, last_error from @memory where outbox_id = any ($1::bigint[]))";

/// Lost is what was so when the statement began. What changes hands beside it is in neither list, as if locked.
constexpr std::string_view kRenewMemories = R"(@held, renewed as (
    update @memory o
    set locked_at = now(), updated_at = now()
    from held h
    where o.outbox_id = h.outbox_id
    returning o.outbox_id
)
select outbox_id, true from renewed
union all
select i.id, false
from unnest($2::bigint[]) as i (id)
left join @memory o on o.outbox_id = i.id and o.status = 'pending' and o.locked_by = $1::text
where o.outbox_id is null)";

constexpr std::string_view kReleaseMemories = R"(@held
update @memory o
set locked_at = null, locked_by = null, updated_at = now()
from held h
where o.outbox_id = h.outbox_id
returning o.outbox_id)";

constexpr std::string_view kAuditMemories = R"(
insert into @audit (outbox, outbox_id, reason, last_error, retry_count, worker, actor)
select 'memory', i.id, i.reason, i.detail, i.retry_count, $1::text, $1::text
from unnest($2::bigint[], $3::text[], $4::text[], $5::int[]) as i (id, reason, detail, retry_count))";

/// -infinity, which an INSERT may say for "at once", is no time to count from: kEarliestMicros in its place.
constexpr std::string_view kLagMemories = R"(
select date_part('epoch', now() - greatest(next_attempt_at, timestamptz '1970-01-01 00:00:00Z'))
from @memory
where status = 'pending' and next_attempt_at <= now()
order by next_attempt_at, outbox_id
limit 1)";

constexpr std::string_view kCountsMemories = "select status, count(*) from @memory group by status";

constexpr std::string_view kRemoveMemories = R"(
with gone as (
    delete from @memory where target_space = $1::text and outbox_id between $2::bigint and $3::bigint
    returning outbox_id),
trail as (
    delete from @audit a using gone where a.outbox = 'memory' and a.outbox_id = gone.outbox_id)
select count(*) from gone)";

}  // namespace

OutboxStatements::OutboxStatements(std::string_view schema) {
    const std::string prefix = quoted(schema) + ".";
    const auto on_held = [](std::string_view sql, std::string_view input, std::string_view fence) {
        return replaced(replaced(replaced(std::string(sql), "@held", kHeldMemories), "@input", input), "@fence", fence);
    };
    const auto statement = [&](std::string name, std::string sql) {
        sql = replaced(std::move(sql), "@memory", prefix + "outbox_memory");
        return Statement{"memory_" + std::move(name), replaced(std::move(sql), "@audit", prefix + "outbox_audit")};
    };
    claim = statement("claim", replaced(std::string(kClaimMemories), "@after", ""));
    claim_after = statement("claim_after", replaced(std::string(kClaimMemories), "@after", kAfterMemories));
    settle = statement("settle", on_held(kSettleMemories, kSettlementsMemories, "and o.retry_count = i.failures"));
    letters = statement("letters", memory_letters_sql("@memory"));
    row_states = statement("row_states", std::string(kRowStatesMemories));
    renew = statement("renew", on_held(kRenewMemories, kIdsMemories, ""));
    release = statement("release", on_held(kReleaseMemories, kIdsMemories, ""));
    audit = statement("audit", std::string(kAuditMemories));
    lag = statement("lag", std::string(kLagMemories));
    counts = statement("counts", std::string(kCountsMemories));
    remove = statement("remove", std::string(kRemoveMemories));
}

}  // namespace deliverd::store::postgres
