// Both real stores, for tests that run a lane on them.
#pragma once

#include <memory>
#include <vector>

#include "store/postgres/testing/test_server.h"
#include "store/sqlite/testing/test_store.h"

namespace deliverd {

inline std::vector<store::conformance::StoreKind> test_stores() {
    return {{"SQLite", [] { return std::make_unique<store::sqlite::SqliteTestStore>(true); }},
            {"PostgreSQL", [] { return std::make_unique<store::postgres::PostgresTestStore>(true); }}};
}

}  // namespace deliverd
