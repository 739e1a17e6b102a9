#include "store/sqlite/events/event_outbox.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/failpoint.h"
#include "base/try.h"
#include "client/sql_values.h"
#include "store/event_row.h"
#include "store/outbox_row.h"
#include "store/sqlite/events/event_shards.h"
#include "store/sqlite/events/event_sql.h"
#include "store/sqlite/events/event_table.h"
#include "store/sqlite/events/statements.h"
#include "store/sqlite/file/row_id.h"
#include "store/sqlite/letters/lane_letters.h"

namespace deliverd::store::sqlite {
namespace {

EventRow event_at(const SqliteStatement& row, EventOrigin origin) {
    EventRow out;
    out.origin = origin;
    Message& message = out.message;
    std::string metadata;
    row.read(out.row_id, message.key, message.type, message.body, message.message_id, metadata, message.created_at,
             out.age_seconds, message.aggregate_type, message.failures, out.shard);
    out.age_seconds = std::max(0.0, out.age_seconds);
    complete_event(out, metadata);
    return out;
}

void sort_from(std::size_t first, std::vector<EventRow>& rows) {
    std::ranges::sort(rows.begin() + static_cast<std::ptrdiff_t>(first), rows.end(), before, &EventRow::row_id);
}

class SqliteEventOutbox final : public EventOutbox {
public:
    SqliteEventOutbox(File& file, const EventTable& table, bool indexed, EventNulls nulls)
        : file_(file), table_(table), sql_(table, indexed, nulls) {}

    Result<EventBatch> read(const EventRead& request) override {
        TRY_ASSIGN(auto handle, file_.reader());
        TRY(check(*handle, request));
        EventBatch batch;
        if (request.shards.empty()) return batch;
        TRY_ASSIGN(const auto moment, Transaction::begin_reading(*handle));  // one snapshot for all parts
        const std::int64_t byte_limit = std::max<std::int64_t>(request.byte_limit, 1);
        std::int64_t bytes_left = byte_limit;  // of each part, so that none can keep another one out
        TRY(read_part(*handle, sql_.due(), request, request.due_limit, EventOrigin::due, nullptr, batch, bytes_left));
        batch.due_cut = bytes_left <= 0;
        sort_from(0, batch.rows);

        const std::size_t due_rows = batch.rows.size();
        bytes_left = byte_limit;
        for (const EventFollow& follow : request.follow) {
            TRY(read_part(*handle, sql_.follow(follow.after.has_value(), follow.aggregate_id.empty()), request,
                          request.follow_limit, EventOrigin::follow, &follow, batch, bytes_left));
        }
        batch.follow_cut = bytes_left <= 0;
        sort_from(due_rows, batch.rows);

        bytes_left = byte_limit;
        TRY(read_part(*handle, sql_.forward(request.after.has_value(), request.up_to.has_value()), request,
                      request.limit, EventOrigin::forward, nullptr, batch, bytes_left));
        batch.forward_cut = bytes_left <= 0;
        return batch;
    }

    Result<std::vector<EventSettled>> settle(std::string_view owner,
                                             std::span<const EventSettlement> settlements) override {
        using Answers = std::vector<EventSettled>;
        TRY(check_owner(owner));
        if (settlements.empty()) return Answers{};
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Answers> {
            std::map<std::pair<std::int32_t, std::int64_t>, bool> owned;
            Answers answers;
            answers.reserve(settlements.size());
            for (const EventSettlement& settlement : settlements) {
                // Once per lease: nobody else writes during this transaction, so the answer stays true.
                const auto [found, fresh] = owned.try_emplace({settlement.lease.shard, settlement.lease.token}, false);
                if (fresh) {
                    TRY_ASSIGN(auto owns, owns_shard(handle, table_.lane, owner, settlement.lease));
                    found->second = owns;
                }
                if (!found->second) {
                    answers.push_back(EventSettled::fenced);
                    continue;
                }
                TRY_ASSIGN(auto settled, settle_row(handle, owner, settlement));
                answers.push_back(settled);
            }
            failpoint("store.during_settle");
            return answers;
        });
    }

    Result<ShardShare> tend(std::string_view owner, Duration lease) override {
        TRY(check_tend(owner, lease));
        // Relaxed: after a power cut no other relay of this file is left that could take the shards.
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return tend_shards(handle, table_, owner, lease); });
    }

    Result<void> release(std::string_view owner, std::span<const ShardLease> leases) override {
        TRY(check_owner(owner));
        if (leases.empty()) return {};
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return release_shards(handle, table_.lane, owner, leases); });
    }

    Result<void> leave(std::string_view owner) override {
        TRY(check_owner(owner));
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return leave_shards(handle, table_.lane, owner); });
    }

    Result<void> set_asleep(std::string_view owner, bool /*asleep*/) override { return check_owner(owner); }

    std::unique_ptr<EventListener> listen(std::function<void()> /*on_event*/) override { return nullptr; }

    Result<double> lag_seconds() override {
        TRY_ASSIGN(auto handle, file_.reader());
        // Numbers are given out in the order of writing, so the first open row is the oldest.
        TRY_ASSIGN(const auto shape, read_shape(*handle, table_));
        TRY_ASSIGN(const auto lag, handle->value<double>(sql_.lag(shape.number_ids), table_.lane));
        return std::max(0.0, lag.value_or(0));
    }

    Result<RowCounts> counts() override {
        TRY_ASSIGN(auto handle, file_.reader());
        RowCounts counts;
        TRY(handle->each(
            sql_.counts(), [&](const SqliteStatement& row) { row.read(counts.pending, counts.sent, counts.dead); },
            table_.lane));
        return counts;
    }

    Result<void> ping(Duration deadline) override { return file_.ping(deadline); }

    Result<std::int64_t> remove_published(Duration age, std::int32_t limit) override {
        TRY(check_remove_published(age, limit));
        const std::string sql = sql_.remove_published();
        if (sql.empty()) return 0;
        // Relaxed: after a power cut the same rows are deleted again.
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return handle.change(sql, client::time_ago(age), limit); });
    }

    Result<std::vector<Finding>> inspect() override {
        TRY_ASSIGN(auto handle, file_.reader());
        return inspect_table(*handle, table_);
    }

private:
    Result<void> check(Handle& handle, const EventRead& request) {
        TRY(check_read(request));
        if (request.after) TRY(check_row_id(handle, table_, "after", *request.after));
        if (request.up_to) TRY(check_row_id(handle, table_, "up_to", *request.up_to));
        for (const EventFollow& follow : request.follow) {
            if (follow.after) TRY(check_row_id(handle, table_, "follow.after", *follow.after));
        }
        return {};
    }

    /// Appends rows until `bytes_left` is used up. `follow`: of that aggregate.
    Result<void> read_part(Handle& handle, const std::string& sql, const EventRead& request, std::int32_t limit,
                           EventOrigin origin, const EventFollow* follow, EventBatch& batch, std::int64_t& bytes_left) {
        if (limit == 0 || bytes_left <= 0) return {};
        // Parameter 4 is the aggregate for `follow` and an id otherwise, so it is bound as either.
        using Id = decltype(row_id_value(RowId()));
        const auto id_of = [](const std::optional<RowId>& id) {
            return id ? std::optional<Id>(row_id_value(*id)) : std::nullopt;
        };
        const auto after = id_of(follow != nullptr ? follow->after : request.after);
        const auto up_to = follow != nullptr ? std::optional<Id>(follow->aggregate_id) : id_of(request.up_to);
        return handle.each(
            sql,
            [&](const SqliteStatement& row) {
                const EventRow& event = batch.rows.emplace_back(event_at(row, origin));
                bytes_left -= static_cast<std::int64_t>(bytes_in_memory(event.message));
                return bytes_left > 0;
            },
            client::json_ids(request.shards), limit, after, up_to, table_.lane);
    }

    Result<EventSettled> settle_row(Handle& handle, std::string_view owner, const EventSettlement& settlement) {
        const Settlement& how = settlement.settlement;
        const std::string& sql = !failed(how)                    ? sql_.sent()
                                 : how.kind == SettleKind::retry ? sql_.retry()
                                                                 : sql_.dead();
        TRY_ASSIGN(const auto changed, handle.change(sql, row_id_value(settlement.row_id), how.failures_before,
                                                     settle_note(how), client::time_ahead(settle_delay_seconds(how)),
                                                     table_.lane, settlement.row_id, settlement.aggregate_id));
        if (changed != 1) return EventSettled::conflict;  // the statement has all conditions on the row
        if (how.kind == SettleKind::dead) {
            TRY(write_event_letter(handle, table_, owner, settlement));
        }
        TRY(failed(how) ? audit(handle, owner, settlement) : forget_failure(handle, settlement.row_id));
        return EventSettled::applied;
    }

    Result<void> forget_failure(Handle& handle, const RowId& row_id) {
        if (keeps_failures(table_.columns)) return {};
        return handle.run(events::sql::forget_failure, table_.lane, row_id);
    }

    Result<void> audit(Handle& handle, std::string_view owner, const EventSettlement& settlement) {
        const Settlement& how = settlement.settlement;
        const std::optional<std::int64_t> number = sequence_of(settlement.row_id);
        // An id that is no number does not fit into outbox_id: it goes into the column for keys.
        return handle.run(events::sql::audit_failure, number.value_or(0), settle_reason(how.kind),
                          how.kind == SettleKind::dead ? "dead" : "pending", how.failures_before + 1, settle_note(how),
                          owner, number ? std::nullopt : std::optional(settlement.row_id));
    }

    File& file_;
    const EventTable table_;
    const EventSql sql_;
};

}  // namespace

Result<std::unique_ptr<EventOutbox>> open_event_outbox(File& file, const EventTable& table) {
    TRY(check_event_table(table));
    TRY_ASSIGN(auto handle, file.reader());
    TRY_ASSIGN(const auto shape, read_shape(*handle, table));
    // Conditions on columns that may be null are other ones than those of the indexes, and SQLite refuses an index
    // named in a statement that it cannot use.
    const bool indexed = shape.own_indexes && !shape.nulls.any();
    return std::make_unique<SqliteEventOutbox>(file, table, indexed, shape.nulls);
}

}  // namespace deliverd::store::sqlite
