// Every fixed statement fits the migrated schema: SQLite finds its tables, columns and indexes.
#include "client/statements.h"

#include <gtest/gtest.h>

#include "store/conformance/test_store.h"
#include "store/sqlite/events/statements.h"
#include "store/sqlite/file/file.h"
#include "store/sqlite/letters/statements.h"
#include "store/sqlite/queues/statements.h"
#include "store/sqlite/statements.h"
#include "store/sqlite/testing/test_store.h"

namespace deliverd::store::sqlite {
namespace {

using conformance::must;

template <typename Statements>
void expect_prepared(sqlite3* connection, const Statements& statements) {
    for (const auto& [name, text] : statements) {
        if (name.find("postgres") != std::string_view::npos) continue;
        if (text.find('{') != std::string_view::npos) continue;  // a part of it is still to be filled in
        const auto prepared = SqliteStatement::prepare(connection, text);
        EXPECT_TRUE(prepared) << name << ": " << prepared.error().message;
    }
}

TEST(SqliteStatements, FitTheSchema) {
    SqliteTestStore store(true);
    const auto file = must(
        File::open(store.value("select file from pragma_database_list where name = 'main'"), std::chrono::seconds(5)));
    const auto handle = must(file->reader());
    expect_prepared(handle->raw(), client::sql::all);
    expect_prepared(handle->raw(), sql::all);
    expect_prepared(handle->raw(), events::sql::all);
    expect_prepared(handle->raw(), letters::sql::all);
    expect_prepared(handle->raw(), queues::sql::all);
}

}  // namespace
}  // namespace deliverd::store::sqlite
