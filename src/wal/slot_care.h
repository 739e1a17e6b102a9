// Looks after a slot and its publication over ordinary SQL connections: their state, making and dropping them, and the
// heartbeat. Never moves a slot forward: only its reader does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deliverd/result.h"
#include "store/event_row.h"
#include "store/postgres/connection/pool.h"
#include "wal/lsn.h"

namespace deliverd::wal {

/// Failed create_slot(): a transaction that was open before did not end in time. Retryable.
inline constexpr std::string_view kSlotMustWait = "wal_slot_must_wait";

struct SlotNames {
    std::string slot;         // a-z, 0-9 and _, at most 63
    std::string publication;  // any name
    store::TablePlace table;  // the lane's outbox
};

/// A slot, and the server as the slot sees it.
struct SlotState {
    bool exists = false;
    std::string plugin;
    std::string database;
    bool active = false;
    std::optional<std::int32_t> active_pid;
    std::string wal_status;  // reserved, extended, unreserved, lost; empty if the server does not say
    Lsn confirmed = 0;
    Lsn restart = 0;
    std::int64_t lag_bytes = 0;       // from the confirmed position to the end of the log
    std::int64_t retained_bytes = 0;  // of log that the slot keeps

    // Also where there is no slot:
    Lsn current = 0;                // the end of the log
    bool in_recovery = false;       // a standby: it has no slots that can be read
    std::string system_identifier;  // one for a server and all its standbys
    std::string wal_level;          // "logical", or nothing can be decoded
    std::string here;               // the database that was asked
    std::string role;               // this user
    bool may_replicate = false;     // has REPLICATION, or is a superuser

    /// Its log is gone: it can only be dropped and made again.
    [[nodiscard]] bool invalidated() const { return exists && wal_status == "lost"; }
    /// Made by something else under this name: it must not be dropped, nor can it be read.
    [[nodiscard]] bool foreign() const { return exists && (plugin != "pgoutput" || database != here); }
};

struct PublicationState {
    bool exists = false;
    bool publishes_inserts = false;
    bool via_root = false;      // rows of partitions arrive under the name of the partitioned table
    bool filters_rows = false;  // some rows of the outbox would never arrive
    bool table_exists = false;
    bool table_owned = false;                   // by this role, directly or as a member: it may publish it
    bool may_create = false;                    // this role may create a publication in the database
    std::int64_t partitions = 0;                // of the outbox, at the lowest level; 0 if it is not partitioned
    std::vector<store::TablePlace> arrives_as;  // what StreamReaderOptions::tables takes; empty: the table is not in it

    /// Every row of the outbox arrives.
    [[nodiscard]] bool complete() const {
        return exists && publishes_inserts && !filters_rows && !arrives_as.empty() &&
               (partitions == 0 || via_root || static_cast<std::int64_t>(arrives_as.size()) == partitions);
    }
};

/// Thread-safe. Each call is one round trip on a connection of the pool, and blocks as its statements do. Failures are
/// the pool's and the statement's, and the codes named here.
class SlotCare {
public:
    SlotCare(store::postgres::Pool& pool, SlotNames names);

    [[nodiscard]] Result<SlotState> slot();
    [[nodiscard]] Result<PublicationState> publication();

    /// For inserts into the table, and through its root if it is partitioned. Leaves one of that name as it is.
    Result<void> create_publication();
    /// Answers the position from which it keeps the log, and whether this call made it: one of that name is left as it
    /// is. Waits until every transaction that is open now has ended: kSlotMustWait if that takes longer than a
    /// statement may. Other failures: kReplicationDenied, kWalLevelTooLow.
    struct CreatedSlot {
        Lsn confirmed = 0;
        bool made = false;
    };
    Result<CreatedSlot> create_slot();
    /// Also where there is none. Failure: kSlotInUse, retryable, while a reader has it.
    Result<void> drop_slot();

    /// Writes an empty logical message that is not transactional, which carries the slot forward. Answers its position.
    Result<Lsn> heartbeat(std::string_view prefix);

    /// What a superuser has to run for what is missing, in this order; empty: nothing. Each is one statement. After the
    /// one about wal_level the server must be restarted before the others work, as its comment says.
    [[nodiscard]] std::vector<std::string> missing_statements(const SlotState& slot,
                                                              const PublicationState& publication) const;

private:
    store::postgres::Pool& pool_;
    const SlotNames names_;
};

}  // namespace deliverd::wal
