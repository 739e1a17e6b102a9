#include "store/conformance/lease.h"
#include "store/conformance/orders.h"
#include "store/conformance/orders_holding.h"
#include "store/conformance/orders_outbox.h"
#include "store/conformance/row_queue.h"
#include "store/sqlite/testing/test_store.h"

namespace deliverd::store::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(Sqlite, OutboxConformance, ::testing::Values(sqlite::kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, OrdersConformance, ::testing::Values(sqlite::kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, OrdersOutboxConformance, ::testing::Values(sqlite::kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, OrdersHoldingConformance, ::testing::Values(sqlite::kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, LeaseConformance,
                         ::testing::Values(LeaseKind{sqlite::kSqlite, true}, LeaseKind{sqlite::kSqlite, false}),
                         [](const auto& info) { return info.param.client ? "Client" : "Store"; });

}  // namespace
}  // namespace deliverd::store::conformance
