#include "store/sqlite/events/event_outbox.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/failpoint.h"
#include "client/sqlite_rows.h"
#include "store/event_row.h"
#include "store/settle_batch.h"
#include "store/sqlite/events/event_shards.h"
#include "store/sqlite/events/event_table.h"
#include "store/sqlite/file/row_id.h"
#include "store/sqlite/file/time_modifier.h"
#include "store/sqlite/letters/lane_letters.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

std::string json_numbers(std::span<const std::int32_t> numbers) {
    return client::json_ids(std::vector<std::int64_t>(numbers.begin(), numbers.end()));
}

EventRow event_at(const SqliteStatement& row, EventOrigin origin) {
    EventRow out;
    out.row_id = row.text(0);
    out.sequence = sequence_of(out.row_id).value_or(0);
    out.shard = static_cast<std::int32_t>(row.integer(10));
    out.origin = origin;
    out.age_seconds = std::max(0.0, row.real(7));
    Message& message = out.message;
    message.id = out.sequence;
    message.key = row.text(1);
    message.type = row.text(2);
    message.body = row.text(3);
    message.message_id = row.text(4);
    message.headers = event_headers(row.text(5));
    message.created_at = row.text(6);
    message.aggregate_type = row.text(8);
    message.failures = static_cast<std::int32_t>(row.integer(9));
    message.content_type = "application/json";
    return out;
}

void sort_by_id(std::vector<EventRow>& rows) {
    std::sort(rows.begin(), rows.end(),
              [](const EventRow& a, const EventRow& b) { return before(a.row_id, b.row_id); });
}

void append(std::vector<EventRow>& to, std::vector<EventRow> rows) {
    to.insert(to.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
}

}  // namespace

Result<std::unique_ptr<EventOutbox>> SqliteEventOutbox::open(File& file, const EventTable& table) {
    if (auto ok = check_event_table(table); !ok) return Failure(std::move(ok.error()));
    auto handle = file.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto indexed = has_our_indexes(**handle, table);
    if (!indexed) return Failure(std::move(indexed.error()));
    auto nulls = nulls_of(**handle, table);
    if (!nulls) return Failure(std::move(nulls.error()));
    return std::unique_ptr<EventOutbox>(new SqliteEventOutbox(file, table, *indexed && !nulls->any(), *nulls));
}

Result<void> SqliteEventOutbox::check(Handle& handle, const EventRead& request) {
    for (const std::int32_t limit : {request.limit, request.due_limit, request.follow_limit}) {
        if (limit < 0) return permanent("bad_argument", "limit is " + std::to_string(limit) + ": 0 is the least");
    }
    if (request.after) {
        if (auto ok = check_row_id(handle, table_, "after", *request.after); !ok) return ok;
    }
    if (request.up_to) {
        if (auto ok = check_row_id(handle, table_, "up_to", *request.up_to); !ok) return ok;
    }
    for (const EventFollow& follow : request.follow) {
        if (!follow.after) continue;
        if (auto ok = check_row_id(handle, table_, "follow.after", *follow.after); !ok) return ok;
    }
    return {};
}

Result<std::vector<EventRow>> SqliteEventOutbox::read_part(Handle& handle, const std::string& sql,
                                                           const EventRead& request, std::int32_t limit,
                                                           EventOrigin origin, const EventFollow* follow,
                                                           std::int64_t& bytes_left) {
    std::vector<EventRow> rows;
    if (limit == 0 || bytes_left <= 0) return rows;
    auto statement = handle.prepared(sql);
    if (!statement) return Failure(std::move(statement.error()));
    const std::string shards = json_numbers(request.shards);
    (*statement)->bind(1, std::string_view(shards)).bind(2, std::int64_t{limit});
    const std::optional<RowId>& after = follow != nullptr ? follow->after : request.after;
    if (origin != EventOrigin::due && after) bind_row_id(**statement, 3, *after);
    if (origin == EventOrigin::forward && request.up_to) bind_row_id(**statement, 4, *request.up_to);
    if (follow != nullptr) (*statement)->bind(4, std::string_view(follow->aggregate_id));
    if (!keeps_failures(table_.columns)) (*statement)->bind(5, std::string_view(table_.lane));
    while (bytes_left > 0) {
        auto more = (*statement)->step();
        if (!more) return Failure(std::move(more.error()));
        if (!*more) break;
        rows.push_back(event_at(**statement, origin));
        bytes_left -= static_cast<std::int64_t>(bytes_in_memory(rows.back().message));
    }
    (*statement)->reset();
    return rows;
}

Result<std::vector<EventRow>> SqliteEventOutbox::read_follow(Handle& handle, const EventRead& request,
                                                             std::int64_t& bytes_left) {
    std::vector<EventRow> rows;
    for (const EventFollow& follow : request.follow) {
        const std::string sql = sql_.follow(follow.after.has_value(), follow.aggregate_id.empty());
        auto part = read_part(handle, sql, request, request.follow_limit, EventOrigin::follow, &follow, bytes_left);
        if (!part) return part;
        append(rows, std::move(*part));
    }
    sort_by_id(rows);
    return rows;
}

Result<EventBatch> SqliteEventOutbox::read(const EventRead& request) {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    if (auto ok = check(**handle, request); !ok) return Failure(std::move(ok.error()));
    EventBatch batch;
    if (request.shards.empty()) return batch;
    auto moment = Transaction::begin_reading(**handle);
    if (!moment) return Failure(std::move(moment.error()));
    std::int64_t due_left = std::max<std::int64_t>(request.byte_limit, 1);
    std::int64_t follow_left = due_left;
    std::int64_t forward_left = due_left;
    auto due = read_part(**handle, sql_.due(), request, request.due_limit, EventOrigin::due, nullptr, due_left);
    if (!due) return Failure(std::move(due.error()));
    sort_by_id(*due);
    auto follow = read_follow(**handle, request, follow_left);
    if (!follow) return Failure(std::move(follow.error()));
    auto forward = read_part(**handle, sql_.forward(request.after.has_value(), request.up_to.has_value()), request,
                             request.limit, EventOrigin::forward, nullptr, forward_left);
    if (!forward) return Failure(std::move(forward.error()));
    batch.rows = std::move(*due);
    append(batch.rows, std::move(*follow));
    append(batch.rows, std::move(*forward));
    batch.due_cut = due_left <= 0;
    batch.follow_cut = follow_left <= 0;
    batch.forward_cut = forward_left <= 0;
    return batch;
}

Result<std::vector<EventSettled>> SqliteEventOutbox::settle(std::string_view owner,
                                                            std::span<const EventSettlement> settlements) {
    using Answers = std::vector<EventSettled>;
    if (auto ok = check_upkeep_name("owner", owner); !ok) return Failure(std::move(ok.error()));
    if (settlements.empty()) return Answers{};
    return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Answers> {
        std::map<std::pair<std::int32_t, std::int64_t>, bool> owned;
        Answers answers;
        answers.reserve(settlements.size());
        for (const EventSettlement& settlement : settlements) {
            const auto [found, fresh] = owned.try_emplace({settlement.lease.shard, settlement.lease.token}, false);
            if (fresh) {
                auto owns = owns_shard(handle, table_.lane, owner, settlement.lease);
                if (!owns) return Failure(std::move(owns.error()));
                found->second = *owns;
            }
            if (!found->second) {
                answers.push_back(EventSettled::fenced);
                continue;
            }
            auto settled = settle_row(handle, owner, settlement);
            if (!settled) return Failure(std::move(settled.error()));
            answers.push_back(*settled);
        }
        failpoint("store.during_settle");
        return answers;
    });
}

Result<EventSettled> SqliteEventOutbox::settle_row(Handle& handle, std::string_view owner,
                                                   const EventSettlement& settlement) {
    const Settlement& how = settlement.settlement;
    const bool failed = how.kind == SettleKind::retry || how.kind == SettleKind::dead;
    auto statement = handle.prepared(!failed                         ? sql_.sent()
                                     : how.kind == SettleKind::retry ? sql_.retry()
                                                                     : sql_.dead());
    if (!statement) return Failure(std::move(statement.error()));
    const std::optional<std::string> note = settle_note(how);
    const std::string delay = time_ahead(settle_delay_seconds(how));
    bind_row_id(**statement, 1, settlement.row_id);
    (*statement)->bind(2, std::int64_t{how.failures_before});
    if (failed) (*statement)->bind(3, note);
    if (how.kind == SettleKind::retry) (*statement)->bind(4, std::string_view(delay));
    if (!keeps_failures(table_.columns)) {
        (*statement)->bind(5, std::string_view(table_.lane)).bind(6, std::string_view(settlement.row_id));
        if (failed) (*statement)->bind(7, std::string_view(settlement.aggregate_id));
    }
    if (auto done = (*statement)->run(); !done) return Failure(std::move(done.error()));
    if (handle.changes() != 1) return EventSettled::conflict;
    if (how.kind == SettleKind::dead) {
        auto written = write_event_letter(handle, table_, owner, settlement);
        if (!written) return Failure(std::move(written.error()));
    }
    auto noted = failed ? audit(handle, owner, settlement) : forget_failure(handle, settlement.row_id);
    if (!noted) return Failure(std::move(noted.error()));
    return EventSettled::applied;
}

Result<void> SqliteEventOutbox::forget_failure(Handle& handle, const RowId& row_id) {
    if (keeps_failures(table_.columns)) return {};
    auto statement = handle.prepared("delete from deliverd_event_failures where lane = ?1 and row_id = ?2");
    if (!statement) return Failure(std::move(statement.error()));
    return (*statement)->bind(1, std::string_view(table_.lane)).bind(2, std::string_view(row_id)).run();
}

Result<void> SqliteEventOutbox::audit(Handle& handle, std::string_view owner, const EventSettlement& settlement) {
    auto statement = handle.prepared(
        "insert into outbox_audit (outbox, outbox_id, reason, status_from, status_to, retry_count, last_error, worker,"
        " actor, idempotency_key) values ('events', ?1, ?2, 'pending', ?3, ?4, ?5, ?6, ?6, ?7)");
    if (!statement) return Failure(std::move(statement.error()));
    const Settlement& how = settlement.settlement;
    const std::optional<std::int64_t> number = sequence_of(settlement.row_id);
    const std::optional<std::string> other_id = number ? std::nullopt : std::optional<std::string>(settlement.row_id);
    const std::optional<std::string> note = settle_note(how);
    (*statement)->bind(1, number.value_or(0)).bind(2, settle_reason(how.kind));
    (*statement)->bind(3, std::string_view(how.kind == SettleKind::dead ? "dead" : "pending"));
    (*statement)->bind(4, std::int64_t{how.failures_before} + 1).bind(5, note).bind(6, owner);
    return (*statement)->bind(7, other_id).run();
}

Result<ShardShare> SqliteEventOutbox::tend(std::string_view owner, Duration lease) {
    if (auto ok = check_upkeep_name("owner", owner); !ok) return Failure(std::move(ok.error()));
    if (lease <= Duration::zero()) return permanent("bad_argument", "lease must be longer than 0");
    return in_transaction(file_, Durability::relaxed,
                          [&](Handle& handle) { return tend_shards(handle, table_, owner, lease); });
}

Result<void> SqliteEventOutbox::release(std::string_view owner, std::span<const ShardLease> leases) {
    if (auto ok = check_upkeep_name("owner", owner); !ok) return ok;
    if (leases.empty()) return {};
    return in_transaction(file_, Durability::relaxed,
                          [&](Handle& handle) { return release_shards(handle, table_.lane, owner, leases); });
}

Result<void> SqliteEventOutbox::leave(std::string_view owner) {
    if (auto ok = check_upkeep_name("owner", owner); !ok) return ok;
    return in_transaction(file_, Durability::relaxed,
                          [&](Handle& handle) { return leave_shards(handle, table_.lane, owner); });
}

Result<void> SqliteEventOutbox::set_asleep(std::string_view owner, bool /*asleep*/) {
    return check_upkeep_name("owner", owner);
}

std::unique_ptr<EventListener> SqliteEventOutbox::listen(std::function<void()> /*on_event*/) {
    return nullptr;
}

Result<double> SqliteEventOutbox::lag_seconds() {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto numbers = has_number_ids(**handle, table_);
    if (!numbers) return Failure(std::move(numbers.error()));
    auto statement = (*handle)->prepared(sql_.lag(*numbers));
    if (!statement) return Failure(std::move(statement.error()));
    if (!keeps_failures(table_.columns)) (*statement)->bind(5, std::string_view(table_.lane));
    double lag = 0;
    auto read = each_row(**statement, [&](const SqliteStatement& row) { lag = std::max(0.0, row.real(0)); });
    if (!read) return Failure(std::move(read.error()));
    return lag;
}

Result<OutboxCounts> SqliteEventOutbox::counts() {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    auto statement = (*handle)->prepared(sql_.counts());
    if (!statement) return Failure(std::move(statement.error()));
    if (!keeps_failures(table_.columns)) (*statement)->bind(5, std::string_view(table_.lane));
    OutboxCounts counts;
    auto read = each_row(
        **statement, [&](const SqliteStatement& row) { counts = {row.integer(0), row.integer(1), row.integer(2)}; });
    if (!read) return Failure(std::move(read.error()));
    return counts;
}

Result<void> SqliteEventOutbox::ping(Duration deadline) {
    auto handle = file_.reader(deadline);
    if (!handle) return Failure(std::move(handle.error()));
    return (*handle)->run("select count(*) from sqlite_schema");
}

Result<std::int64_t> SqliteEventOutbox::remove_published(Duration age, std::int32_t limit) {
    if (auto ok = check_upkeep_span("age", age); !ok) return Failure(std::move(ok.error()));
    if (auto ok = check_upkeep_limit(limit); !ok) return Failure(std::move(ok.error()));
    const std::string sql = sql_.remove_published();
    if (sql.empty()) return 0;
    return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<std::int64_t> {
        auto statement = handle.prepared(sql);
        if (!statement) return Failure(std::move(statement.error()));
        const std::string ago = client::lease_modifier(to_seconds(age));
        auto done = (*statement)->bind(1, std::string_view(ago)).bind(2, std::int64_t{limit}).run();
        if (!done) return Failure(std::move(done.error()));
        return handle.changes();
    });
}

Result<std::vector<Finding>> SqliteEventOutbox::inspect() {
    auto handle = file_.reader();
    if (!handle) return Failure(std::move(handle.error()));
    return inspect_table(**handle, table_);
}

}  // namespace deliverd::store::sqlite
