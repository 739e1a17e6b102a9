// For tests: a database with an outbox, its publication and a slot. Only tests include this.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "store/postgres/testing/test_server.h"
#include "store/wait_limit.h"
#include "wal/replication_stream.h"
#include "wal/slot_care.h"
#include "wal/stream_reader.h"

namespace deliverd::wal {

inline constexpr std::size_t kPlenty = 1UL << 20;

inline Deadline soon() {
    return std::chrono::steady_clock::now() + store::postgres::kPatience;
}

class SlotTest : public testing::Test {
protected:
    SlotTest() : plain_(database_.conninfo()) {
        // Slots belong to the whole server: their name must be as unique as the database's.
        slot_ = "slot_" + value("select oid from pg_database where datname = current_database()");
        run("create table outbox (id bigserial primary key, aggregate_id text not null, event_type text not null"
            " default 'T', payload jsonb not null default '{}')");
    }
    void TearDown() override {
        const bool dropped = store::postgres::wait_until([&] {
            run("select pg_terminate_backend(active_pid) from pg_replication_slots"
                " where database = current_database() and active");
            run("select pg_drop_replication_slot(slot_name) from pg_replication_slots"
                " where database = current_database() and not active");
            return value("select 1 from pg_replication_slots where database = current_database()").empty();
        });
        EXPECT_TRUE(dropped);
    }

    void make_publication_and_slot() {
        run("create publication events for table outbox");
        run("select pg_create_logical_replication_slot('" + slot_ + "', 'pgoutput')");
    }

    void run(const std::string& sql) { plain_.column(sql); }
    std::string value(const std::string& sql) {
        const auto values = plain_.column(sql);
        return values.empty() ? "" : values.front();
    }
    Lsn confirmed_by_server() {
        return parse_lsn(
                   value("select confirmed_flush_lsn from pg_replication_slots where slot_name = '" + slot_ + "'"))
            .value_or(0);
    }
    bool active() { return value("select active from pg_replication_slots where slot_name = '" + slot_ + "'") == "t"; }

    [[nodiscard]] ReplicationSettings settings(const std::string& more = "") const {
        return {.conninfo = database_.conninfo() + " " + more};
    }
    Result<std::unique_ptr<ReplicationStream>> open(const ReplicationSettings& settings) {
        return ReplicationStream::open(settings, soon(), limit_, waker_);
    }
    /// Fails the test where it cannot be started.
    std::unique_ptr<ReplicationStream> started(const ReplicationSettings& settings, Lsn from = 0) {
        auto stream = open(settings).value();
        const auto begun = stream->start({.slot = slot_, .publications = {"events"}, .from = from}, soon());
        if (!begun) throw std::runtime_error(begun.error().message);
        return stream;
    }
    std::unique_ptr<ReplicationStream> started() { return started(settings()); }

    [[nodiscard]] static StreamReaderOptions reader_options() {
        StreamReaderOptions options;
        options.tables = {{"public", "outbox"}};
        options.message_prefix = "deliverd.events";
        options.system_identifier = "7";
        return options;
    }

    store::postgres::TestDatabase database_;
    store::postgres::PlainConnection plain_;
    std::string slot_;
    store::WaitLimit limit_;
    Waker waker_;
};

/// Reads a stream and keeps what it read, as lines: "A" for an event of aggregate A, "(A)" for one that stands alone,
/// "/" for the end of a transaction with events, "!" for a malformed message.
class StreamLines {
public:
    StreamLines(ReplicationStream& stream, StreamReaderOptions options)
        : stream_(stream), reader_(std::move(options)) {}

    /// Reads until there are so many lines, or until the first failure, which it answers.
    Result<void> read(std::size_t count) {
        const auto deadline = soon();
        while (lines_.size() < count && std::chrono::steady_clock::now() < deadline) {
            const auto taken = stream_.read(kPlenty, deadline, [&](const StreamMessage& message) -> Result<void> {
                auto item = reader_.read(message);
                if (!item) return Failure(item.error());
                note(*item);
                return {};
            });
            if (!taken) return Failure(taken.error());
        }
        return {};
    }
    [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
    /// Of the transactions in lines().
    [[nodiscard]] const std::vector<Lsn>& ends() const { return ends_; }

private:
    void note(const StreamItem& item) {
        if (const auto* event = std::get_if<StreamedEvent>(&item)) {
            const std::string name(event->aggregate_id);
            lines_.push_back(event->place.stands_alone ? "(" + name + ")" : name);
        }
        if (const auto* end = std::get_if<TransactionEnd>(&item); end != nullptr && end->items > 0) {
            lines_.emplace_back("/");
            ends_.push_back(end->end_lsn);
        }
        if (std::holds_alternative<MalformedMessage>(item)) lines_.emplace_back("!");
    }

    ReplicationStream& stream_;
    StreamReader reader_;
    std::vector<std::string> lines_;
    std::vector<Lsn> ends_;
};

}  // namespace deliverd::wal
