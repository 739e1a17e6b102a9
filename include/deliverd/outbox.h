// The event outbox (docs/events.md) on a connection the caller owns: write an event in the same transaction as the
// business data, and deliverd makes it arrive.
//
//     PQexec(connection, "begin");
//     PQexec(connection, "insert into orders …");
//     auto id = deliverd::outbox_on(connection)->add({"order-1", "OrderCreated", R"({"total": 42})"});
//     PQexec(connection, "commit");                                // both or neither
//
// Ownership: the connection remains the caller's and must outlive the Outbox. Answers own their text.
// Transactions: no function begins or ends one. Each is one statement, which becomes part of the caller's transaction
//   if there is one. After an error, PostgreSQL allows that transaction only to roll back.
// Threads: one Outbox (and its connection) is used by one thread at a time.
// Blocking: each call is one round trip. It blocks for as long as the connection does: set statement_timeout or
//   busy_timeout on it to bound that. add() waits for no relay.
// Failure: an Error, no exceptions. After one nothing changed, unless its class is ambiguous. Codes (error_codes.h):
//   `bad_argument`    permanent: an aggregate or type that is empty or too long, payload or metadata that is not JSON
//                     or too large, metadata that is not an object, a limit below 1, an age below 0
//   `db_timeout`      retryable: a lock or the statement took too long
//   `db_unreachable`  the connection was lost: ambiguous for what writes, else retryable
//   `db_error`        permanent or retryable, as the cause is; "run `deliverd migrate`" where the schema is missing
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"

struct pg_conn;
struct sqlite3;

namespace deliverd {

struct NewEvent {
    std::string_view aggregate_id;     // 1 to 255 characters; events of one aggregate arrive in the order written
    std::string_view event_type;       // 1 to 255 characters, such as OrderCreated
    std::string_view payload;          // JSON, at most 16 MiB
    std::string_view metadata = "{}";  // a JSON object, at most 64 KiB; its entries travel as headers
};

/// One row of `outbox`. Times are RFC 3339 UTC text.
struct Event {
    std::int64_t id = 0;
    std::string aggregate_id;
    std::string event_type;
    std::string payload;   // as the database prints it
    std::string metadata;  // as the database prints it
    std::string event_id;
    std::string created_at;
    bool published = false;
    std::optional<std::string> published_at;
    std::int32_t retry_count = 0;
    std::optional<std::string> next_attempt_at;
    std::optional<std::string> last_error;
    std::optional<std::string> dead_at;
};

struct OutboxStats {
    std::int64_t total = 0;
    std::int64_t unpublished = 0;  // dead ones not included
    std::int64_t published = 0;
    std::int64_t dead = 0;
    std::optional<double> oldest_unpublished_age_seconds;  // none when nothing is unpublished
    std::int32_t max_retries = 0;                          // the highest retry_count of all rows
};

inline constexpr std::int32_t kDefaultEventLimit = 100;
inline constexpr double kDefaultKeepSeconds = 7 * 24 * 3600.0;

class Outbox {
public:
    virtual ~Outbox() = default;

    /// Stores an event; answers its id.
    virtual Result<std::int64_t> add(const NewEvent& event) = 0;

    /// Open events, oldest first: for programs that publish themselves, and for people. Holds nothing: two callers get
    /// the same events.
    virtual Result<std::vector<Event>> fetch_unpublished(std::int32_t limit = kDefaultEventLimit) = 0;

    /// The event is published from now on, also if it was dead. False: unknown, or published already; nothing changed.
    virtual Result<bool> mark_published(std::int64_t id) = 0;

    /// Counts one failed attempt of an open event; answers the count, none when it is unknown or not open.
    virtual Result<std::optional<std::int32_t>> increment_retry_count(std::int64_t id, std::string_view error = {}) = 0;

    /// Deletes at most `limit` events that were published longer ago than that; answers how many.
    virtual Result<std::int64_t> delete_published(double older_than_seconds = kDefaultKeepSeconds,
                                                  std::int32_t limit = 1000) = 0;

    /// Counts by state. Reads the whole table.
    virtual Result<OutboxStats> stats() = 0;

    /// All events of one aggregate, published ones too, oldest first. Published ones have no index by aggregate, so it
    /// reads the table until the limit is reached.
    virtual Result<std::vector<Event>> by_aggregate(std::string_view aggregate_id,
                                                    std::int32_t limit = kDefaultEventLimit) = 0;

    /// One event, none when the id is unknown.
    virtual Result<std::optional<Event>> show(std::int64_t id) = 0;
};

/// `connection` must be open and its database migrated (`deliverd migrate`).
[[nodiscard]] std::unique_ptr<Outbox> outbox_on(pg_conn* connection);
[[nodiscard]] std::unique_ptr<Outbox> outbox_on(sqlite3* connection);

}  // namespace deliverd
