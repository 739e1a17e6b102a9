// A RelayCore on events in memory, driven by hand.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>

#include "pipeline/testing/fakes.h"
#include "relay/relay_core.h"
#include "relay/testing/fake_events.h"

namespace deliverd::relay {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Drives a core by hand, on a table in memory that does not change between the calls.
class RelayCoreTest : public ::testing::Test {
protected:
    explicit RelayCoreTest(bool typed = false) : typed_(typed) { make(RelayOptions{}); }

    void make(RelayOptions options) {
        options.worker_id = "r";
        options.topic = *TopicTemplate::parse("t.{event_type}");
        options.retry.jitter = 0;
        core_.emplace(options, 1, observer_, log_);
    }
    void tend(std::vector<store::ShardLease> held, std::int32_t share) {
        core_->tended(now_, now_, store::ShardShare{std::move(held), 1, share});
    }
    /// Takes what the table gives, as one poll.
    void poll() {
        now_ += std::chrono::seconds(1);
        std::optional<store::EventRead> request = core_->begin_poll(now_);
        ASSERT_TRUE(request.has_value());
        core_->end_poll(now_, now_, table_.read(*request));
    }
    /// A poll that brings these, whatever the table has; answers what it asked for.
    store::EventRead poll(store::EventBatch batch) {
        now_ += std::chrono::seconds(1);
        std::optional<store::EventRead> request = core_->begin_poll(now_);
        EXPECT_TRUE(request.has_value());
        if (!request) return {};
        core_->end_poll(now_, now_, std::move(batch));
        return std::move(*request);
    }
    /// A row of shard 0 for such a poll.
    static store::EventRow row(std::int64_t id, const std::string& aggregate, store::EventOrigin origin,
                               std::int32_t failures = 0) {
        store::EventRow row;
        row.row_id = std::to_string(id);
        row.sequence = id;
        row.origin = origin;
        row.message.id = id;
        row.message.key = aggregate;
        row.message.type = "Happened";
        row.message.failures = failures;
        return row;
    }
    static store::EventBatch batch_of(std::vector<store::EventRow> rows) {
        store::EventBatch batch;
        batch.rows = std::move(rows);
        return batch;
    }
    std::vector<std::int64_t> send() {
        core_->send(now_, batch_);
        std::vector<std::int64_t> ids;
        for (const Message* message : batch_) {
            ids.push_back(message->id);
            messages_[message->id] = message;
        }
        return ids;
    }
    void answer(std::int64_t id, Outcome outcome) {
        Answer answer{messages_.at(id), std::move(outcome), now_};
        core_->outcomes(now_, {&answer, 1});
    }
    void settle() {
        now_ += std::chrono::seconds(1);
        const auto settlements = core_->begin_settle(now_);
        core_->end_settle(now_, table_.settle("r", settlements));
    }
    /// A settle of which the store says this of every row, whatever the table has.
    void settle_as(store::EventSettled answer, Duration wait = std::chrono::seconds(1)) {
        now_ += wait;
        const auto settlements = core_->begin_settle(now_);
        EXPECT_FALSE(settlements.empty());
        if (!settlements.empty()) core_->end_settle(now_, std::vector(settlements.size(), answer));
    }
    [[nodiscard]] std::size_t lines_with(std::string_view text) const {
        return static_cast<std::size_t>(std::ranges::count_if(
            log_.lines, [&](const std::string& line) { return line.find(text) != std::string::npos; }));
    }
    static Outcome not_attempted(std::string_view code, std::optional<Duration> retry_after = {}) {
        return {.kind = OutcomeKind::retryable,
                .code = std::string(code),
                .retry_after = retry_after,
                .not_attempted = true};
    }
    static Outcome delivered() { return {.kind = OutcomeKind::delivered}; }

    const bool typed_;
    Instant now_ = Instant(std::chrono::hours(1));
    FakeEvents table_{{.shards = 2, .typed = typed_}, [this] { return now_.time_since_epoch(); }};
    pipeline::Observer observer_;
    pipeline::RecordingLog log_;
    std::optional<RelayCore> core_;
    std::vector<const Message*> batch_;
    std::map<std::int64_t, const Message*> messages_;
};

}  // namespace deliverd::relay
