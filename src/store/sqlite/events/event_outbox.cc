#include "store/sqlite/events/event_outbox.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/failpoint.h"
#include "base/try.h"
#include "client/sql_values.h"
#include "store/event_row.h"
#include "store/settle_batch.h"
#include "store/sqlite/events/event_shards.h"
#include "store/sqlite/events/event_table.h"
#include "store/sqlite/events/statements.h"
#include "store/sqlite/file/row_id.h"
#include "store/sqlite/letters/lane_letters.h"
#include "store/upkeep_arguments.h"

namespace deliverd::store::sqlite {
namespace {

EventRow event_at(const SqliteStatement& row, EventOrigin origin) {
    EventRow out;
    out.origin = origin;
    Message& message = out.message;
    std::string metadata;
    row.read(out.row_id, message.key, message.type, message.body, message.message_id, metadata, message.created_at,
             out.age_seconds, message.aggregate_type, message.failures, out.shard);
    out.sequence = sequence_of(out.row_id).value_or(0);
    out.age_seconds = std::max(0.0, out.age_seconds);
    message.id = out.sequence;
    message.headers = event_headers(metadata);
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

class SqliteEventOutbox final : public EventOutbox {
public:
    SqliteEventOutbox(File& file, const EventTable& table, bool indexed, EventNulls nulls)
        : file_(file), table_(table), sql_(table, indexed, nulls) {}

    Result<EventBatch> read(const EventRead& request) override {
        TRY_ASSIGN(auto handle, file_.reader());
        TRY(check(*handle, request));
        EventBatch batch;
        if (request.shards.empty()) return batch;
        TRY_ASSIGN(const auto moment, Transaction::begin_reading(*handle));
        std::int64_t due_left = std::max<std::int64_t>(request.byte_limit, 1);
        std::int64_t follow_left = due_left;
        std::int64_t forward_left = due_left;
        TRY_ASSIGN(auto due,
                   read_part(*handle, sql_.due(), request, request.due_limit, EventOrigin::due, nullptr, due_left));
        sort_by_id(due);
        TRY_ASSIGN(auto follow, read_follow(*handle, request, follow_left));
        TRY_ASSIGN(auto forward, read_part(*handle, sql_.forward(request.after.has_value(), request.up_to.has_value()),
                                           request, request.limit, EventOrigin::forward, nullptr, forward_left));
        batch.rows = std::move(due);
        append(batch.rows, std::move(follow));
        append(batch.rows, std::move(forward));
        batch.due_cut = due_left <= 0;
        batch.follow_cut = follow_left <= 0;
        batch.forward_cut = forward_left <= 0;
        return batch;
    }

    Result<std::vector<EventSettled>> settle(std::string_view owner,
                                             std::span<const EventSettlement> settlements) override {
        using Answers = std::vector<EventSettled>;
        TRY(check_upkeep_name("owner", owner));
        if (settlements.empty()) return Answers{};
        return in_transaction(file_, Durability::full, [&](Handle& handle) -> Result<Answers> {
            std::map<std::pair<std::int32_t, std::int64_t>, bool> owned;
            Answers answers;
            answers.reserve(settlements.size());
            for (const EventSettlement& settlement : settlements) {
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
        TRY(check_upkeep_name("owner", owner));
        if (lease <= Duration::zero()) return bad_argument("lease must be longer than 0");
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return tend_shards(handle, table_, owner, lease); });
    }

    Result<void> release(std::string_view owner, std::span<const ShardLease> leases) override {
        TRY(check_upkeep_name("owner", owner));
        if (leases.empty()) return {};
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return release_shards(handle, table_.lane, owner, leases); });
    }

    Result<void> leave(std::string_view owner) override {
        TRY(check_upkeep_name("owner", owner));
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return leave_shards(handle, table_.lane, owner); });
    }

    Result<void> set_asleep(std::string_view owner, bool /*asleep*/) override {
        return check_upkeep_name("owner", owner);
    }

    std::unique_ptr<EventListener> listen(std::function<void()> /*on_event*/) override { return nullptr; }

    Result<double> lag_seconds() override {
        TRY_ASSIGN(auto handle, file_.reader());
        TRY_ASSIGN(auto numbers, has_number_ids(*handle, table_));
        TRY_ASSIGN(const auto lag, handle->value<double>(sql_.lag(numbers), table_.lane));
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
        TRY(check_upkeep_span("age", age));
        TRY(check_upkeep_limit(limit));
        const std::string sql = sql_.remove_published();
        if (sql.empty()) return 0;
        return in_transaction(file_, Durability::relaxed,
                              [&](Handle& handle) { return handle.change(sql, client::time_ago(age), limit); });
    }

    Result<std::vector<Finding>> inspect() override {
        TRY_ASSIGN(auto handle, file_.reader());
        return inspect_table(*handle, table_);
    }

private:
    Result<void> check(Handle& handle, const EventRead& request) {
        for (const std::int32_t limit : {request.limit, request.due_limit, request.follow_limit}) {
            if (limit < 0) return bad_argument("limit is " + std::to_string(limit) + ": 0 is the least");
        }
        if (request.after) TRY(check_row_id(handle, table_, "after", *request.after));
        if (request.up_to) TRY(check_row_id(handle, table_, "up_to", *request.up_to));
        for (const EventFollow& follow : request.follow) {
            if (follow.after) TRY(check_row_id(handle, table_, "follow.after", *follow.after));
        }
        return {};
    }

    /// Reads until `bytes_left` is used up.
    Result<std::vector<EventRow>> read_part(Handle& handle, const std::string& sql, const EventRead& request,
                                            std::int32_t limit, EventOrigin origin, const EventFollow* follow,
                                            std::int64_t& bytes_left) {
        std::vector<EventRow> rows;
        if (limit == 0 || bytes_left <= 0) return rows;
        using Id = decltype(row_id_value(RowId()));
        const auto id_of = [](const std::optional<RowId>& id) {
            return id ? std::optional<Id>(row_id_value(*id)) : std::nullopt;
        };
        const auto after = id_of(follow != nullptr ? follow->after : request.after);
        const auto up_to = follow != nullptr ? std::optional<Id>(follow->aggregate_id) : id_of(request.up_to);
        TRY(handle.each(
            sql,
            [&](const SqliteStatement& row) {
                rows.push_back(event_at(row, origin));
                bytes_left -= static_cast<std::int64_t>(bytes_in_memory(rows.back().message));
                return bytes_left > 0;
            },
            client::json_ids(request.shards), limit, after, up_to, table_.lane));
        return rows;
    }

    Result<std::vector<EventRow>> read_follow(Handle& handle, const EventRead& request, std::int64_t& bytes_left) {
        std::vector<EventRow> rows;
        for (const EventFollow& follow : request.follow) {
            const std::string sql = sql_.follow(follow.after.has_value(), follow.aggregate_id.empty());
            TRY_ASSIGN(auto part,
                       read_part(handle, sql, request, request.follow_limit, EventOrigin::follow, &follow, bytes_left));
            append(rows, std::move(part));
        }
        sort_by_id(rows);
        return rows;
    }

    Result<EventSettled> settle_row(Handle& handle, std::string_view owner, const EventSettlement& settlement) {
        const Settlement& how = settlement.settlement;
        const bool failed = how.kind == SettleKind::retry || how.kind == SettleKind::dead;
        const std::string sql = !failed ? sql_.sent() : how.kind == SettleKind::retry ? sql_.retry() : sql_.dead();
        TRY_ASSIGN(const auto changed, handle.change(sql, row_id_value(settlement.row_id), how.failures_before,
                                                     settle_note(how), client::time_ahead(settle_delay_seconds(how)),
                                                     table_.lane, settlement.row_id, settlement.aggregate_id));
        if (changed != 1) return EventSettled::conflict;
        if (how.kind == SettleKind::dead) {
            TRY(write_event_letter(handle, table_, owner, settlement));
        }
        TRY(failed ? audit(handle, owner, settlement) : forget_failure(handle, settlement.row_id));
        return EventSettled::applied;
    }

    Result<void> forget_failure(Handle& handle, const RowId& row_id) {
        if (keeps_failures(table_.columns)) return {};
        return handle.run(events::sql::forget_failure, table_.lane, row_id);
    }

    Result<void> audit(Handle& handle, std::string_view owner, const EventSettlement& settlement) {
        const Settlement& how = settlement.settlement;
        const std::optional<std::int64_t> number = sequence_of(settlement.row_id);
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
    TRY_ASSIGN(auto indexed, has_our_indexes(*handle, table));
    TRY_ASSIGN(auto nulls, nulls_of(*handle, table));
    return std::make_unique<SqliteEventOutbox>(file, table, indexed && !nulls.any(), nulls);
}

}  // namespace deliverd::store::sqlite
