#include "store/conformance/database.h"
#include "store/conformance/imports.h"
#include "store/conformance/upkeep.h"
#include "store/postgres/testing/test_server.h"

namespace deliverd::store::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(Postgres, ImportsConformance, ::testing::Values(postgres::kPostgres));
INSTANTIATE_TEST_SUITE_P(Postgres, UpkeepConformance,
                         ::testing::Values(UpkeepKind{postgres::kPostgres, "deliverd.leases", "deliverd.chores"}));
INSTANTIATE_TEST_SUITE_P(Postgres, DatabaseConformance,
                         ::testing::Values(EmptyDatabase{
                             "PostgreSQL", [] { return std::make_unique<postgres::PostgresTestStore>(false); },
                             "deliverd.migrations", &postgres_migrations}));

}  // namespace
}  // namespace deliverd::store::conformance
