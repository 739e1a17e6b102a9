#include "store/conformance/lease.h"
#include "store/conformance/orders.h"
#include "store/conformance/orders_holding.h"
#include "store/conformance/orders_outbox.h"
#include "store/conformance/row_queue.h"
#include "store/postgres/testing/test_server.h"

namespace deliverd::store::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(Postgres, OutboxConformance, ::testing::Values(postgres::kPostgres));
INSTANTIATE_TEST_SUITE_P(Postgres, OrdersConformance, ::testing::Values(postgres::kPostgres));
INSTANTIATE_TEST_SUITE_P(Postgres, OrdersOutboxConformance, ::testing::Values(postgres::kPostgres));
INSTANTIATE_TEST_SUITE_P(Postgres, OrdersHoldingConformance, ::testing::Values(postgres::kPostgres));
INSTANTIATE_TEST_SUITE_P(Postgres, LeaseConformance,
                         ::testing::Values(LeaseKind{postgres::kPostgres, true}, LeaseKind{postgres::kPostgres, false}),
                         [](const auto& info) { return info.param.client ? "Client" : "Store"; });

}  // namespace
}  // namespace deliverd::store::conformance
