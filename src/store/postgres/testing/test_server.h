// A database of its own on the server the tests were given. Only tests include this.
#pragma once

#include <libpq-fe.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "store/conformance/test_store.h"
#include "store/postgres/postgres.h"

namespace deliverd::store::postgres {

inline constexpr std::chrono::seconds kPatience{20};

/// Asks until `condition` holds; false when it did not in time.
template <typename Condition>
bool wait_until(Condition condition) {
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock lock(mutex);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        never.wait_for(lock, std::chrono::milliseconds(10));
    }
    return true;
}

/// A plain, blocking connection for what tests ask and do behind the store's back. Failures throw.
class PlainConnection {
public:
    explicit PlainConnection(const std::string& conninfo);
    /// The first value of each row, as text; "" for NULL.
    std::vector<std::string> column(const std::string& sql);
    /// Text of all LOG and NOTICE messages since the last call.
    std::vector<std::string> take_messages();
    [[nodiscard]] PGconn* raw() const { return connection_.get(); }

private:
    struct Finish {
        void operator()(PGconn* connection) const { PQfinish(connection); }
    };
    static void on_notice(void* self, const PGresult* result);
    std::unique_ptr<PGconn, Finish> connection_;
    std::vector<std::string> messages_;
};

/// Created empty, dropped at the end (whoever is still connected).
class TestDatabase {
public:
    /// `clauses` end the CREATE DATABASE.
    explicit TestDatabase(const std::string& clauses = "");
    struct Migrated {};
    /// With deliverd's schema in it.
    explicit TestDatabase(Migrated /*tag*/);
    ~TestDatabase();
    TestDatabase(const TestDatabase&) = delete;
    TestDatabase& operator=(const TestDatabase&) = delete;
    [[nodiscard]] const std::string& conninfo() const { return conninfo_; }
    /// The store's options for it: short limits, so that a fault shows soon.
    [[nodiscard]] PostgresOptions options() const;

private:
    std::string name_;
    std::string conninfo_;
    PlainConnection server_;
};

class PostgresTestStore final : public conformance::TestStore {
public:
    explicit PostgresTestStore(bool migrated);
    Database& database() override { return *store_; }
    std::unique_ptr<Database> open_again() override;
    std::unique_ptr<Lease> client_lease() override;
    std::string value(const std::string& sql) override;
    void execute(const std::string& sql) override { plain_.column(sql); }
    std::string time_expression(int seconds) override;

    [[nodiscard]] const TestDatabase& server() const { return database_; }
    [[nodiscard]] PlainConnection& plain() { return plain_; }

private:
    NullLog log_;
    TestDatabase database_;
    PlainConnection plain_;
    std::optional<PlainConnection> for_client_;
    std::unique_ptr<Database> store_;
};

/// Waits until a connection of the store's waits for a lock; false when none did in time.
inline bool waits_for_a_lock(const PostgresTestStore& store) {
    PlainConnection other(store.server().conninfo());
    return wait_until([&] {
        return !other
                    .column(
                        "select 1 from pg_stat_activity where datname = current_database()"
                        " and application_name = 'deliverd' and wait_event_type = 'Lock'")
                    .empty();
    });
}

/// For the conformance suites: a migrated database per test.
inline const conformance::StoreKind kPostgres{"PostgreSQL", [] { return std::make_unique<PostgresTestStore>(true); }};

}  // namespace deliverd::store::postgres
