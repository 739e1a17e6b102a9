// The ingest over a topic and a store in memory that fail when they are told to.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

#include "deadletter/ingest.h"
#include "deadletter/testing/fake_letters.h"
#include "deadletter/testing/fake_source.h"
#include "deadletter/testing/fakes.h"

namespace deliverd::deadletter {

class IngestCounts final : public IngestObserver {
public:
    void on_stored(std::size_t fresh, std::size_t duplicates, Duration) override {
        ++batches;
        ingested += fresh;
        repeated += duplicates;
    }
    void on_store_failed(ErrorClass) override { ++failed; }
    void on_truncated(std::size_t records) override { truncated += records; }
    void on_reduced() override { ++reduced; }
    void on_paused(bool yes) override { yes ? ++pauses : ++resumes; }
    void on_lag(std::int64_t records) override { lag = records; }
    void on_reachable(bool yes) override { reachable = yes; }
    void on_failed() override { ++failures; }
    void on_committed(bool yes) override { yes ? ++commits : ++failed_commits; }

    std::size_t batches = 0;
    std::size_t ingested = 0;
    std::size_t repeated = 0;
    std::size_t failed = 0;
    std::size_t truncated = 0;
    int reduced = 0;
    int pauses = 0;
    int resumes = 0;
    int failures = 0;
    int commits = 0;
    int failed_commits = 0;
    std::int64_t lag = -1;
    std::optional<bool> reachable;
};

class IngestTest : public testing::Test {
protected:
    static Record record(int offset, std::string value = "{\"n\":1}") {
        Record record;
        record.topic = "orders.dlq.v1";
        record.offset = offset;
        record.key = "k" + std::to_string(offset);
        record.value = std::move(value);
        record.headers = {{"error", "boom " + std::to_string(offset)}};
        record.timestamp_ms = 1'000 + offset;
        record.timestamp_type = RecordTime::created;
        return record;
    }
    void fill(int count) {
        for (int i = 0; i < count; ++i) source.topic.push_back(record(i));
    }
    /// A fresh process: the group's offsets and the store stay.
    Ingest& restarted() {
        source.rebalance();
        if (source.paused()) source.resume();
        return ingest.emplace(options, source, letters, clock, random, counts, log);
    }
    /// Steps until all is stored and committed.
    bool drained(int steps = 2'000) {
        for (int i = 0; i < steps; ++i) {
            if (source.committed() == source.topic.size() && !source.paused()) return true;
            if (!ingest->step()) return false;
        }
        return false;
    }
    void all_stored_once() {
        const auto stored = letters.stored();
        std::set<std::int64_t> offsets;
        for (const store::NewLetter& letter : stored) offsets.insert(letter.record.offset);
        EXPECT_EQ(stored.size(), source.topic.size());
        EXPECT_EQ(offsets.size(), source.topic.size());
    }

    HandClock clock;
    SeededRandom random{7};
    FakeSource source{clock};
    FakeLetters letters;
    RecordingLog log;
    IngestCounts counts;
    IngestOptions options;
    std::optional<Ingest> ingest{std::in_place, options, source, letters, clock, random, counts, log};
};

}  // namespace deliverd::deadletter
