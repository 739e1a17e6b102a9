// A manager over a store and a broker in memory that can fail.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "deadletter/manager.h"
#include "deadletter/testing/fake_letters.h"
#include "deadletter/testing/fakes.h"

namespace deliverd::deadletter {

class ManagerTest : public testing::Test {
protected:
    static ManagerOptions options() {
        ManagerOptions options;
        options.store_retry_wait = std::chrono::microseconds(1);
        return options;
    }
    RetryReport retry(const std::string& id) { return manager.retry(id, "ops"); }
    store::LetterStatus status(const std::string& id) { return letters.at(id).detail.letter.status; }
    std::int32_t retries(const std::string& id) { return letters.at(id).detail.letter.retry_count; }
    /// A letter whose last retry allowed was begun by a process that died.
    std::string add_unfinished() {
        const std::string id = letters.add("orders");
        letters.change(id, [](FakeLetters::Row& row) {
            row.detail.letter.status = store::LetterStatus::retrying;
            row.detail.letter.retry_count = 3;
            row.owner = "one that died";
        });
        return id;
    }
    void answer_all(Outcome outcome) {
        replayer.answer = [outcome = std::move(outcome)](const Record&) { return outcome; };
    }

    FakeLetters letters;
    FakeReplayer replayer;
    RecordingLog log;
    Manager manager{options(), letters, &replayer, log};
};

}  // namespace deliverd::deadletter
