#include "store/conformance/client_outbox.h"

#include "store/sqlite/testing/test_store.h"

namespace deliverd::store::conformance {
namespace {

class SqliteCaller final : public CallersConnection {
public:
    explicit SqliteCaller(TestStore& store) {
        const std::string path = store.value("select file from pragma_database_list where name = 'main'");
        if (sqlite3_open(path.c_str(), &raw_) != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(raw_));
        sqlite3_busy_timeout(raw_, 5000);
        outbox_ = outbox_on(raw_);
    }
    ~SqliteCaller() override { sqlite3_close(raw_); }
    deliverd::Outbox& outbox() override { return *outbox_; }
    void execute(const std::string& sql) override { must(client::sqlite_run(raw_, sql)); }
    [[nodiscard]] sqlite3* raw() const { return raw_; }
    bool in_transaction() override { return sqlite3_get_autocommit(raw_) == 0; }

private:
    sqlite3* raw_ = nullptr;
    std::unique_ptr<deliverd::Outbox> outbox_;
};

const StoreKind kSqliteClients{"SQLite", [] { return std::make_unique<sqlite::SqliteTestStore>(true); }};
const ClientKind kClient{kSqliteClients, [](TestStore& store) { return std::make_unique<SqliteCaller>(store); }};
const ClientKind kStore{kSqliteClients, nullptr, false};

INSTANTIATE_TEST_SUITE_P(Sqlite, ClientOutboxConformance, ::testing::Values(kClient, kStore),
                         [](const auto& info) { return info.param.client ? "Client" : "Store"; });
INSTANTIATE_TEST_SUITE_P(Sqlite, CallersTransaction, ::testing::Values(kClient));
INSTANTIATE_TEST_SUITE_P(Sqlite, AuditedEvents, ::testing::Values(kStore));

TEST(SqliteEvents, ThePayloadsTextIsKeptByteForByte) {
    sqlite::SqliteTestStore store(true);
    SqliteCaller caller(store);
    const std::string payload = " {\"b\" :1e2,\n\t\"a\":[ 1.0 , \"\\u00e4ä\" ],\"b\":2}\n";
    const std::int64_t id = must(caller.outbox().add({"a", "T", payload, "{ \"x\":  1 }"}));
    EXPECT_EQ(must(caller.outbox().show(id))->payload, payload);
    EXPECT_EQ(must(caller.outbox().show(id))->metadata, "{ \"x\":  1 }");
}

/// A plain INSERT is held to the same rules by the table itself.
TEST(SqliteEvents, TheTableRefusesWhatTheLibraryRefuses) {
    sqlite::SqliteTestStore store(true);
    const SqliteCaller plain(store);
    for (const char* values :
         {"('', 'T', '{}', '{}')", "('a', '', '{}', '{}')", "('a', 'T', '{', '{}')", "('a', 'T', '{}', '[]')",
          "(printf('%.*c', 256, 'x'), 'T', '{}', '{}')", "(null, 'T', '{}', '{}')", "('a', 'T', null, '{}')"}) {
        auto statement = client::SqliteStatement::prepare(
            plain.raw(),
            std::string("insert into outbox (aggregate_id, event_type, payload, metadata) values ") + values);
        ASSERT_TRUE(statement) << values;
        EXPECT_FALSE(statement->run()) << values;
    }
}

TEST(SqliteEvents, AForeignTableIsLeftAsItIs) {
    sqlite::SqliteTestStore store(false);
    store.execute("create table OUTBOX (number integer primary key, what text)");
    store.execute("insert into outbox (what) values ('theirs')");
    const std::string before = store.value("select sql from sqlite_schema where name = 'OUTBOX'");
    const auto shown = must(store.database().migrate(true));
    must(store.database().migrate(false));
    EXPECT_EQ(must(store.database().schema()).state, SchemaState::current);
    EXPECT_EQ(store.value("select sql from sqlite_schema where name = 'OUTBOX'"), before);
    EXPECT_EQ(store.value("select count(*) from sqlite_schema where type = 'index' and tbl_name = 'OUTBOX'"), "0");
    EXPECT_EQ(store.value("select what from outbox"), "theirs");
    EXPECT_EQ(shown.back().sql.find("create table outbox "), std::string::npos) << "the dry run says what is done";
    const auto added = SqliteCaller(store).outbox().add({"a", "T", "{}"});
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().error_class, ErrorClass::permanent);
}

}  // namespace
}  // namespace deliverd::store::conformance
