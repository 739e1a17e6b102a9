// The event outbox on SQLite, for relays: one writer at a time, so that there is nothing to hold back, and nobody who
// could notify.
#pragma once

#include "store/events.h"
#include "store/sqlite/events/event_sql.h"
#include "store/sqlite/file/file.h"

namespace deliverd::store::sqlite {

class SqliteEventOutbox final : public EventOutbox {
public:
    /// `file` outlives the outbox. Failure: `bad_argument` for names that cannot be; as any look at the file.
    [[nodiscard]] static Result<std::unique_ptr<EventOutbox>> open(File& file, const EventTable& table);

    Result<EventBatch> read(const EventRead& request) override;
    Result<std::vector<EventSettled>> settle(std::string_view owner,
                                             std::span<const EventSettlement> settlements) override;
    Result<ShardShare> tend(std::string_view owner, Duration lease) override;
    Result<void> release(std::string_view owner, std::span<const ShardLease> leases) override;
    Result<void> leave(std::string_view owner) override;
    Result<void> set_asleep(std::string_view owner, bool asleep) override;
    std::unique_ptr<EventListener> listen(std::function<void()> on_event) override;
    Result<double> lag_seconds() override;
    Result<OutboxCounts> counts() override;
    Result<void> ping(Duration deadline) override;
    Result<std::int64_t> remove_published(Duration age, std::int32_t limit) override;
    Result<std::vector<Finding>> inspect() override;

private:
    SqliteEventOutbox(File& file, const EventTable& table, bool indexed, EventNulls nulls)
        : file_(file), table_(table), sql_(table, indexed, nulls) {}

    Result<void> check(Handle& handle, const EventRead& request);
    /// Reads until `bytes_left` is used up.
    Result<std::vector<EventRow>> read_part(Handle& handle, const std::string& sql, const EventRead& request,
                                            std::int32_t limit, EventOrigin origin, const EventFollow* follow,
                                            std::int64_t& bytes_left);
    Result<std::vector<EventRow>> read_follow(Handle& handle, const EventRead& request, std::int64_t& bytes_left);
    Result<EventSettled> settle_row(Handle& handle, std::string_view owner, const EventSettlement& settlement);
    Result<void> forget_failure(Handle& handle, const RowId& row_id);
    Result<void> audit(Handle& handle, std::string_view owner, const EventSettlement& settlement);

    File& file_;
    const EventTable table_;
    const EventSql sql_;
};

}  // namespace deliverd::store::sqlite
