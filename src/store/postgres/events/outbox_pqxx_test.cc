// The header for applications that use libpqxx, with libpqxx itself.
#include "deliverd/outbox_pqxx.h"

#include <boost/json.hpp>
#include <pqxx/pqxx>

#include "store/postgres/testing/test_server.h"

namespace deliverd::store::postgres {
namespace {

class OutboxPqxx : public ::testing::Test {
protected:
    OutboxPqxx() : store_(true), connection_(store_.server().conninfo()) {}
    PostgresTestStore store_;
    pqxx::connection connection_;
};

TEST_F(OutboxPqxx, AddsAnEventInTheCallersTransaction) {
    pqxx::work work(connection_);
    const std::int64_t id =
        add_event(work, {"größe-1", "OrderCreated", R"({"total": 42})", R"({"traceparent": "00-a-b-01"})"});
    EXPECT_EQ(store_.value("select count(*) from outbox"), "0") << "not seen by others before the commit";
    work.commit();
    EXPECT_EQ(store_.value("select id from outbox"), std::to_string(id));
    EXPECT_EQ(store_.value("select aggregate_id from outbox"), "größe-1");
    EXPECT_EQ(store_.value("select event_type from outbox"), "OrderCreated");
    EXPECT_EQ(store_.value("select payload from outbox"), R"({"total": 42})");
    EXPECT_EQ(store_.value("select metadata->>'traceparent' from outbox"), "00-a-b-01");
}

TEST_F(OutboxPqxx, WhatIsRolledBackLeavesNothing) {
    {
        pqxx::work work(connection_);
        add_event(work, {"a", "T", "{}"});
    }
    EXPECT_EQ(store_.value("select count(*) from outbox"), "0");
}

TEST_F(OutboxPqxx, TakesTheBaseOfAllTransactions) {
    pqxx::nontransaction each_by_itself(connection_);
    pqxx::transaction_base& base = each_by_itself;
    add_event(base, {"a", "T", "[1]"});
    EXPECT_EQ(store_.value("select payload || metadata from outbox"), "[1, {}]");
}

TEST_F(OutboxPqxx, RefusalsAreExceptionsOfLibpqxx) {
    for (const NewEvent& bad :
         {NewEvent{"", "T", "{}"}, NewEvent{"a", "", "{}"}, NewEvent{"a", "T", "{"}, NewEvent{"a", "T", "{}", "[]"}}) {
        pqxx::work work(connection_);
        EXPECT_THROW(add_event(work, bad), pqxx::data_exception);
    }
    EXPECT_EQ(store_.value("select count(*) from outbox"), "0");
}

}  // namespace
}  // namespace deliverd::store::postgres
