// The relay's statements on SQLite for one table, whatever its columns are called.
#pragma once

#include <string>

#include "store/events.h"

namespace deliverd::store::sqlite {

/// Which of the columns that conditions are about may be null: such a condition is another one, which an index for the
/// usual one does not serve.
struct EventNulls {
    bool aggregate_id = false;
    bool published = false;
    bool retry_count = false;

    [[nodiscard]] bool any() const { return aggregate_id || published || retry_count; }
};

/// Parameters of everything that reads: 1 shards as a JSON array, 2 limit, 3 `after`, 4 `up_to` or the aggregate, 5
/// lane. Answered columns: id, aggregate, type, payload, message id, metadata, created, age, aggregate type, failures,
/// shard. Parameters of everything that settles: 1 id, 2 failures before, 3 error, 4 delay as a modifier, 5 lane, 6 the
/// id as text, 7 aggregate. 5 to 7 only where keeps_failures() is false (store/event_row.h).
class EventSql {
public:
    /// `indexed`: the table is our own, with the indexes of the migration. SQLite without statistics takes the primary
    /// key where it should take a partial index, so the statements then name theirs. Not together with any nulls.
    EventSql(const EventTable& table, bool indexed, EventNulls nulls);
    EventSql(const EventSql&) = delete;
    EventSql& operator=(const EventSql&) = delete;

    [[nodiscard]] std::string forward(bool after, bool up_to) const;
    [[nodiscard]] std::string due() const;
    /// `unnamed`: of the empty aggregate, to which rows without one belong.
    [[nodiscard]] std::string follow(bool after, bool unnamed) const;

    [[nodiscard]] std::string sent() const;
    [[nodiscard]] std::string retry() const;
    [[nodiscard]] std::string dead() const;

    /// 1 lane. `by_id`: the first by id instead of the oldest, which needs no walk over all.
    [[nodiscard]] std::string lag(bool by_id) const;
    /// Answers pending, sent, dead. 1 lane.
    [[nodiscard]] std::string counts() const;
    /// 1 the age as a modifier, 2 limit. Empty where nothing says that, or when, a row was published.
    [[nodiscard]] std::string remove_published() const;

private:
    [[nodiscard]] std::string col(const char* alias, const std::string& name) const;
    [[nodiscard]] std::string from(const char* alias, const char* index) const;
    [[nodiscard]] std::string aggregate(const char* alias) const;
    [[nodiscard]] std::string retries(const char* alias) const;
    [[nodiscard]] std::string unpublished(const char* alias) const;
    [[nodiscard]] std::string open(const char* alias) const;
    [[nodiscard]] std::string answered(const std::string& failures) const;
    [[nodiscard]] std::string shard() const;
    [[nodiscard]] std::string in_shards() const;
    [[nodiscard]] std::string failed_before(const std::string& compare, const std::string& state) const;
    [[nodiscard]] std::string behind_waiting() const;
    [[nodiscard]] std::string behind_dead() const;
    [[nodiscard]] bool tells_events_apart() const;
    [[nodiscard]] std::string same_event(const char* alias) const;
    [[nodiscard]] std::string this_row() const;
    [[nodiscard]] std::string keep_failure(const std::string& next, const std::string& dead_at) const;

    const EventTable table_;
    const EventColumns& c_ = table_.columns;
    const bool indexed_;
    const EventNulls nulls_;
    const bool own_state_;  // failures are in the table itself
    const std::string name_;
};

}  // namespace deliverd::store::sqlite
