#include "store/sqlite/events/event_outbox.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/failpoint.h"
#include "base/text.h"
#include "base/try.h"
#include "client/sql_values.h"
#include "store/event_row.h"
#include "store/outbox_row.h"
#include "store/sqlite/events/event_sql.h"
#include "store/sqlite/events/statements.h"
#include "store/sqlite/file/row_values.h"
#include "store/sqlite/letters/dead_letters.h"

namespace deliverd::store::sqlite {
namespace {

/// What the table looks like in the file's schema.
struct TableShape {
    bool there = false;
    bool number_ids = true;              // its ids are declared as whole numbers; true if there is no such table
    bool own_indexes = false;            // it is deliverd's `outbox`, with the indexes of the migration
    EventNulls nulls{};                  // all of them if there is no such table
    std::vector<std::string> missing{};  // columns that it does not have
};

struct Column {
    std::string type;  // as declared, in small letters
    bool not_null = false;
};

/// Whether all columns that are in the migration's indexes have the names that they have there.
bool indexes_fit(const EventColumns& columns) {
    const EventColumns ours;
    for (const auto column : {&EventColumns::id, &EventColumns::aggregate_id, &EventColumns::created_at,
                              &EventColumns::published, &EventColumns::published_at, &EventColumns::retry_count,
                              &EventColumns::next_attempt_at, &EventColumns::dead_at}) {
        if (columns.*column != ours.*column) return false;
    }
    return true;
}

Result<TableShape> read_shape(Handle& handle, const EventTable& table) {
    const TablePlace place = TablePlace::of(table, "main");
    std::map<std::string, Column> columns;  // by their names in small letters, because SQLite ignores case in names
    TRY(handle.each(
        events::sql::table_columns,
        [&](const SqliteStatement& row) {
            columns.emplace(ascii_lower(row.get<std::string>(0)),
                            Column{ascii_lower(row.get<std::string>(1)), row.get<bool>(2)});
        },
        place.table, place.schema));
    const auto find = [&](const std::string& name) {
        const auto found = columns.find(ascii_lower(name));
        return found == columns.end() ? nullptr : &found->second;
    };
    const auto may_be_null = [&](const std::string& name) { return find(name) == nullptr || !find(name)->not_null; };

    const EventColumns& names = table.columns;
    TableShape shape;
    shape.there = !columns.empty();
    // By SQLite's own rule a column holds whole numbers if its declared type has "int" in it.
    if (const Column* id = find(names.id)) shape.number_ids = id->type.find("int") != std::string::npos;
    shape.nulls = {may_be_null(names.aggregate_id), may_be_null(names.published), may_be_null(names.retry_count)};
    shape.missing = mapped_columns(names);
    std::erase_if(shape.missing, [&](const std::string& name) { return find(name) != nullptr; });
    if (place.schema == "main" && ascii_lower(place.table) == "outbox" && indexes_fit(names)) {
        // The table may be older than the migration, which then made no indexes.
        constexpr std::int64_t kOurs = 6;
        TRY_ASSIGN(const auto found, handle.value<std::int64_t>(events::sql::own_indexes));
        shape.own_indexes = found == kOurs;
    }
    return shape;
}

/// Refuses what cannot be an id of the table (permanent, `bad_argument`).
Result<void> check_row_id(Handle& handle, const EventTable& table, std::string_view argument, const RowId& row_id) {
    if (sequence_of(row_id)) return {};
    TRY_ASSIGN(const auto shape, read_shape(handle, table));
    if (!shape.number_ids && !row_id.empty()) return {};
    return bad_argument(std::string(argument) + " is \"" + one_line(row_id) + "\", which is no id of table " +
                        table.table);
}

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

/// Gives the lane this number of shards, unless it has that number or another relay that is alive has another number.
Result<void> make_shards(Handle& handle, const EventTable& table, std::string_view owner) {
    StoredShards stored;
    TRY(handle.each(
        events::sql::stored_shards,
        [&](const SqliteStatement& row) { row.read(stored.count, stored.last, stored.others); }, table.lane, owner));
    if (stored.fits(table.shards)) return {};
    if (stored.others > 0) return other_shards(table.lane, table.shards, stored);
    // All lose their owners, because to another number of shards an aggregate is in another shard.
    TRY(handle.run(events::sql::free_all_shards, table.lane));
    TRY(handle.run(events::sql::make_shards, table.lane, table.shards));
    return handle.run(events::sql::drop_other_shards, table.lane, table.shards);
}

/// The owner's heartbeat among the relays; answers its share, without the shards.
Result<ShardShare> count_relays(Handle& handle, const EventTable& table, std::string_view owner, Duration lease) {
    TRY(handle.run(events::sql::forget_relays, table.lane, client::time_ago(kForgetAfterLeases * to_seconds(lease))));
    TRY(handle.run(events::sql::heartbeat, table.lane, owner, client::time_ahead(lease)));
    ShardShare share;
    std::int32_t rank = 0;
    TRY(handle.each(
        events::sql::count_relays, [&](const SqliteStatement& row) { row.read(share.relays, rank); }, table.lane,
        owner));
    share.share = shard_share(table.shards, share.relays, rank);
    return share;
}

Result<ShardShare> tend_shards(Handle& handle, const EventTable& table, std::string_view owner, Duration lease) {
    TRY(make_shards(handle, table, owner));
    TRY_ASSIGN(auto share, count_relays(handle, table, owner, lease));
    const std::string ahead = client::time_ahead(lease);
    TRY_ASSIGN(const auto renewed, handle.change(events::sql::renew_shards, table.lane, owner, ahead));
    // Shards above the share are kept here: which of them to hand over, and when, is for the relay to decide.
    const std::int64_t missing = share.share - renewed;
    if (missing > 0) TRY(handle.run(events::sql::take_shards, table.lane, owner, ahead, missing));
    TRY_ASSIGN(share.held, handle.all(
                               events::sql::held_shards,
                               [](const SqliteStatement& row) {
                                   return ShardLease{row.get<std::int32_t>(0), row.get<std::int64_t>(1)};
                               },
                               table.lane, owner));
    return share;
}

/// Whether the shard is the owner's with that token. A lease that ran out and that no other relay took is still the
/// owner's, so nothing compares times here.
Result<bool> owns_shard(Handle& handle, std::string_view lane, std::string_view owner, const ShardLease& lease) {
    TRY_ASSIGN(const auto found, handle.value<bool>(events::sql::owns_shard, lane, owner, lease.shard, lease.token));
    return found.has_value();
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
        return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<void> {
            for (const ShardLease& lease : leases) {
                TRY(handle.run(events::sql::release_shard, table_.lane, owner, lease.shard, lease.token));
            }
            return {};
        });
    }

    Result<void> leave(std::string_view owner) override {
        TRY(check_owner(owner));
        return in_transaction(file_, Durability::relaxed, [&](Handle& handle) -> Result<void> {
            TRY(handle.run(events::sql::release_all_shards, table_.lane, owner));
            return handle.run(events::sql::leave, table_.lane, owner);
        });
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
        const auto one = [](bool ok, std::string message) {
            return std::vector<Finding>{{"event table", ok, std::move(message)}};
        };
        TRY_ASSIGN(const auto shape, read_shape(*handle, table_));
        if (!shape.there) {
            return one(false, "there is no table " + table_.table + ": create it, or set the lane's `table:`");
        }
        if (!shape.missing.empty()) {
            return one(false, "table " + table_.table + " has no column " + listed(shape.missing) +
                                  ": add what is missing, or map the names with the lane's `columns:`");
        }
        const char* how = shape.own_indexes  ? "by its own indexes"
                          : shape.number_ids ? "by its id; an index on (aggregate, id) helps when aggregates fail"
                                             : "by ids that are not numbers: there is no order within an aggregate";
        return one(true, "table " + table_.table + " can be relayed, " + how);
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
