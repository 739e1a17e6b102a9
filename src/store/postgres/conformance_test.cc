#include "store/database_conformance.h"
#include "store/dead_letters_conformance.h"
#include "store/dead_letters_lanes_conformance.h"
#include "store/dead_letters_listing_conformance.h"
#include "store/dead_letters_retry_conformance.h"
#include "store/dead_letters_upkeep_conformance.h"
#include "store/event_letters_conformance.h"
#include "store/events_conformance.h"
#include "store/events_resharding_conformance.h"
#include "store/events_shards_conformance.h"
#include "store/events_table_conformance.h"
#include "store/imports_conformance.h"
#include "store/lease_conformance.h"
#include "store/orders_conformance.h"
#include "store/orders_holding_conformance.h"
#include "store/orders_outbox_conformance.h"
#include "store/outbox_conformance.h"
#include "store/postgres/test_server.h"
#include "store/redrive_conformance.h"
#include "store/upkeep_conformance.h"

namespace deliverd::store::conformance {
namespace {

const StoreKind kPostgres{"PostgreSQL", [] { return std::make_unique<postgres::PostgresTestStore>(true); }};

INSTANTIATE_TEST_SUITE_P(Postgres, OutboxConformance, ::testing::Values(kPostgres));
INSTANTIATE_TEST_SUITE_P(Postgres, OrdersConformance, ::testing::Values(kPostgres));
INSTANTIATE_TEST_SUITE_P(Postgres, OrdersOutboxConformance, ::testing::Values(kPostgres));
INSTANTIATE_TEST_SUITE_P(Postgres, OrdersHoldingConformance, ::testing::Values(kPostgres));
const EventsKind kEvents{kPostgres,          "deliverd.shards",  "deliverd.relays", "deliverd.event_failures",
                         "dlq.dlq_messages", "deliverd.redrives"};
INSTANTIATE_TEST_SUITE_P(Postgres, EventsConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, EventShardsConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, EventReshardingConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, EventTableConformance, ::testing::Values(kEvents));
const DeadLettersKind kLetters{kPostgres, "dlq.dlq_messages", "dlq.dlq_counts", "dlq.dlq_audit", "deliverd.redrives"};
INSTANTIATE_TEST_SUITE_P(Postgres, DeadLettersConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Postgres, DeadLettersRetryConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Postgres, DeadLettersListingConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Postgres, DeadLettersUpkeepConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Postgres, LaneLettersConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, EventLettersConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, RedriveConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, ImportsConformance, ::testing::Values(kPostgres));
INSTANTIATE_TEST_SUITE_P(Postgres, UpkeepConformance,
                         ::testing::Values(UpkeepKind{kPostgres, "deliverd.leases", "deliverd.chores"}));
INSTANTIATE_TEST_SUITE_P(Postgres, LeaseConformance,
                         ::testing::Values(LeaseKind{kPostgres, true}, LeaseKind{kPostgres, false}),
                         [](const auto& info) { return info.param.client ? "Client" : "Store"; });
INSTANTIATE_TEST_SUITE_P(Postgres, DatabaseConformance,
                         ::testing::Values(EmptyDatabase{
                             "PostgreSQL", [] { return std::make_unique<postgres::PostgresTestStore>(false); },
                             "deliverd.migrations", &postgres_migrations}));

}  // namespace
}  // namespace deliverd::store::conformance
