#include "store/postgres/outbox_sql.h"

namespace deliverd::store::postgres {
namespace {

std::string replaced(std::string text, std::string_view what, std::string_view with) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
        text.replace(at, what.size(), with);
    }
    return text;
}

/// @memory and @audit stand for the tables, @after for the condition of a claim with a position.
constexpr std::string_view kClaim = R"(
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
      and hashtextextended(s.payload_sha, 0) = hashtextextended(t.payload_sha, 0)
      and s.payload_sha = t.payload_sha
      and s.target_space = t.target_space
    order by hashtextextended(s.payload_sha, 0), s.outbox_id
    limit 1
) d on true
order by t.next_attempt_at, t.outbox_id)";

constexpr std::string_view kAfter = "and (p.next_attempt_at, p.outbox_id) > ($4::timestamptz, $5::bigint)";

/// Ids come sorted and the join keeps their order: batches that overlap lock their rows in the same order.
constexpr std::string_view kSettle = R"(
with done as (
    update @memory o
    set status = case i.kind when 2 then 'pending' when 3 then 'dead' else 'sent' end,
        retry_count = o.retry_count + case when i.kind >= 2 then 1 else 0 end,
        next_attempt_at = case i.kind when 2 then now() + i.delay_seconds * interval '1 second'
                                      else o.next_attempt_at end,
        locked_at = null, locked_by = null, last_error = i.note, updated_at = now()
    from unnest($2::bigint[], $3::int[], $4::text[], $5::float8[], $6::int[])
         as i (id, kind, note, delay_seconds, failures)
    where o.outbox_id = i.id and o.status = 'pending' and o.locked_by = $1::text and o.retry_count = i.failures
    returning o.outbox_id, o.status, o.retry_count, o.last_error, i.kind
), trail as (
    insert into @audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, worker, actor)
    select 'memory', d.outbox_id,
           case d.kind when 0 then 'outbox_flush_success' when 1 then 'outbox_flush_dedup_hit'
                       when 2 then 'outbox_flush_retry' else 'outbox_flush_dead' end,
           'pending', d.status, d.retry_count, d.last_error, $1::text, $1::text
    from done d
)
select outbox_id from done)";

constexpr std::string_view kRowStates = R"(
select outbox_id, status, retry_count, locked_by, last_error from @memory where outbox_id = any ($1::bigint[]))";

constexpr std::string_view kRenew = R"(
update @memory o
set locked_at = now(), updated_at = now()
from unnest($2::bigint[]) as i (id)
where o.outbox_id = i.id and o.status = 'pending' and o.locked_by = $1::text
returning o.outbox_id)";

constexpr std::string_view kRelease = R"(
update @memory o
set locked_at = null, locked_by = null, updated_at = now()
from unnest($2::bigint[]) as i (id)
where o.outbox_id = i.id and o.status = 'pending' and o.locked_by = $1::text
returning o.outbox_id)";

constexpr std::string_view kAudit = R"(
insert into @audit (outbox, outbox_id, reason, last_error, retry_count, worker, actor)
select 'memory', i.id, i.reason, i.detail, i.retry_count, $1::text, $1::text
from unnest($2::bigint[], $3::text[], $4::text[], $5::int[]) as i (id, reason, detail, retry_count))";

constexpr std::string_view kLag = R"(
select date_part('epoch', now() - next_attempt_at)
from @memory
where status = 'pending' and next_attempt_at <= now()
order by next_attempt_at, outbox_id
limit 1)";

constexpr std::string_view kCounts = "select status, count(*) from @memory group by status";

}  // namespace

std::string quoted(std::string_view name) {
    std::string out = "\"";
    for (const char c : name) {
        if (c == '"') out.push_back('"');
        out.push_back(c);
    }
    out.push_back('"');
    return out;
}

OutboxStatements::OutboxStatements(std::string_view schema) {
    const std::string prefix = quoted(schema) + ".";
    const auto statement = [&](std::string name, std::string sql) {
        sql = replaced(std::move(sql), "@memory", prefix + "outbox_memory");
        return Statement{"memory_" + std::move(name), replaced(std::move(sql), "@audit", prefix + "outbox_audit")};
    };
    relax_commit = statement("relax_commit", "select set_config('synchronous_commit', 'off', true)");
    claim = statement("claim", replaced(std::string(kClaim), "@after", ""));
    claim_after = statement("claim_after", replaced(std::string(kClaim), "@after", kAfter));
    settle = statement("settle", std::string(kSettle));
    row_states = statement("row_states", std::string(kRowStates));
    renew = statement("renew", std::string(kRenew));
    release = statement("release", std::string(kRelease));
    audit = statement("audit", std::string(kAudit));
    lag = statement("lag", std::string(kLag));
    counts = statement("counts", std::string(kCounts));
    ping = statement("ping", "select 1");
}

}  // namespace deliverd::store::postgres
