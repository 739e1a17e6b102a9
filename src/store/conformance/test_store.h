// What the conformance suites ask of a store under test. Only tests include this.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "deliverd/lease.h"
#include "store/database.h"

namespace deliverd::store::conformance {

/// A migrated, empty database.
class TestStore {
public:
    virtual ~TestStore() = default;
    virtual Database& database() = 0;
    /// The same database again, as another process would open it.
    virtual std::unique_ptr<Database> open_again() = 0;
    /// The public client library on a connection of its own.
    virtual std::unique_ptr<Lease> client_lease() = 0;
    /// One value of a query that both databases understand, as text; "" for NULL or no row.
    virtual std::string value(const std::string& sql) = 0;
    virtual void execute(const std::string& sql) = 0;
    /// The database's now() plus `seconds`, as an SQL expression.
    virtual std::string time_expression(int seconds) = 0;

    /// As if `seconds` had passed since every claim.
    void age_leases(int seconds) {
        execute("update outbox_memory set locked_at = " + time_expression(-seconds) + " where locked_at is not null");
    }
    void set_due(std::int64_t id, int seconds_from_now) {
        execute("update outbox_memory set next_attempt_at = " + time_expression(seconds_from_now) +
                " where outbox_id = " + std::to_string(id));
    }
    void set_order_due(std::int64_t id, int seconds_from_now) {
        execute("update outbox_orders set next_attempt_at = " + time_expression(seconds_from_now) +
                " where id = " + std::to_string(id));
    }
    /// As if `seconds` had passed since every claim and renewal.
    void age_sending(int seconds) {
        execute("update outbox_orders set updated_at = " + time_expression(-seconds) + " where status = 'sending'");
    }
};

struct StoreKind {
    std::string name;
    std::function<std::unique_ptr<TestStore>()> make;
    friend void PrintTo(const StoreKind& kind, std::ostream* out) { *out << kind.name; }
};

/// The value, or a failed test that shows the error.
template <typename T>
T must(Result<T> result) {
    if (!result) {
        ADD_FAILURE() << result.error().code << ": " << result.error().message;
        throw std::runtime_error(result.error().message);
    }
    if constexpr (!std::is_void_v<T>) return std::move(*result);
}

template <typename T>
void expect_refused(const Result<T>& result, const std::string& mentions, std::string_view code = "bad_argument") {
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, code);
    EXPECT_EQ(result.error().error_class, ErrorClass::permanent);
    EXPECT_NE(result.error().message.find(mentions), std::string::npos) << result.error().message;
}

/// Settles, also what was left out because someone (a claim that looks it over, a renewal) had it locked at that
/// moment; answers what went wrong.
inline std::string settle_all(RowQueue& outbox, const std::string& worker, std::vector<Settlement> settlements) {
    while (!settlements.empty()) {
        const auto answers = outbox.settle(worker, settlements);
        if (!answers) return answers.error().message;
        std::vector<Settlement> again;
        for (std::size_t i = 0; i < settlements.size(); ++i) {
            const SettleAnswer& answer = answers->at(i);
            if (answer.applied) continue;
            if (!answer.row || answer.row->locked_by != worker) return "a row was lost";
            again.push_back(settlements[i]);
        }
        settlements = std::move(again);
    }
    return "";
}

}  // namespace deliverd::store::conformance
