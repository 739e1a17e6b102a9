#include "store/conformance/dead_letters.h"
#include "store/conformance/dead_letters_lanes.h"
#include "store/conformance/dead_letters_listing.h"
#include "store/conformance/dead_letters_retry.h"
#include "store/conformance/dead_letters_upkeep.h"
#include "store/conformance/event_letters.h"
#include "store/conformance/redrive.h"
#include "store/postgres/testing/test_server.h"

namespace deliverd::store::conformance {
namespace {

const DeadLettersKind kLetters{postgres::kPostgres, "dlq.dlq_messages", "dlq.dlq_counts", "dlq.dlq_audit",
                               "deliverd.redrives"};
INSTANTIATE_TEST_SUITE_P(Postgres, DeadLettersConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Postgres, DeadLettersRetryConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Postgres, DeadLettersListingConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Postgres, DeadLettersUpkeepConformance, ::testing::Values(kLetters));

const EventsKind kEvents{postgres::kPostgres,       "deliverd.shards",  "deliverd.relays",
                         "deliverd.event_failures", "dlq.dlq_messages", "deliverd.redrives"};
INSTANTIATE_TEST_SUITE_P(Postgres, LaneLettersConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, EventLettersConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Postgres, RedriveConformance, ::testing::Values(kEvents));

}  // namespace
}  // namespace deliverd::store::conformance
