// A SQLite file of its own in a temporary folder. Only tests include this.
#pragma once

#include <sqlite3.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "base/log.h"
#include "client/sqlite_statement.h"
#include "store/conformance/test_store.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/testing/test_folder.h"

namespace deliverd::store::sqlite {

using conformance::must;

class SqliteTestStore final : public conformance::TestStore {
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
        return must(statement.one([](const auto& row) { return row.template get<std::string>(); })).value_or("");
    }
    void execute(const std::string& sql) override { must(client::sqlite_run(plain_, sql)); }
    std::string time_expression(int seconds) override {
        return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '" + std::to_string(seconds) + " seconds')";
    }

private:
    std::string path() const { return (folder_.path() / "test.db").string(); }

    TestFolder folder_;
    NullLog log_;
    std::unique_ptr<Database> store_;
    sqlite3* plain_ = nullptr;
};

/// For the conformance suites: a migrated file per test.
inline const conformance::StoreKind kSqlite{"SQLite", [] { return std::make_unique<SqliteTestStore>(true); }};

}  // namespace deliverd::store::sqlite
