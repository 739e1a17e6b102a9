// The steps of a redrive, which the test makes one by one, without threads.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deadletter/redrive.h"
#include "deadletter/testing/fake_source.h"
#include "deadletter/testing/redrive_fixture.h"

namespace deliverd::deadletter {

inline constexpr const char* kAll = "all.dlq.v1";

class RedriveStepsTest : public testing::Test {
protected:
    class OpenSpools final : public Spools {
    public:
        std::string refusal(const store::Letter& /*letter*/) override { return {}; }
        std::vector<Outcome> put_back(std::span<const store::LetterDetail> letters) override {
            if (before) before();
            return std::vector<Outcome>(letters.size(), answer);
        }
        std::function<void()> before;
        Outcome answer{.kind = OutcomeKind::delivered};
    };

    RedriveStepsTest() {
        options.page = 2;
        options.pages_at_once = 1;
        options.pages_in_flight = 3;
        options.store_retry_wait = std::chrono::microseconds(1);
        options.clock = clock;
    }
    std::string add(const std::string& topic = "orders") {
        const std::string id = letters.add(topic);
        letters.change(id, [](FakeLetters::Row& row) { row.detail.letter.topic = kAll; });
        return id;
    }
    std::string add_of_lane() { return letters.add_of_lane(kAll, "memory"); }
    std::string add_of_spool() {
        const std::string id = letters.add(kAll);
        letters.change(id, [](FakeLetters::Row& row) {
            row.detail.letter.topic.reset();
            row.detail.letter.source = "spool:" + std::string(kAll);
        });
        return id;
    }
    std::vector<std::string> add(int count) {
        std::vector<std::string> ids;
        for (int i = 0; i < count; ++i) ids.push_back(add());
        return ids;
    }
    Manager& manager() {
        if (!manager_) {
            manager_ = std::make_unique<Manager>(options, letters, &replayer, log, uuid_source(), &spools);
        }
        return *manager_;
    }
    /// With the options as they are now.
    void reset() {
        run.reset();
        manager_.reset();
    }
    /// As another process began it, if `resumed`.
    void begin(bool resumed = false, const SendRule& rule = {}) {
        run = manager().begin_redrive(kAll, "ops", rule, resumed).value();
        ASSERT_TRUE(run);
        ended = {};
    }
    RedriveRun::Step read() { return note(0, run->read_step()); }
    RedriveRun::Step publish() { return note(1, run->publish_step()); }
    RedriveRun::Step record() { return note(2, run->record_step()); }
    /// Makes the steps that are left, and answers with the report.
    RedriveReport finish() {
        for (int turn = 0; turn < 1000 && !(ended[0] && ended[1] && ended[2]); ++turn) {
            if (!ended[0]) read();
            if (!ended[1]) publish();
            if (!ended[2]) record();
        }
        EXPECT_TRUE(ended[0] && ended[1] && ended[2]);
        return run->finish();
    }
    RedriveReport redrive(bool resumed = false) {
        begin(resumed);
        return finish();
    }
    store::LetterStatus status(const std::string& id) { return letters.at(id).detail.letter.status; }
    void answer_all(Outcome outcome) {
        replayer.answer = [outcome = std::move(outcome)](const Record&) { return outcome; };
    }
    void fail(const std::string& name, FakeLetters::Fault fault) {
        letters.fault = [name, fault](int, std::string_view call) {
            return call == name ? fault : FakeLetters::Fault::none;
        };
    }
    static Outcome away() { return {.kind = OutcomeKind::retryable, .code = "AWAY", .not_attempted = true}; }

    std::shared_ptr<HandClock> clock = std::make_shared<HandClock>();
    ManagerOptions options;
    FakeLetters letters;
    FakeReplayer replayer;
    OpenSpools spools;
    RecordingLog log;
    std::unique_ptr<Manager> manager_;
    std::unique_ptr<RedriveRun> run;
    std::array<bool, 3> ended{};

private:
    RedriveRun::Step note(std::size_t which, RedriveRun::Step step) {
        ended.at(which) = step == RedriveRun::Step::ended;
        return step;
    }
};

}  // namespace deliverd::deadletter
