// The stream of a real PostgreSQL.
#include "wal/replication_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <thread>

#include "deliverd/error_codes.h"
#include "wal/testing/test_slot.h"

namespace deliverd::wal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using store::postgres::PlainConnection;
using store::postgres::wait_until;
using testing::ElementsAre;
using testing::HasSubstr;

/// Takes any message.
Result<void> ignore(const StreamMessage&) {
    return {};
}

class ReplicationStreamTest : public SlotTest {
protected:
    ReplicationStreamTest() { make_publication_and_slot(); }

    void insert(const std::string& aggregate) { run("insert into outbox (aggregate_id) values ('" + aggregate + "')"); }
    Error start_refused(const ReplicationSettings& settings, StreamStart start) {
        const auto begun = open(settings).value()->start(start, soon());
        return begun ? Error{} : begun.error();
    }
    /// The failure that ends the stream; none within the tests' patience is a failure of the test.
    static Error read_until_refused(ReplicationStream& stream) {
        const auto deadline = soon();
        while (std::chrono::steady_clock::now() < deadline) {
            const auto taken = stream.read(kPlenty, deadline, ignore);
            if (!taken) return taken.error();
        }
        return {};
    }
};

TEST_F(ReplicationStreamTest, TheServerSaysWhoItIs) {
    const auto identity = open(settings()).value()->identify(soon()).value();
    EXPECT_EQ(identity.system_identifier, value("select system_identifier from pg_control_system()"));
    EXPECT_EQ(identity.timeline, 1U);
    EXPECT_GT(identity.current, 0U);
    EXPECT_EQ(identity.database, value("select current_database()"));
}

TEST_F(ReplicationStreamTest, RowsArriveInTheOrderOfCommits) {
    PlainConnection other(database_.conninfo());
    other.column("begin; insert into outbox (aggregate_id) values ('early')");
    insert("a");
    other.column("insert into outbox (aggregate_id) values ('late')");
    insert("b");
    other.column("commit");
    run("begin; insert into outbox (aggregate_id) values ('gone'); rollback");
    run("begin; insert into outbox (aggregate_id) values ('unseen'); delete from outbox where aggregate_id = 'unseen';"
        " commit");
    const auto stream = started();
    StreamLines lines(*stream, reader_options());
    ASSERT_TRUE(lines.read(9));
    EXPECT_THAT(lines.lines(), ElementsAre("a", "/", "b", "/", "early", "late", "/", "unseen", "/"));
}

TEST_F(ReplicationStreamTest, LogicalMessagesArriveAmongTheRows) {
    const auto emit = [&](bool transactional, const std::string& prefix, const std::string& aggregate) {
        return "select pg_logical_emit_message(" + std::string(transactional ? "true" : "false") + ", '" + prefix +
               R"(', '{"aggregate_id":")" + aggregate + R"(","event_type":"T","payload":1}'))";
    };
    run("begin; " + emit(true, "deliverd.events", "in") + "; " + emit(false, "deliverd.events", "alone") + "; " +
        emit(true, "other", "other") + "; insert into outbox (aggregate_id) values ('row'); commit");
    run("begin; " + emit(true, "deliverd.events", "gone") + "; rollback");
    run("select pg_logical_emit_message(true, 'deliverd.events', 'no event')");
    const auto stream = started();
    StreamLines lines(*stream, reader_options());
    ASSERT_TRUE(lines.read(6));
    EXPECT_THAT(lines.lines(), ElementsAre("(alone)", "in", "row", "/", "!", "/"));
}

TEST_F(ReplicationStreamTest, AReaderResumesBehindWhatItConfirmed) {
    for (const char* aggregate : {"a", "b", "c"}) insert(aggregate);
    Lsn second = 0;
    {
        const auto stream = started();
        StreamLines lines(*stream, reader_options());
        ASSERT_TRUE(lines.read(6));
        second = lines.ends().at(1);
        ASSERT_TRUE(stream->status(second));
        ASSERT_TRUE(stream->status(lines.ends().at(0))) << "a position behind changes nothing";
        stream->close(seconds(10));
    }
    ASSERT_TRUE(wait_until([&] { return !active(); }));
    EXPECT_EQ(confirmed_by_server(), second);
    const auto stream = started();
    StreamLines lines(*stream, reader_options());
    ASSERT_TRUE(lines.read(2));
    EXPECT_THAT(lines.lines(), ElementsAre("c", "/"));
}

TEST_F(ReplicationStreamTest, AMessageThatStandsAloneIsConfirmedByItsPosition) {
    const std::string event = R"('{"aggregate_id":"a","event_type":"T","payload":1}')";
    run("select pg_logical_emit_message(false, 'deliverd.events', " + event + ")");
    insert("row");
    Lsn alone = 0;
    {
        const auto stream = started();
        StreamReader reader(reader_options());
        while (alone == 0) {
            ASSERT_TRUE(stream->read(kPlenty, soon(), [&](const StreamMessage& message) -> Result<void> {
                const auto item = reader.read(message);
                const auto* got = item ? std::get_if<StreamedEvent>(&*item) : nullptr;
                if (got != nullptr && got->place.stands_alone) alone = got->place.lsn;
                return {};
            }));
        }
        ASSERT_TRUE(stream->status(alone));
        stream->close(seconds(10));
    }
    ASSERT_TRUE(wait_until([&] { return !active(); }));
    EXPECT_EQ(confirmed_by_server(), alone);
    const auto stream = started();
    StreamLines lines(*stream, reader_options());
    ASSERT_TRUE(lines.read(2));
    EXPECT_THAT(lines.lines(), ElementsAre("row", "/")) << "neither repeated nor skipped";
}

TEST_F(ReplicationStreamTest, AStatusIsSentInTimeWhileNothingIsTaken) {
    // More than the sockets hold, so that the server waits for its reader, and keepalives are stuck behind it.
    run("insert into outbox (aggregate_id, payload) select i::text, to_jsonb(repeat('x', 1000))"
        " from generate_series(1, 20000) i");
    const auto stream = started(settings("options='-c wal_sender_timeout=1s'"));
    const auto deadline = std::chrono::steady_clock::now() + seconds(4);
    while (std::chrono::steady_clock::now() < deadline) {
        const auto taken = stream->read(0, deadline, ignore);
        ASSERT_TRUE(taken) << taken.error().message;
        ASSERT_EQ(taken->messages, 0U);
    }
    StreamLines lines(*stream, reader_options());
    const auto read = lines.read(20'001);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(lines.lines().size(), 20'001U);
}

TEST_F(ReplicationStreamTest, AnIdleStreamStaysAlive) {
    auto impatient = settings("options='-c wal_sender_timeout=1s'");
    impatient.silence_limit = seconds(1);
    const auto stream = started(impatient);
    const auto deadline = std::chrono::steady_clock::now() + seconds(4);
    while (std::chrono::steady_clock::now() < deadline) {
        const auto taken = stream->read(kPlenty, deadline, ignore);
        ASSERT_TRUE(taken) << taken.error().message;
    }
    insert("a");
    StreamLines lines(*stream, reader_options());
    ASSERT_TRUE(lines.read(2));
}

TEST_F(ReplicationStreamTest, AServerThatSaysNothingCountsAsLost) {
    auto impatient = settings("options='-c wal_sender_timeout=1s'");
    impatient.silence_limit = seconds(1);
    const auto stream = started(impatient);
    const pid_t sender =
        std::stoi(value("select active_pid from pg_replication_slots where slot_name = '" + slot_ + "'"));
    ASSERT_EQ(::kill(sender, SIGSTOP), 0);
    const Error error = read_until_refused(*stream);
    ::kill(sender, SIGCONT);
    EXPECT_EQ(error.code, codes::kDbUnreachable) << error.message;
    EXPECT_EQ(error.error_class, ErrorClass::retryable);
    EXPECT_THAT(error.message, HasSubstr("the server has said nothing for "));
}

/// AddressSanitizer keeps what was freed, up to 256 MB.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DELIVERD_KEEPS_FREED
#endif
#endif
#ifdef DELIVERD_KEEPS_FREED
constexpr std::size_t kMemoryGrowth = 400UL << 20;
#else
constexpr std::size_t kMemoryGrowth = 8UL << 20;
#endif

std::size_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    file >> total >> resident;
    return resident * 4096;
}

TEST_F(ReplicationStreamTest, ALargeTransactionNeedsNoMemory) {
    run("insert into outbox (aggregate_id, payload) select i::text, to_jsonb(repeat('x', 500))"
        " from generate_series(1, 100000) i");
    const auto stream = started();
    StreamReader reader(reader_options());
    std::size_t events = 0;
    std::size_t before = 0;
    bool ended = false;
    while (!ended) {
        const auto taken = stream->read(64UL * 1024, soon(), [&](const StreamMessage& message) -> Result<void> {
            const auto item = reader.read(message).value();
            if (const auto* event = std::get_if<StreamedEvent>(&item)) {
                EXPECT_EQ(event->place.ordinal, events);
                ++events;
            }
            if (const auto* end = std::get_if<TransactionEnd>(&item)) ended = end->items > 0;
            return {};
        });
        ASSERT_TRUE(taken) << taken.error().message;
        ASSERT_LT(taken->bytes, 66UL * 1024);
        if (before == 0) before = resident_bytes();
    }
    EXPECT_EQ(events, 100'000U);
    EXPECT_LT(resident_bytes(), before + kMemoryGrowth) << "50 MB went through";
}

TEST_F(ReplicationStreamTest, ABudgetIsKeptAndTheRestIsThereLater) {
    for (const char* aggregate : {"a", "b"}) insert(aggregate);
    const auto stream = started();
    std::size_t changes = 0;
    while (changes < 7) {  // two transactions, and the table's description once
        const auto taken = stream->read(1, soon(), [&](const StreamMessage& message) -> Result<void> {
            changes += std::holds_alternative<LogData>(message) ? 1 : 0;
            return {};
        });
        ASSERT_TRUE(taken);
        ASSERT_EQ(taken->messages, 1U);
        ASSERT_TRUE(taken->more);
    }
}

TEST_F(ReplicationStreamTest, AFailureOfTheTakerIsAnswered) {
    insert("a");
    const auto stream = started();
    std::size_t calls = 0;
    const auto taken = stream->read(kPlenty, soon(), [&](const StreamMessage&) -> Result<void> {
        ++calls;
        return permanent("mine", "no more");
    });
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, "mine");
    EXPECT_EQ(calls, 1U);
    EXPECT_TRUE(stream->read(kPlenty, soon(), ignore)) << "the connection is still there";
}

TEST_F(ReplicationStreamTest, AWaitIsEndedByTheWakerOrTheLimit) {
    const auto stream = started();
    for (const std::size_t budget : {kPlenty, std::size_t{0}}) {
        // What the server says by itself ends a wait too.
        while (true) {
            std::jthread waking([&] { waker_.wake(); });
            const auto taken = stream->read(budget, soon() + std::chrono::hours(1), ignore);
            ASSERT_TRUE(taken);
            if (taken->messages == 0) break;
        }
    }
    std::jthread stopping([&] { limit_.set(Duration::zero()); });
    while (!limit_.passed()) ASSERT_TRUE(stream->read(kPlenty, soon() + std::chrono::hours(1), ignore));
}

TEST_F(ReplicationStreamTest, ACloseIsQuickAlsoBeforeALargeTransaction) {
    run("insert into outbox (aggregate_id, payload) select i::text, to_jsonb(repeat('x', 1000))"
        " from generate_series(1, 50000) i");
    const auto stream = started();
    ASSERT_TRUE(stream->read(1, soon(), ignore));
    const auto began = std::chrono::steady_clock::now();
    stream->close(milliseconds(200));
    EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(10));
    EXPECT_TRUE(wait_until([&] { return !active(); }));
}

TEST_F(ReplicationStreamTest, ALostConnectionIsRetryable) {
    const auto stream = started();
    run("select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = '" + slot_ + "'");
    const Error error = read_until_refused(*stream);
    EXPECT_EQ(error.code, codes::kDbUnreachable) << error.message;
    EXPECT_EQ(error.error_class, ErrorClass::retryable);
    EXPECT_THAT(error.message, HasSubstr("terminating connection due to administrator command"));
}

TEST_F(ReplicationStreamTest, ASlotThatIsMissingHasItsCode) {
    const Error error = start_refused(settings(), {.slot = "no_such_slot", .publications = {"events"}});
    EXPECT_EQ(error.code, kSlotMissing);
    EXPECT_EQ(error.error_class, ErrorClass::permanent);
    EXPECT_THAT(error.message, HasSubstr("run `deliverd migrate`"));
}

TEST_F(ReplicationStreamTest, ASlotHasOneReader) {
    auto first = started();
    const auto second = open(settings()).value();
    const StreamStart start{.slot = slot_, .publications = {"events"}};
    const auto refused = second->start(start, soon());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, kSlotInUse);
    EXPECT_EQ(refused.error().error_class, ErrorClass::retryable);
    first.reset();
    ASSERT_TRUE(wait_until([&] { return !active(); }));
    const auto begun = second->start(start, soon());
    EXPECT_TRUE(begun) << begun.error().message;
}

TEST_F(ReplicationStreamTest, ASlotOfAnotherKindHasItsCode) {
    run("select pg_create_logical_replication_slot('other_' || '" + slot_ + "', 'test_decoding')");
    const Error plugin = start_refused(settings(), {.slot = "other_" + slot_, .publications = {"events"}});
    EXPECT_EQ(plugin.code, kSlotForeign) << plugin.message;
    EXPECT_THAT(plugin.message, HasSubstr("test_decoding"));
    const store::postgres::TestDatabase elsewhere;
    const Error database =
        start_refused({.conninfo = elsewhere.conninfo()}, {.slot = slot_, .publications = {"events"}});
    EXPECT_EQ(database.code, kSlotForeign) << database.message;
    EXPECT_THAT(database.message, HasSubstr(value("select current_database()")));
}

TEST_F(ReplicationStreamTest, APublicationThatIsMissingShowsAtTheFirstChange) {
    run("create publication \"odd '\"\"\\, name\" for table outbox");
    insert("a");
    auto stream = open(settings()).value();
    ASSERT_TRUE(stream->start({.slot = slot_, .publications = {"events", "nobody's"}}, soon()));
    const Error error = read_until_refused(*stream);
    EXPECT_EQ(error.code, kPublicationMissing) << error.message;
    EXPECT_EQ(error.error_class, ErrorClass::permanent);
    EXPECT_THAT(error.message, HasSubstr("nobody's"));
}

TEST_F(ReplicationStreamTest, APublicationMayHaveAnyName) {
    run("create publication \"odd '\"\"\\, name\" for table outbox");
    run("select pg_drop_replication_slot('" + slot_ + "')");  // it saw nothing of the new publication
    run("select pg_create_logical_replication_slot('" + slot_ + "', 'pgoutput')");
    insert("a");
    auto stream = open(settings()).value();
    ASSERT_TRUE(stream->start({.slot = slot_, .publications = {"odd '\"\\, name"}}, soon()));
    StreamLines lines(*stream, reader_options());
    const auto read = lines.read(2);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_THAT(lines.lines(), ElementsAre("a", "/"));
}

TEST_F(ReplicationStreamTest, WhatCannotBeStartedIsRefusedBeforeItIsSent) {
    EXPECT_EQ(start_refused(settings(), {.slot = "Slot\"", .publications = {"events"}}).code, codes::kBadArgument);
    EXPECT_EQ(start_refused(settings(), {.slot = slot_, .publications = {}}).code, codes::kBadArgument);
}

TEST_F(ReplicationStreamTest, ARoleThatMayNotReplicateHasItsCode) {
    const std::string role = "plain_" + slot_;
    run("create role " + role + " login");
    const auto stream = open(settings("user=" + role));
    run("drop role " + role);
    ASSERT_FALSE(stream);
    EXPECT_EQ(stream.error().code, kReplicationDenied) << stream.error().message;
    EXPECT_EQ(stream.error().error_class, ErrorClass::permanent);
    EXPECT_THAT(stream.error().message, HasSubstr("alter role NAME replication"));
}

TEST_F(ReplicationStreamTest, AServerThatIsNotThereIsUnreachable) {
    const auto stream = open(settings("host=127.0.0.1 port=1"));
    ASSERT_FALSE(stream);
    EXPECT_EQ(stream.error().code, codes::kDbUnreachable);
}

TEST_F(ReplicationStreamTest, ValuesHaveTheSameFormatsWhateverTheRoleHasSet) {
    run("alter table outbox add column created_at timestamptz");
    run("alter table outbox alter column payload drop default");
    run("alter table outbox alter column payload type bytea using '\\x00ff'");
    run("alter database " + value("select current_database()") + " set timezone = 'Asia/Tokyo'; alter database " +
        value("select current_database()") + " set datestyle = 'SQL, DMY'; alter database " +
        value("select current_database()") + " set bytea_output = 'escape'");
    run("insert into outbox (aggregate_id, payload, created_at) values ('a', '\\x00ff', '2026-02-20 10:30:00.5+01')");
    const auto stream = started();
    StreamReader reader(reader_options());
    bool found = false;
    while (!found) {
        ASSERT_TRUE(stream->read(kPlenty, soon(), [&](const StreamMessage& message) -> Result<void> {
            const auto item = reader.read(message).value();
            const auto* event = std::get_if<StreamedEvent>(&item);
            if (event == nullptr) return {};
            found = true;
            EXPECT_EQ(event->created_at, "2026-02-20T09:30:00.500000Z");
            EXPECT_EQ(event->payload, std::string_view("\0\xff", 2));
            return {};
        }));
    }
}

}  // namespace
}  // namespace deliverd::wal
