// The relay's statements on SQLite for one table, whatever its columns are called (sql/event_table.sql).
#pragma once

#include <string>
#include <string_view>

#include "store/events.h"
#include "store/sql_text.h"

namespace deliverd::store::sqlite {

/// Which of the columns in conditions may be null. Such a column needs another condition, which an index for the usual
/// condition does not serve.
struct EventNulls {
    bool aggregate_id = false;
    bool published = false;
    bool retry_count = false;

    [[nodiscard]] bool any() const { return aggregate_id || published || retry_count; }
};

/// The .sql file says what the parameters are. Answered columns of everything that reads: id, aggregate, type, payload,
/// message id, metadata, created, age, aggregate type, failures, shard.
class EventSql {
public:
    /// `indexed`: the table is deliverd's own, with the indexes of the migration. SQLite without statistics takes the
    /// primary key where it should take a partial index, so the statements then name theirs. Not together with any
    /// nulls.
    EventSql(const EventTable& table, bool indexed, EventNulls nulls);

    [[nodiscard]] std::string forward(bool after, bool up_to) const;
    [[nodiscard]] const std::string& due() const { return due_; }
    /// `unnamed`: of the empty aggregate, to which rows without one belong.
    [[nodiscard]] std::string follow(bool after, bool unnamed) const;

    [[nodiscard]] const std::string& sent() const { return sent_; }
    [[nodiscard]] const std::string& retry() const { return retry_; }
    [[nodiscard]] const std::string& dead() const { return dead_; }

    /// `by_id`: the age of the first row by id instead of the oldest, which needs no walk over all.
    [[nodiscard]] std::string lag(bool by_id) const;
    /// Answers pending, sent, dead.
    [[nodiscard]] std::string counts() const;
    /// Empty if nothing says that, or when, a row was published.
    [[nodiscard]] std::string remove_published() const;

private:
    void add_row(const std::string& alias, EventNulls nulls);
    void add_columns(std::int32_t shards);
    void add_settling(const EventTable& table);
    /// What differs between a table that keeps failures itself and one whose failures are lines of
    /// deliverd_event_failures.
    [[nodiscard]] std::string_view either(std::string_view own, std::string_view lines) const {
        return own_ ? own : lines;
    }
    /// The condition that a failed row of o's aggregate in this state is before o.
    [[nodiscard]] std::string failed_before(std::string_view state, std::string_view compare,
                                            std::string_view index) const;

    const EventColumns columns_;
    const bool own_;             // the table keeps failures itself
    const bool separate_nulls_;  // a failed row is looked up in another way where the aggregate is null
    SqlValues names_;
    std::string due_;
    std::string sent_;
    std::string retry_;
    std::string dead_;
};

}  // namespace deliverd::store::sqlite
