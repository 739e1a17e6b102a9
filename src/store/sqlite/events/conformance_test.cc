#include "store/conformance/events.h"
#include "store/conformance/events_resharding.h"
#include "store/conformance/events_shards.h"
#include "store/conformance/events_table.h"
#include "store/sqlite/testing/test_store.h"

namespace deliverd::store::conformance {
namespace {

const EventsKind kEvents{sqlite::kSqlite,           "deliverd_shards", "deliverd_relays",
                         "deliverd_event_failures", "dlq_messages",    "deliverd_redrives"};
INSTANTIATE_TEST_SUITE_P(Sqlite, EventsConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, EventShardsConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, EventReshardingConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, EventTableConformance, ::testing::Values(kEvents));

}  // namespace
}  // namespace deliverd::store::conformance
