#include "store/postgres/postgres.h"

#include <utility>

#include "base/try.h"
#include "client/postgres_call.h"
#include "deliverd/error_codes.h"
#include "store/postgres/connection/cells.h"
#include "store/postgres/connection/pool.h"
#include "store/postgres/connection/refusal.h"
#include "store/postgres/events/event_outbox.h"
#include "store/postgres/events/statements.h"
#include "store/postgres/letters/dead_letters.h"
#include "store/postgres/parts.h"
#include "store/postgres/queues/queues.h"
#include "store/postgres/queues/statements.h"
#include "store/session.h"
#include "store/sql_text.h"

namespace deliverd::store {
namespace {

/// `over` makes the protocol on a connection; `audit` is the statement that takes the parameters of an entry.
template <typename Protocol, typename Audit>
Result<Session<Protocol, Audit>> open_session(
    postgres::Pool& pool, std::unique_ptr<Protocol> (*over)(std::unique_ptr<client::PostgresCall> call),
    const postgres::Statement& audit, postgres::Params (*params)(const Audit& entry)) {
    TRY_ASSIGN(auto begun, postgres::Transaction::begin(pool));
    const auto transaction = std::make_shared<postgres::Transaction>(std::move(begun));
    Session<Protocol, Audit> session;
    session.audit = [=](const Audit& entry) -> Result<void> {
        TRY(transaction->run(audit, params(entry)));
        return {};
    };
    session.commit = [=] { return transaction->commit(); };
    session.protocol = over(postgres::call_on(transaction->connection()));
    return session;
}

Result<LeaseSession> open_lease_session(postgres::Pool& pool, const std::string& schema) {
    return open_session<Lease, LeaseAudit>(
        pool, client::lease_over,
        {"queues_audit_lease", filled(postgres::queues::sql::audit_lease, {{"schema", quoted(schema)}})},
        [](const LeaseAudit& entry) {
            return postgres::Params(entry.ids, entry.reason, entry.status_from, entry.worker, entry.actor);
        });
}

Result<EventSession> open_event_session(postgres::Pool& pool, const std::string& schema) {
    return open_session<deliverd::Outbox, EventAudit>(
        pool, client::outbox_over,
        {"events_audit", filled(postgres::events::sql::audit_event, {{"schema", quoted(schema)}})},
        [](const EventAudit& entry) {
            const auto count = entry.retry_count ? std::optional(std::to_string(*entry.retry_count)) : std::nullopt;
            return postgres::Params(entry.id, entry.reason, entry.status_from, entry.status_to, count, entry.last_error,
                                    entry.detail, entry.actor);
        });
}

class PostgresDatabase final : public Database {
public:
    PostgresDatabase(PostgresOptions options, Log& log)
        : options_(std::move(options)),
          place_(postgres::place_of(options_.conninfo)),
          log_(log),
          pool_({options_.conninfo,
                 options_.refresh_conninfo,
                 options_.max_connections,
                 options_.connect_timeout,
                 options_.pool_wait,
                 {options_.statement_timeout, options_.lock_timeout, options_.statement_timeout}},
                log) {}

    std::string describe() const override {
        const int version = pool_.server_version();
        const std::string number =
            version == 0 ? "" : " " + std::to_string(version / 10000) + "." + std::to_string(version % 10000);
        return "PostgreSQL" + number + " at " + place_;
    }

    Result<SchemaReport> schema() override {
        TRY_ASSIGN(auto connection, pool_.borrow());
        return postgres::schema_report(*connection, options_.schema);
    }

    Result<std::vector<MigrationStep>> migrate(bool dry_run) override {
        TRY_ASSIGN(auto connection, pool_.borrow());
        return postgres::migrate(*connection, options_.schema, dry_run);
    }

    std::unique_ptr<RowQueue> memory_outbox(std::string lane) override {
        return postgres::make_memory_queue(pool_, options_.schema, std::move(lane));
    }

    std::unique_ptr<RowQueue> orders_outbox(const OrdersOptions& options, std::string lane) override {
        return postgres::make_order_queue(pool_, options_.schema, options, std::move(lane));
    }

    std::unique_ptr<DeadLetters> dead_letters() override { return postgres::make_dead_letters(pool_, options_.schema); }

    std::unique_ptr<Imports> imports() override { return postgres::make_imports(pool_, options_.schema); }

    std::unique_ptr<Orders> orders(const OrdersOptions& options) override {
        return postgres::make_orders(pool_, options_.schema, options);
    }

    Result<std::unique_ptr<EventOutbox>> event_outbox(const EventTable& table) override {
        return postgres::open_event_outbox(pool_, log_, options_.schema, table);
    }

    Result<std::unique_ptr<deliverd::Outbox>> events(std::optional<std::string> audit_actor) override {
        return make_session_events([this] { return open_event_session(pool_, options_.schema); },
                                   std::move(audit_actor));
    }

    std::unique_ptr<Upkeep> upkeep() override { return postgres::make_upkeep(pool_, options_.schema); }

    Result<std::unique_ptr<Lease>> lease(std::optional<std::string> audit_actor) override {
        return make_session_lease([this] { return open_lease_session(pool_, options_.schema); }, std::move(audit_actor),
                                  options_.max_payload_bytes);
    }

    Result<std::vector<std::int64_t>> enqueue_memories(std::span<const NewMemory> memories) override {
        TRY_ASSIGN(auto session, open_lease_session(pool_, options_.schema));
        return enqueue_in_session(session, memories, options_.max_payload_bytes);
    }

    Result<std::int64_t> remove_memories(std::string_view target_space, std::int64_t first_id,
                                         std::int64_t last_id) override {
        // Rarely called: not worth the statements of an outbox.
        const postgres::Statement remove{"queues_remove_memories", filled(postgres::queues::sql::remove_memories,
                                                                          {{"schema", quoted(options_.schema)}})};
        TRY_ASSIGN(auto result,
                   run_once(pool_, remove, postgres::Params(target_space, first_id, last_id), postgres::Effect::write));
        return postgres::Row(result.get()).get<std::int64_t>();
    }

    Result<std::vector<Finding>> inspect() override {
        TRY_ASSIGN(auto connection, pool_.borrow());
        return postgres::inspect(*connection, options_.schema);
    }

    Result<void> ping(Duration deadline) override { return postgres::ping_server(pool_, deadline); }

    void limit_waits(Duration at_most) override { pool_.limit_waits(at_most); }

private:
    const PostgresOptions options_;
    const std::string place_;
    Log& log_;
    postgres::Pool pool_;
};

}  // namespace

Result<void> check_conninfo(const std::string& conninfo) {
    return postgres::check_readable(conninfo);
}

Result<std::unique_ptr<Database>> open_postgres(PostgresOptions options, Log& log) {
    TRY(check_conninfo(options.conninfo));
    // The migrations create that schema for the functions and for deliverd's own tables.
    if (options.schema.empty() || options.schema == "deliverd") {
        return permanent(codes::kBadArgument, "database.schema must name a schema other than deliverd's own");
    }
    if (options.max_connections == 0) {
        return permanent(codes::kBadArgument, "at least one database connection must be allowed");
    }
    return std::make_unique<PostgresDatabase>(std::move(options), log);
}

}  // namespace deliverd::store
