#include "store/conformance/events.h"
#include "store/conformance/events_resharding.h"
#include "store/conformance/events_shards.h"
#include "store/conformance/events_table.h"
#include "store/postgres/testing/test_server.h"

namespace deliverd::store::conformance {
namespace {

const EventsKind kEvents{postgres::kPostgres,       "deliverd.shards",  "deliverd.relays",
                         "deliverd.event_failures", "dlq.dlq_messages", "deliverd.redrives"};
INSTANTIATE_TEST_SUITE_P(Postgres, EventsConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, EventShardsConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, EventReshardingConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, EventTableConformance, ::testing::Values(kEvents));

}  // namespace
}  // namespace deliverd::store::conformance
