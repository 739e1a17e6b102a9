#include "store/conformance/dead_letters.h"
#include "store/conformance/dead_letters_lanes.h"
#include "store/conformance/dead_letters_listing.h"
#include "store/conformance/dead_letters_retry.h"
#include "store/conformance/dead_letters_upkeep.h"
#include "store/conformance/event_letters.h"
#include "store/conformance/redrive.h"
#include "store/sqlite/testing/test_store.h"

namespace deliverd::store::conformance {
namespace {

const DeadLettersKind kLetters{sqlite::kSqlite, "dlq_messages", "dlq_counts", "dlq_audit", "deliverd_redrives"};
INSTANTIATE_TEST_SUITE_P(Sqlite, DeadLettersConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Sqlite, DeadLettersRetryConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Sqlite, DeadLettersListingConformance, ::testing::Values(kLetters));
INSTANTIATE_TEST_SUITE_P(Sqlite, DeadLettersUpkeepConformance, ::testing::Values(kLetters));

const EventsKind kEvents{sqlite::kSqlite,           "deliverd_shards", "deliverd_relays",
                         "deliverd_event_failures", "dlq_messages",    "deliverd_redrives"};
INSTANTIATE_TEST_SUITE_P(Sqlite, LaneLettersConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, EventLettersConformance, ::testing::Values(kEvents));
INSTANTIATE_TEST_SUITE_P(Sqlite, RedriveConformance, ::testing::Values(kEvents));

}  // namespace
}  // namespace deliverd::store::conformance
