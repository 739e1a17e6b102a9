// Files that cannot be used, and another process that holds one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <latch>
#include <thread>
#include <vector>

#include "client/sqlite_statement.h"
#include "store/conformance/test_store.h"
#include "store/sqlite/file/file.h"
#include "store/sqlite/letters/dead_letters.h"
#include "store/sqlite/sqlite.h"
#include "store/sqlite/testing/test_folder.h"

namespace deliverd::store::sqlite {
namespace {

using conformance::must;
using std::chrono::milliseconds;
using std::chrono::seconds;

class SqliteFaults : public ::testing::Test {
protected:
    std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
    void expect_cannot_open(const std::string& file, const std::string& advice) {
        const auto database = open_sqlite({.path = file}, log_);
        ASSERT_FALSE(database);
        EXPECT_EQ(database.error().error_class, ErrorClass::permanent);
        EXPECT_THAT(database.error().message, ::testing::HasSubstr(file));
        EXPECT_THAT(database.error().message, ::testing::HasSubstr(advice));
    }

    TestFolder folder_;
    NullLog log_;
};

TEST_F(SqliteFaults, AFolderThatIsNotThere) {
    expect_cannot_open(path("no/such/folder.db"), "folder must exist");
}

TEST_F(SqliteFaults, AFolderInPlaceOfAFile) {
    expect_cannot_open(folder_.path().string(), "writable");
}

TEST_F(SqliteFaults, AFileThatIsNoDatabase) {
    std::ofstream(path("note.txt")) << std::string(4096, 'x');
    expect_cannot_open(path("note.txt"), "not a SQLite database");
}

/// A user without the right to write, which a test run as root cannot be: a file system that says so can.
TEST_F(SqliteFaults, AFileThatCannotBeWritten) {
    expect_cannot_open("/proc/version", "");
    expect_cannot_open("/proc/deliverd.db", "writable");
}

/// Payloads are nobody else's to read, whatever the umask.
TEST_F(SqliteFaults, ANewFileIsOnlyItsOwners) {
    const mode_t before = ::umask(0);
    const auto database = must(open_sqlite({.path = path("new.db")}, log_));
    must(database->migrate(false));
    ::umask(before);
    for (const char* file : {"new.db", "new.db-wal", "new.db-shm"}) {
        EXPECT_EQ(std::filesystem::status(path(file)).permissions(), std::filesystem::perms(0600)) << file;
    }
    const auto permissions = [&] {
        for (const Finding& finding : must(database->inspect())) {
            if (finding.check == "permissions") return finding;
        }
        return Finding{};
    };
    EXPECT_TRUE(permissions().ok) << permissions().message;
    std::filesystem::permissions(path("new.db-wal"), std::filesystem::perms(0644));
    EXPECT_FALSE(permissions().ok);
    EXPECT_THAT(permissions().message, ::testing::HasSubstr("chmod o= " + path("new.db-wal")));
}

/// A search for text or for a key reads every letter: nobody else waits for it.
TEST_F(SqliteFaults, ASearchHoldsUpNoOtherRead) {
    must(must(open_sqlite({.path = path("db")}, log_))->migrate(false));
    std::array<LetterQuery, 2> searches;
    searches[0].text = "x";
    searches[1].key = "x";
    {
        const auto file = must(File::open(path("db"), milliseconds(200)));
        const auto letters = make_dead_letters(*file);
        const auto reading = must(file->reader());
        for (const LetterQuery& search : searches) {
            EXPECT_TRUE(letters->list(search)) << "it has a connection of its own";
        }
        EXPECT_EQ(letters->list({}).error().code, "db_timeout");
    }
    const auto file = must(File::open(path("db"), milliseconds(200)));
    const auto letters = make_dead_letters(*file);
    const auto searching = must(file->searcher());
    EXPECT_TRUE(letters->list({}));
    EXPECT_TRUE(letters->topics());
    for (const LetterQuery& search : searches) {
        EXPECT_EQ(letters->list(search).error().code, "db_timeout") << "of searches there is one at a time";
    }
}

TEST_F(SqliteFaults, AMemoryDatabaseIsRefused) {
    const auto database = open_sqlite({.path = ":memory:"}, log_);
    ASSERT_FALSE(database);
    EXPECT_EQ(database.error().code, "bad_argument");
}

TEST_F(SqliteFaults, AFileHeldByAnotherProcessIsATimeout) {
    const auto database = must(open_sqlite({.path = path("busy.db"), .busy_timeout = milliseconds(20)}, log_));
    must(database->migrate(false));
    const auto lease = must(database->lease(std::nullopt));
    const std::int64_t id = must(lease->enqueue_memory("s", "p", std::nullopt));
    const auto outbox = database->memory_outbox("memory");

    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(path("busy.db").c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, "begin immediate", nullptr, nullptr, nullptr), SQLITE_OK);
    const auto claimed = outbox->claim({"w", 1, seconds(60), std::nullopt});
    ASSERT_FALSE(claimed);
    EXPECT_EQ(claimed.error().code, "db_timeout");
    EXPECT_EQ(claimed.error().error_class, ErrorClass::retryable);
    EXPECT_FALSE(lease->enqueue_memory("s", "q", std::nullopt));
    EXPECT_TRUE(outbox->counts()) << "readers go on beside a writer";
    ASSERT_EQ(sqlite3_exec(other, "rollback", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(other);

    EXPECT_EQ(must(outbox->claim({"w", 1, seconds(60), std::nullopt})).rows.at(0).message.id, id);
}

/// The busy timeout is an hour: waits that are not cut never end.
TEST_F(SqliteFaults, WaitsAreCutWhenTheProgramStops) {
    const auto database = must(open_sqlite({.path = path("stop.db"), .busy_timeout = std::chrono::hours(1)}, log_));
    must(database->migrate(false));
    const auto outbox = database->memory_outbox("memory");
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(path("stop.db").c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other, "begin immediate", nullptr, nullptr, nullptr), SQLITE_OK);
    // One waits for the file, the other for the first one's connection.
    std::vector<Result<ClaimBatch>> answers(2, permanent("", "not run"));
    std::latch started(3);
    std::vector<std::thread> threads;
    for (auto& answer : answers) {
        threads.emplace_back([&] {
            started.arrive_and_wait();
            answer = outbox->claim({"w", 1, seconds(60), std::nullopt});
        });
    }
    started.arrive_and_wait();
    database->limit_waits(milliseconds(50));
    for (std::thread& thread : threads) thread.join();
    for (const auto& answer : answers) {
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.error().code, "db_timeout");
        EXPECT_EQ(answer.error().error_class, ErrorClass::retryable);
    }
    ASSERT_EQ(sqlite3_exec(other, "rollback", nullptr, nullptr, nullptr), SQLITE_OK);
    sqlite3_close(other);
    EXPECT_TRUE(outbox->claim({"w", 1, seconds(60), std::nullopt})) << "what need not wait still works";
}

/// SQLite's own limit on the pages of a file stands for the disk's: it fails the same way.
TEST_F(SqliteFaults, AFullDiskIsSaidAndLeavesTheRowsAsTheyWere) {
    const auto database = must(open_sqlite({.path = path("full.db")}, log_));
    must(database->migrate(false));
    sqlite3* own = nullptr;
    ASSERT_EQ(sqlite3_open(path("full.db").c_str(), &own), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(own, "pragma max_page_count = 1", nullptr, nullptr, nullptr), SQLITE_OK);
    const auto refused = lease_on(own)->enqueue_memory("s", std::string(100'000, 'x'), std::nullopt);
    sqlite3_close(own);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "db_error");
    EXPECT_EQ(refused.error().error_class, ErrorClass::retryable);
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr("make room on the disk"));
    EXPECT_EQ(must(database->memory_outbox("memory")->counts()).pending, 0);
}

/// What another writer put into the table past the client library cannot be sent as it is, so it is not sent at all.
TEST_F(SqliteFaults, BytesThatAreNoTextAreGivenUpInTheClaim) {
    const auto database = must(open_sqlite({.path = path("foreign.db")}, log_));
    must(database->migrate(false));
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(path("foreign.db").c_str(), &other), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(other,
                           "insert into outbox_memory (target_space, payload_md, payload_sha, retry_count) values"
                           " ('s', 'good', 'a', 0), ('s', cast(x'61ff62' as text), 'b', 2),"
                           " (cast(x'e9' as text), 'p', 'c', 0), ('s', 'p', cast(x'e9' as text), 0),"
                           " ('s', cast(x'610062' as text), 'e', 0)",
                           nullptr, nullptr, nullptr),
              SQLITE_OK);
    sqlite3_close(other);
    const auto outbox = database->memory_outbox("memory");
    const auto batch = must(outbox->claim({"w", 10, seconds(60), std::nullopt}));
    ASSERT_EQ(batch.rows.size(), 2U);
    EXPECT_EQ(batch.rows[0].message.id, 1);
    EXPECT_EQ(batch.rows[1].message.id, 5) << "a NUL byte is text, if odd";
    EXPECT_THAT(batch.rows[1].message.body, ::testing::HasSubstr(R"("payload_md":"a\u0000b")"));

    const auto lease = must(database->lease(std::nullopt));
    const MemoryRow dead = must(lease->show(2)).value();
    EXPECT_EQ(dead.status, "dead");
    EXPECT_EQ(dead.retry_count, 2) << "nothing was tried";
    EXPECT_FALSE(dead.locked_by);
    EXPECT_THAT(dead.last_error.value(), ::testing::StartsWith("payload_md is not valid UTF-8 at offset 1"));
    EXPECT_THAT(must(lease->show(3)).value().last_error.value(), ::testing::StartsWith("target_space is not valid"));
    EXPECT_THAT(must(lease->show(4)).value().last_error.value(), ::testing::StartsWith("payload_sha is not valid"));
    EXPECT_EQ(must(outbox->counts()).dead, 3);
    ASSERT_EQ(sqlite3_open(path("foreign.db").c_str(), &other), SQLITE_OK);
    {
        auto audit = must(client::SqliteStatement::prepare(
            other,
            "select count(*) from outbox_audit where reason = 'outbox_flush_dead' and status_from = 'pending'"
            " and status_to = 'dead' and worker = 'w' and outbox_id in (2, 3, 4)"));
        EXPECT_EQ(must(audit.one([](const auto& row) { return row.template get<int>(); })), 3);
    }
    sqlite3_close(other);
}

}  // namespace
}  // namespace deliverd::store::sqlite
