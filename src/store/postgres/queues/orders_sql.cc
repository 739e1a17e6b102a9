#include "store/postgres/queues/orders_sql.h"

#include "store/postgres/letters/lane_letters.h"
#include "store/sql_text.h"

namespace deliverd::store::postgres {
namespace {

/// @orders, @ledger and @audit stand for the tables, @after for the condition of a claim with a position, @held for
/// what a batch works on, @moved for what the audit wants to know of a row, @trail(…) for writing it there.
constexpr std::string_view kMoved =
    "o.id, o.idempotency_key, o.trace_id, o.retry_count, o.last_error, o.broker_order_id";

constexpr std::string_view kTrail = R"(
    insert into @audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, idempotency_key,
                        trace_id, broker_order_id, worker, actor)
    select 'orders', m.id, '@reason', '@from', '@to', m.retry_count, m.last_error, m.idempotency_key, m.trace_id,
           m.broker_order_id, $1::text, $1::text
    from moved m)";

constexpr std::string_view kRequeue = R"(
with due as materialized (
    select p.id
    from @orders p
    where p.status = 'failed' and p.next_attempt_at <= now()
    order by p.next_attempt_at, p.id
    limit $2::int
    for no key update skip locked
), moved as (
    update @orders o
    set status = 'queued', updated_at = now()
    from due
    where o.id = due.id
    returning @moved
)@trail)";

constexpr std::string_view kClaim = R"(
with picked as materialized (
    select p.id
    from @orders p
    where p.status = 'queued' and p.next_attempt_at <= now() @after
    order by p.next_attempt_at, p.id
    limit $2::int
    for no key update skip locked
), moved as (
    update @orders o
    set status = 'sending', locked_by = $1::text, updated_at = now()
    from picked
    where o.id = picked.id
    returning @moved, coalesce(o.request_body, o.request_json::text) as request, o.created_at, o.next_attempt_at
), trail as (@trail)
select m.id, m.idempotency_key, m.request, m.trace_id, m.retry_count, m.created_at, m.next_attempt_at, now()
from moved m
order by m.next_attempt_at, m.id)";

constexpr std::string_view kAfter = "and (p.next_attempt_at, p.id) > ($3::timestamptz, $4::bigint)";

/// The rows of @input that this worker holds, except those that someone has locked at this moment. The lock is the
/// one an update takes anyway, so that a foreign key that points here is in nobody's way. Locked in a query of its own
/// for each id: in a plain join a planner without statistics compares every id with everything that is being sent.
constexpr std::string_view kHeldOrders = R"(
with held as materialized (
    select i.*
    from @input
    cross join lateral (
        select 1
        from @orders o
        where o.id = i.id and o.status = 'sending' and o.locked_by = $1::text @fence
        for no key update of o skip locked
    ) as mine
))";

constexpr std::string_view kIds = "unnest($2::bigint[]) as i (id)";

constexpr std::string_view kSettlements =
    "unnest($2::bigint[], $3::int[], $4::int[], $5::float8[], $6::text[], $7::text[], $8::text[], $9::text[],"
    " $10::text[], $11::text[], $13::int[])"
    " as i (id, kind, failures, delay_seconds, reason, code, detail, broker_order_id, result_digest, result_json,"
    " in_doubt)";

/// The ledger's row may have been purged meanwhile.
constexpr std::string_view kSettle = R"(@held, done as (
    update @orders o
    set status = case h.kind when 2 then 'failed' when 3 then 'dead' else 'sent' end,
        retry_count = o.retry_count + case h.kind when 2 then 1 else 0 end,
        next_attempt_at = case h.kind when 2 then now() + h.delay_seconds * interval '1 second'
                                      else o.next_attempt_at end,
        last_error = h.code, last_error_detail = h.detail, locked_by = null, updated_at = now(),
        broker_order_id = coalesce(h.broker_order_id, o.broker_order_id),
        in_doubt = h.kind >= 2 and (o.in_doubt or h.in_doubt = 1)
    from held h
    where o.id = h.id
    returning @moved, o.status, o.request_digest, h.kind, h.reason, h.detail, h.result_digest, h.result_json
), ledger as (
    insert into @ledger (idempotency_key, request_digest, result_digest, result_json, expires_at)
    select d.idempotency_key, d.request_digest, d.result_digest, d.result_json,
           now() + $12::float8 * interval '1 second'
    from done d
    where d.kind < 2
    on conflict (idempotency_key) do update
    set result_digest = excluded.result_digest, result_json = excluded.result_json, expires_at = excluded.expires_at
), trail as (
    insert into @audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, detail,
                        idempotency_key, trace_id, broker_order_id, worker, actor)
    select 'orders', d.id, d.reason, 'sending', d.status, d.retry_count, d.last_error, d.detail, d.idempotency_key,
           d.trace_id, d.broker_order_id, $1::text, $1::text
    from done d
)
select id from done)";

constexpr std::string_view kRowStates = R"(
select id, status, retry_count, locked_by, last_error_detail from @orders where id = any ($1::bigint[]))";

/// Lost is what was so when the statement began. What changes hands beside it is in neither list, as if locked.
constexpr std::string_view kRenewOrders = R"(@held, renewed as (
    update @orders o
    set updated_at = now()
    from held h
    where o.id = h.id
    returning o.id
)
select id, true from renewed
union all
select i.id, false
from unnest($2::bigint[]) as i (id)
left join lateral (
    select o.id from @orders o where o.id = i.id and o.status = 'sending' and o.locked_by = $1::text offset 0
) as mine on true
where mine.id is null)";

constexpr std::string_view kReleaseOrders = R"(@held, moved as (
    update @orders o
    set status = 'queued', locked_by = null, updated_at = now()
    from held h
    where o.id = h.id
    returning @moved
), trail as (@trail)
select id from moved)";

/// Whether its worker sent it before it vanished, nobody knows.
constexpr std::string_view kRescue = R"(
with stuck as materialized (
    select p.id
    from @orders p
    where p.status = 'sending' and p.updated_at < now() - $2::float8 * interval '1 second'
    for no key update skip locked
), moved as (
    update @orders o
    set status = 'queued', locked_by = null, in_doubt = true, updated_at = now()
    from stuck
    where o.id = stuck.id
    returning @moved
), trail as (@trail)
select id from moved)";

constexpr std::string_view kNotes = R"(
insert into @audit (outbox, outbox_id, reason, detail, retry_count, idempotency_key, trace_id, worker, actor)
select 'orders', i.id, i.reason, i.detail, i.retry_count, o.idempotency_key, o.trace_id, $1::text, $1::text
from unnest($2::bigint[], $3::text[], $4::text[], $5::int[]) as i (id, reason, detail, retry_count)
left join @orders o on o.id = i.id)";

/// Of what is queued or waits for its retry the first in due order stands for all: finding the very oldest would mean
/// reading the whole backlog. What is being sent is few. 1970 as in cells.h.
constexpr std::string_view kLag = R"(
select date_part('epoch', now() - greatest(oldest.at, timestamptz '1970-01-01 00:00:00Z'))
from (
    select min(created_at) as at
    from (
        (select created_at from @orders where status = 'queued' and next_attempt_at <= now()
         order by next_attempt_at, id limit 1)
        union all
        (select created_at from @orders where status = 'failed' and next_attempt_at <= now()
         order by next_attempt_at, id limit 1)
        union all
        select created_at from @orders where status = 'sending'
    ) as due
) as oldest
where oldest.at is not null)";

constexpr std::string_view kCounts = "select status, count(*) from @orders group by status";

/// One key's row is what all posts of it wait for; the keys come sorted, so that two batches wait in one direction.
/// The insert returns only columns of the table, and who posted is none: looked up by key.
constexpr std::string_view kAccept = R"(
with fresh as (
    insert into @orders (idempotency_key, request_json, request_body, request_digest, trace_id, status,
                         next_attempt_at)
    select i.key, i.request::jsonb, i.request, i.digest, i.trace_id, 'queued', now()
    from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as i (key, request, digest, trace_id)
    on conflict (idempotency_key) do nothing
    returning id, idempotency_key, request_digest, trace_id, created_at, updated_at
), ledger as (
    insert into @ledger (idempotency_key, request_digest, expires_at)
    select f.idempotency_key, f.request_digest, now() + $6::float8 * interval '1 second'
    from fresh f
    on conflict (idempotency_key) do update
    set request_digest = excluded.request_digest, result_digest = null, result_json = null,
        expires_at = excluded.expires_at
), trail as (
    insert into @audit (outbox, outbox_id, reason, status_to, retry_count, idempotency_key, trace_id, actor)
    select 'orders', f.id, 'order_accepted', 'queued', 0, f.idempotency_key, f.trace_id,
           (select jsonb_object($1::text[], $5::text[])) ->> f.idempotency_key
    from fresh f
)
select id, idempotency_key, created_at, updated_at from fresh)";

constexpr std::string_view kOrder =
    "o.id, o.idempotency_key, coalesce(o.request_body, o.request_json::text), o.request_digest, o.trace_id, o.status,"
    " o.retry_count, o.next_attempt_at, o.last_error, o.last_error_detail, o.in_doubt, o.broker_order_id,"
    " o.created_at, o.updated_at";

constexpr std::string_view kFindOrders = R"(
select @order, l.result_digest, l.result_json
from @orders o
left join @ledger l on l.idempotency_key = o.idempotency_key
where o.idempotency_key = any ($1::text[]))";

constexpr std::string_view kAuditOf = R"(
select a.at, a.reason, a.status_from, a.status_to, a.retry_count, a.last_error, a.detail, a.broker_order_id, a.worker,
       a.actor
from @audit a
where a.outbox = 'orders' and a.outbox_id = (select id from @orders where idempotency_key = $1::text)
order by a.audit_id desc
limit $2::int)";

constexpr std::string_view kList = R"(
select @order
from @orders o
where @state and ($1::text is null or o.status = $1::text) and ($2::bigint is null or o.id < $2::bigint)
order by o.id desc
limit $3::int)";

/// The names of the tables, and the name of the statement.
class Tables {
public:
    explicit Tables(std::string_view schema) : prefix_(quoted(schema) + ".") {}

    [[nodiscard]] Statement statement(std::string name, std::string_view text) const {
        std::string sql = replaced(std::string(text), "@orders", prefix_ + "outbox_orders");
        sql = replaced(std::move(sql), "@ledger", prefix_ + "idempo_ledger");
        sql = replaced(std::move(sql), "@audit", prefix_ + "outbox_audit");
        sql = replaced(std::move(sql), "@order", kOrder);
        return Statement{"orders_" + std::move(name), replaced(std::move(sql), "@moved", kMoved)};
    }

private:
    std::string prefix_;
};

struct Transition {
    std::string_view reason;
    std::string_view from;
    std::string_view to;
};

std::string audited(std::string_view sql, const Transition& transition) {
    std::string trail = replaced(std::string(kTrail), "@reason", transition.reason);
    trail = replaced(replaced(std::move(trail), "@from", transition.from), "@to", transition.to);
    return replaced(std::string(sql), "@trail", trail);
}

std::string on_held(std::string_view sql, std::string_view input, std::string_view fence) {
    return replaced(replaced(replaced(std::string(sql), "@held", kHeldOrders), "@input", input), "@fence", fence);
}

}  // namespace

OrdersOutboxStatements::OrdersOutboxStatements(std::string_view schema) {
    const Tables tables(schema);
    const std::string claim_sql = audited(kClaim, {"outbox_claim", "queued", "sending"});
    const std::string release_sql = audited(kReleaseOrders, {"outbox_release", "sending", "queued"});
    requeue = tables.statement("requeue", audited(kRequeue, {"outbox_requeue", "failed", "queued"}));
    claim = tables.statement("claim", replaced(claim_sql, "@after", ""));
    claim_after = tables.statement("claim_after", replaced(claim_sql, "@after", kAfter));
    rescue = tables.statement("rescue", audited(kRescue, {"outbox_stuck", "sending", "queued"}));
    settle = tables.statement("settle", on_held(kSettle, kSettlements, "and o.retry_count = i.failures"));
    letters = tables.statement("letters", order_letters_sql("@orders"));
    row_states = tables.statement("row_states", kRowStates);
    renew = tables.statement("renew", on_held(kRenewOrders, kIds, ""));
    release = tables.statement("release", on_held(release_sql, kIds, ""));
    audit = tables.statement("notes", kNotes);
    lag = tables.statement("lag", kLag);
    counts = tables.statement("counts", kCounts);
}

OrdersStatements::OrdersStatements(std::string_view schema) {
    const Tables tables(schema);
    accept = tables.statement("accept", kAccept);
    find = tables.statement("find", kFindOrders);
    audit = tables.statement("audit", kAuditOf);
    list = tables.statement("list", replaced(std::string(kList), "@state", "true"));
    list_dead = tables.statement("list_dead", replaced(std::string(kList), "@state", "o.status = 'dead'"));
}

}  // namespace deliverd::store::postgres
