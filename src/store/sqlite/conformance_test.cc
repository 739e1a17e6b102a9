#include <sqlite3.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "client/sqlite_statement.h"
#include "store/database_conformance.h"
#include "store/lease_conformance.h"
#include "store/outbox_conformance.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/test_folder.h"

namespace deliverd::store::conformance {
namespace {

class SqliteTestStore final : public TestStore {
public:
    explicit SqliteTestStore(bool migrated) : store_(open_again()) {
        if (migrated) must(store_->migrate(false));
        if (sqlite3_open(path().c_str(), &plain_) != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(plain_));
        sqlite3_busy_timeout(plain_, 5000);
    }
    ~SqliteTestStore() override { sqlite3_close(plain_); }

    Database& database() override { return *store_; }
    std::unique_ptr<Database> open_again() override { return must(open_sqlite({.path = path()}, log_)); }
    std::unique_ptr<Lease> client_lease() override { return lease_on(plain_); }
    std::string value(const std::string& sql) override {
        auto statement = must(client::SqliteStatement::prepare(plain_, sql));
        return must(statement.step()) ? std::string(statement.text(0)) : "";
    }
    void execute(const std::string& sql) override { must(client::sqlite_run(plain_, sql)); }
    std::string time_expression(int seconds) override {
        return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '" + std::to_string(seconds) + " seconds')";
    }

private:
    std::string path() const { return (folder_.path() / "test.db").string(); }

    sqlite::TestFolder folder_;
    NullLog log_;
    std::unique_ptr<Database> store_;
    sqlite3* plain_ = nullptr;
};

const StoreKind kSqlite{"SQLite", [] { return std::make_unique<SqliteTestStore>(true); }};

INSTANTIATE_TEST_SUITE_P(Sqlite, OutboxConformance, ::testing::Values(kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, LeaseConformance,
                         ::testing::Values(LeaseKind{kSqlite, true}, LeaseKind{kSqlite, false}),
                         [](const auto& info) { return info.param.client ? "Client" : "Store"; });
INSTANTIATE_TEST_SUITE_P(Sqlite, DatabaseConformance,
                         ::testing::Values(EmptyDatabase{"SQLite",
                                                         [] { return std::make_unique<SqliteTestStore>(false); },
                                                         "deliverd_migrations", &sqlite_migrations}));

}  // namespace
}  // namespace deliverd::store::conformance
