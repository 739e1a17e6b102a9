#include "store/conformance/client_outbox.h"

#include "store/postgres/testing/test_server.h"

namespace deliverd::store::conformance {
namespace {

class PostgresCaller final : public CallersConnection {
public:
    explicit PostgresCaller(const std::string& conninfo) : plain_(conninfo), outbox_(outbox_on(plain_.raw())) {}
    deliverd::Outbox& outbox() override { return *outbox_; }
    void execute(const std::string& sql) override { plain_.column(sql); }
    bool in_transaction() override { return PQtransactionStatus(plain_.raw()) != PQTRANS_IDLE; }

private:
    postgres::PlainConnection plain_;
    std::unique_ptr<deliverd::Outbox> outbox_;
};

const StoreKind kPostgresClients{"PostgreSQL", [] { return std::make_unique<postgres::PostgresTestStore>(true); }};
const ClientKind kClient{
    kPostgresClients, [](TestStore& store) {
        return std::make_unique<PostgresCaller>(dynamic_cast<postgres::PostgresTestStore&>(store).server().conninfo());
    }};
const ClientKind kStore{kPostgresClients, nullptr, false};

INSTANTIATE_TEST_SUITE_P(Postgres, ClientOutboxConformance, ::testing::Values(kClient, kStore),
                         [](const auto& info) { return info.param.client ? "Client" : "Store"; });
INSTANTIATE_TEST_SUITE_P(Postgres, CallersTransaction, ::testing::Values(kClient));
INSTANTIATE_TEST_SUITE_P(Postgres, AuditedEvents, ::testing::Values(kStore));

/// The functions know the schema: nothing depends on the caller's search_path.
TEST(PostgresClientEvents, TheTableIsFoundInItsSchema) {
    const postgres::TestDatabase server;
    NullLog log;
    PostgresOptions options = server.options();
    options.schema = "else where";
    const auto database = must(open_postgres(options, log));
    must(database->migrate(false));
    PostgresCaller caller(server.conninfo());
    caller.execute("set search_path = pg_catalog");
    const std::int64_t id = must(caller.outbox().add({"a", "T", R"({"n": 1})"}));
    EXPECT_EQ(must(caller.outbox().show(id))->payload, R"({"n": 1})");
    EXPECT_EQ(must(caller.outbox().stats()).total, 1);
    EXPECT_TRUE(must(caller.outbox().mark_published(id)));
    EXPECT_EQ(must(must(database->events("cli:ann"))->increment_retry_count(id)), std::nullopt);
    EXPECT_EQ(must(must(database->events("cli:ann"))->add({"a", "T", "{}"})), id + 1);
}

TEST(PostgresClientEvents, AForeignTableIsLeftAsItIs) {
    postgres::PostgresTestStore store(false);
    store.execute("create table outbox (number bigserial primary key, what text)");
    must(store.database().migrate(false));
    EXPECT_EQ(must(store.database().schema()).state, SchemaState::current);
    EXPECT_EQ(store.value("select count(*) from pg_attribute where attrelid = 'outbox'::regclass and attnum > 0"), "2");
    PostgresCaller caller(store.server().conninfo());
    const auto added = caller.outbox().add({"a", "T", "{}"});
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().error_class, ErrorClass::permanent);
    EXPECT_FALSE(caller.outbox().fetch_unpublished());
}

/// What only the server finds: a number no `numeric` holds.
TEST(PostgresClientEvents, WhatTheServerRefusesIsABadArgumentToo) {
    postgres::PostgresTestStore store(true);
    PostgresCaller caller(store.server().conninfo());
    expect_refused(caller.outbox().add({"a", "T", "1e999999"}), "numeric");
    expect_refused(must(store.database().events("cli:ann"))->add({"a", "T", "1e999999"}), "numeric");
}

TEST(PostgresClientEvents, ALostConnectionIsAmbiguousForAChange) {
    postgres::PostgresTestStore store(true);
    PostgresCaller caller(store.server().conninfo());
    const int pid = std::stoi(store.value(
        "select pid from pg_stat_activity where datname = current_database()"
        " and backend_type = 'client backend' and pid <> pg_backend_pid() order by backend_start desc limit 1"));
    store.execute("select pg_terminate_backend(" + std::to_string(pid) + ", 10000)");
    const auto added = caller.outbox().add({"a", "T", "{}"});
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, "db_unreachable");
    EXPECT_EQ(added.error().error_class, ErrorClass::ambiguous);
}

}  // namespace
}  // namespace deliverd::store::conformance
