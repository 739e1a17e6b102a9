// The port of a database: it makes the ports of its tables, and does what is about the whole of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "deliverd/lease.h"
#include "deliverd/outbox.h"
#include "deliverd/result.h"
#include "store/dead_letters.h"
#include "store/events.h"
#include "store/imports.h"
#include "store/orders.h"
#include "store/row_queue.h"
#include "store/upkeep.h"

namespace deliverd::store {

struct MigrationStep {
    int version = 0;
    std::string name;
    std::string sql;  // as it is (or would be) run
};

enum class SchemaState {
    current,
    missing,  // nothing of deliverd's is there
    old,      // some migrations are still to be applied
    newer,    // made by a later deliverd: this one must not touch it
    changed,  // an applied migration is not the one this program has
};

struct SchemaReport {
    SchemaState state = SchemaState::missing;
    int found_version = 0;
    int wanted_version = 0;
    std::string advice;  // one line: what is wrong and which command to run; empty when current
};

/// A row to be stored.
struct NewMemory {
    std::string target_space;
    std::string payload_md;
    std::optional<std::int64_t> item_id;
};

/// Threads: every method may be called from several threads at once.
/// Failure: as in store/row_queue.h; `db_unreachable` names host (or path) and cause, never a password.
class Database {
public:
    virtual ~Database() = default;

    /// "PostgreSQL 15.8 at db:5432/app" or "SQLite ./deliverd.db": for people, without secrets.
    [[nodiscard]] virtual std::string describe() const = 0;

    virtual Result<SchemaReport> schema() = 0;

    /// Applies what is missing, under a lock that makes concurrent migrations wait for each other; answers
    /// what it did, or with `dry_run` what it would do. Refused, permanent, when the schema is newer or changed.
    virtual Result<std::vector<MigrationStep>> migrate(bool dry_run) = 0;

    /// The memory outbox (lease protocol), for the lane of that name: its dead letters are under it.
    virtual std::unique_ptr<RowQueue> memory_outbox(std::string lane) = 0;

    /// The order outbox, for lanes: claims turn due `failed` rows back to `queued` first; settlements write order,
    /// ledger and audit together. `lane` as above.
    virtual std::unique_ptr<RowQueue> orders_outbox(const OrdersOptions& options, std::string lane) = 0;

    /// Order intake.
    virtual std::unique_ptr<Orders> orders(const OrdersOptions& options) = 0;

    /// The event outbox, for relays. Failure: permanent, `bad_argument`, for names that no table can have.
    virtual Result<std::unique_ptr<EventOutbox>> event_outbox(const EventTable& table) = 0;

    /// The event outbox for people and programs: add, look, mark, clean. On the table `outbox`. With an actor
    /// ("cli:ann") every change is in outbox_audit, in the same transaction. Used by one thread at a time.
    virtual Result<std::unique_ptr<deliverd::Outbox>> events(std::optional<std::string> audit_actor) = 0;

    virtual std::unique_ptr<Upkeep> upkeep() = 0;

    virtual std::unique_ptr<DeadLetters> dead_letters() = 0;

    /// Into the table `outbox`.
    virtual std::unique_ptr<Imports> imports() = 0;

    /// The lease protocol, one transaction per call. With an actor ("cli:ann") every change is in
    /// outbox_audit, in the same transaction. The answer is used by one thread at a time and shares this
    /// Database's connections.
    virtual Result<std::unique_ptr<Lease>> lease(std::optional<std::string> audit_actor) = 0;

    /// Stores all of them in one transaction, without audit lines; answers their ids, in the same order.
    virtual Result<std::vector<std::int64_t>> enqueue_memories(std::span<const NewMemory> memories) = 0;

    /// Deletes the rows of `target_space` whose ids lie in first_id..last_id, and their audit lines, in one
    /// transaction; answers how many rows. For a caller that stored these rows itself.
    virtual Result<std::int64_t> remove_memories(std::string_view target_space, std::int64_t first_id,
                                                 std::int64_t last_id) = 0;

    /// Version, privileges, settings: what a person should know before relying on the database.
    virtual Result<std::vector<Finding>> inspect() = 0;

    virtual Result<void> ping(Duration deadline) = 0;

    /// For stopping: from here on no call waits longer than `at_most` from now. That ends pool waits, connects and
    /// statements under way as well. A first signal gives them the patience of the stop, a second one none. A later
    /// call can only bring the moment forward.
    virtual void limit_waits(Duration at_most) = 0;
};

}  // namespace deliverd::store
