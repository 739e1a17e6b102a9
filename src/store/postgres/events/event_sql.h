// The relay's statements on one event table, made for its shape (sql/event_table.sql).
#pragma once

#include <string_view>

#include "store/events.h"
#include "store/postgres/connection/connection.h"
#include "store/postgres/events/event_shape.h"

namespace deliverd::store::postgres {

/// A statement of this room that has no names to fill in.
[[nodiscard]] const Statement& fixed_statement(std::string_view text);

/// The last column of what the reading statements answer: the bytes of payloads and metadata, from the first row up to
/// this one.
inline constexpr int kEventBytes = 11;

/// For all shards, or for some: the latter take an array of shards before the lane. The answer ends with the row that
/// reaches the byte limit.
struct ReadStatements {
    Statement due;      // limit, byte limit
    Statement follow;   // aggregates, positions, limit, byte limit
    Statement forward;  // limit, byte limit [, after, up to]
};

struct SettleStatements {
    Statement sent;
    Statement failed;
};

/// `after` and `up_to` are there only where ids are numbers. Where the table does not keep failures itself, each
/// reading statement takes the lane as its last parameter.
///
/// The settling ones take lane, owner, shards, tokens (a pair is a lease), then ids and for each the number of its
/// lease (from 1) and its failures; failed ones also notes, delays in seconds and 1 where it is given up; and how many
/// they are. They answer an id (as text) and a number: an id alone applied; a number alone is a lease that is held, or
/// 0 if all applied, which are not listed then. settle_past_locks leaves out the rows that others have locked and
/// answers their ids with a number.
struct EventStatements {
    EventStatements(const EventTable& table, const TablePlace& place, const EventShape& shape,
                    std::string_view audit_schema);

    IdKind ids;
    bool own_failures;
    bool range_partitioned;
    ReadStatements of_all;
    ReadStatements of_some;
    SettleStatements settle;
    SettleStatements settle_past_locks;
    Statement end;         // above; answers the highest id above it or null. Only where ids are numbers
    Statement letters;     // lane, owner, ids: only of rows that this transaction made dead
    Statement keep_table;  // see letters/sql/lane_letters.sql
    Params table_params;   // of it
    Statement lag;         // the id to look from, where ids are numbers; answers seconds, id [, lane]
    Statement counts;      // [lane]; answers pending, sent, dead
};

}  // namespace deliverd::store::postgres
