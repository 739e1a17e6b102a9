#include "store/conformance/database.h"
#include "store/conformance/imports.h"
#include "store/conformance/upkeep.h"
#include "store/sqlite/testing/test_store.h"

namespace deliverd::store::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(Sqlite, ImportsConformance, ::testing::Values(sqlite::kSqlite));
INSTANTIATE_TEST_SUITE_P(Sqlite, UpkeepConformance,
                         ::testing::Values(UpkeepKind{sqlite::kSqlite, "deliverd_leases", "deliverd_chores"}));
INSTANTIATE_TEST_SUITE_P(Sqlite, DatabaseConformance,
                         ::testing::Values(EmptyDatabase{
                             "SQLite", [] { return std::make_unique<sqlite::SqliteTestStore>(false); },
                             "deliverd_migrations", &sqlite_migrations}));

}  // namespace
}  // namespace deliverd::store::conformance
