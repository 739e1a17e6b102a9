#include "wal/slot_care.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/try.h"
#include "deliverd/error_codes.h"
#include "store/postgres/connection/cells.h"
#include "store/sql_text.h"
#include "wal/replication_stream.h"
#include "wal/slot_name.h"
#include "wal/statements.h"

namespace deliverd::wal {
namespace {

using client::Effect;
using client::PgResult;
using store::postgres::Connection;
using store::postgres::Params;
using store::postgres::Row;
using store::postgres::Statement;
using store::postgres::Step;

/// Whatever the statement does: each of them can be repeated, so a lost answer leaves nothing in doubt.
Result<PgResult> run_on(Connection& connection, const Statement& statement, const Params& params) {
    return connection.run(Step{&statement, params}, Effect::read);
}

Failure with_advice(ErrorClass error_class, std::string_view code, const Error& error, const std::string& advice) {
    return Failure(Error{error_class, std::string(code), error.message + "; " + advice});
}

}  // namespace

SlotCare::SlotCare(store::postgres::Pool& pool, SlotNames names) : pool_(pool), names_(std::move(names)) {
    ASSERT(check_slot_name(names_.slot).has_value());
}

Result<SlotState> SlotCare::slot() {
    static const Statement kState{"wal_slot_state", sql::slot_state};
    TRY_ASSIGN(const auto connection, pool_.borrow());
    TRY_ASSIGN(const PgResult result, run_on(*connection, kState, Params(names_.slot)));
    SlotState state;
    std::int64_t confirmed = 0;
    std::int64_t restart = 0;
    std::int64_t current = 0;
    Row(result.get(), 0)
        .read(state.exists, state.plugin, state.database, state.active, state.active_pid, state.wal_status, confirmed,
              restart, current, state.in_recovery, state.system_identifier, state.wal_level, state.here, state.role,
              state.may_replicate);
    state.confirmed = static_cast<Lsn>(confirmed);
    state.restart = static_cast<Lsn>(restart);
    state.current = static_cast<Lsn>(current);
    // A slot whose log is gone has no position to count from. One of a standby may be ahead of what is replayed.
    if (confirmed > 0) state.lag_bytes = std::max<std::int64_t>(current - confirmed, 0);
    if (restart > 0) state.retained_bytes = std::max<std::int64_t>(current - restart, 0);
    return state;
}

Result<PublicationState> SlotCare::publication() {
    static const Statement kState{"wal_publication_state", sql::publication_state};
    static const Statement kTables{"wal_published_tables", sql::published_tables};
    const Params params(names_.publication, names_.table.schema, names_.table.table);
    TRY_ASSIGN(const auto connection, pool_.borrow());
    const std::array steps{Step{&kState, params}, Step{&kTables, params}};
    TRY_ASSIGN(const auto results, connection->run(steps, Effect::read));
    PublicationState state;
    Row(results[0].get(), 0)
        .read(state.exists, state.publishes_inserts, state.via_root, state.table_exists, state.table_owned,
              state.may_create, state.partitions);
    for (const Row& row : store::postgres::rows_of(results[1].get())) {
        bool filtered = false;
        auto& [schema, table] = state.arrives_as.emplace_back();
        row.read(schema, table, filtered);
        state.filters_rows = state.filters_rows || filtered;
    }
    return state;
}

Result<void> SlotCare::create_publication() {
    const std::string text = store::filled(sql::create_publication, {{"publication", store::quoted(names_.publication)},
                                                                     {"table", names_.table.quoted_name()}});
    TRY_ASSIGN(const auto connection, pool_.borrow());
    const auto made = connection->script(text, Effect::read);
    if (!made && connection->refused_with() != "42710") return Failure(made.error());
    return {};
}

Result<SlotCare::CreatedSlot> SlotCare::create_slot() {
    static const Statement kCreate{"wal_create_slot", sql::create_slot};
    std::string refused_with;
    {
        TRY_ASSIGN(const auto connection, pool_.borrow());
        const auto made = run_on(*connection, kCreate, Params(names_.slot));
        if (made) return CreatedSlot{static_cast<Lsn>(Row(made->get(), 0).get<std::int64_t>()), true};
        const Error& error = made.error();
        refused_with = connection->refused_with();
        if (error.code == codes::kDbTimeout) {
            return with_advice(ErrorClass::retryable, kSlotMustWait, error,
                               "a slot is made once all transactions that are open now have ended: end those that are "
                               "old, in any database (pg_stat_activity.xact_start, pg_prepared_xacts)");
        }
        if (refused_with == "42501") {
            return with_advice(ErrorClass::permanent, kReplicationDenied, error,
                               "let a superuser run `alter role NAME replication` for this user, or make the slot");
        }
        if (refused_with == "55000") {
            return with_advice(ErrorClass::permanent, kWalLevelTooLow, error,
                               "set wal_level = logical and restart the server");
        }
        if (refused_with == "53400") {
            return with_advice(error.error_class, error.code, error,
                               "raise max_replication_slots and restart the server, or drop slots that nobody reads");
        }
        if (refused_with != "42710") return Failure(error);
    }
    TRY_ASSIGN(const SlotState there, slot());
    return CreatedSlot{there.confirmed, false};
}

Result<void> SlotCare::drop_slot() {
    static const Statement kDrop{"wal_drop_slot", sql::drop_slot};
    TRY_ASSIGN(const auto connection, pool_.borrow());
    const auto dropped = run_on(*connection, kDrop, Params(names_.slot));
    if (dropped || connection->refused_with() == "42704") return {};  // another process was faster
    if (connection->refused_with() == "55006") {
        return with_advice(ErrorClass::retryable, kSlotInUse, dropped.error(), "stop its reader first");
    }
    return Failure(dropped.error());
}

Result<Lsn> SlotCare::heartbeat(std::string_view prefix) {
    static const Statement kHeartbeat{"wal_heartbeat", sql::heartbeat};
    TRY_ASSIGN(const auto connection, pool_.borrow());
    TRY_ASSIGN(const PgResult result, run_on(*connection, kHeartbeat, Params(prefix)));
    return static_cast<Lsn>(Row(result.get(), 0).get<std::int64_t>());
}

std::vector<std::string> SlotCare::missing_statements(const SlotState& slot,
                                                      const PublicationState& publication) const {
    const std::string publication_name = store::quoted(names_.publication);
    const std::string table = names_.table.quoted_name();
    const std::string role = store::quoted(slot.role);
    const std::string slot_name = literal(names_.slot);
    std::vector<std::string> statements;
    const auto need = [&](bool needed, std::string_view text) {
        if (!needed) return;
        text.remove_prefix(text.find_first_not_of('\n'));  // for people
        statements.push_back(store::filled(
            text, {{"publication", publication_name}, {"table", table}, {"role", role}, {"slot", slot_name}}));
    };
    const bool there = publication.exists;
    need(slot.wal_level != "logical", sql::set_wal_level);
    need(!slot.may_replicate, sql::allow_replication);
    need(!there, sql::create_publication);
    need(there && !publication.publishes_inserts, sql::publish_inserts);
    need(there && publication.filters_rows, sql::drop_table);
    need(there && (publication.filters_rows || publication.arrives_as.empty()), sql::add_table);
    need(!slot.exists, sql::create_slot_by_hand);
    return statements;
}

}  // namespace deliverd::wal
