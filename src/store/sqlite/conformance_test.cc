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
#include "store/redrive_conformance.h"
#include "store/sqlite/test_store.h"
#include "store/upkeep_conformance.h"

namespace deliverd::store::conformance {
namespace {

const StoreKind kSqlite{"SQLite", [] { return std::make_unique<sqlite::SqliteTestStore>(true); }};

INSTANTIATE_TEST_SUITE_P(Sqlite, OutboxConformance, ::testing::Values(kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, OrdersConformance, ::testing::Values(kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, OrdersOutboxConformance, ::testing::Values(kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, OrdersHoldingConformance, ::testing::Values(kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, ImportsConformance, ::testing::Values(kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, UpkeepConformance,
                         ::testing::Values(UpkeepKind{kSqlite, "deliverd_leases", "deliverd_chores"}));
const EventsKind kEvents{kSqlite,        "deliverd_shards",  "deliverd_relays", "deliverd_event_failures",
                         "dlq_messages", "deliverd_redrives"};
INSTANTIATE_TEST_SUITE_P(Sqlite, EventsConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, EventShardsConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, EventReshardingConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, EventTableConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, LaneLettersConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, EventLettersConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, RedriveConformance, ::testing::Values(kEvents));
const DeadLettersKind kLetters{kSqlite, "dlq_messages", "dlq_counts", "dlq_audit", "deliverd_redrives"};
INSTANTIATE_TEST_SUITE_P(Sqlite, DeadLettersConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Sqlite, DeadLettersRetryConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Sqlite, DeadLettersListingConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Sqlite, DeadLettersUpkeepConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Sqlite, LeaseConformance,
                         ::testing::Values(LeaseKind{kSqlite, true}, LeaseKind{kSqlite, false}),
                         [](const auto& info) { return info.param.client ? "Client" : "Store"; });
INSTANTIATE_TEST_SUITE_P(Sqlite, DatabaseConformance,
                         ::testing::Values(EmptyDatabase{
                             "SQLite", [] { return std::make_unique<sqlite::SqliteTestStore>(false); },
                             "deliverd_migrations", &sqlite_migrations}));

}  // namespace
}  // namespace deliverd::store::conformance
