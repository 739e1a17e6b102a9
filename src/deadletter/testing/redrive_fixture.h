// Retries of whole topics over a store and a broker in memory that can fail.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "deadletter/manager.h"
#include "deadletter/testing/fake_letters.h"
#include "deadletter/testing/fakes.h"

namespace deliverd::deadletter {

/// In small steps, so that there are many calls of the store.
inline ManagerOptions quick() {
    ManagerOptions options;
    options.pages_at_once = 1;
    options.pages_in_flight = 8;
    options.store_retry_wait = std::chrono::microseconds(1);
    return options;
}

class RedriveTest : public testing::Test {
protected:
    std::vector<std::string> add(int count, std::size_t bytes = 10) {
        std::vector<std::string> ids;
        for (int i = 0; i < count; ++i) ids.push_back(letters.add("orders", bytes));
        return ids;
    }
    RedriveReport redrive(const std::string& topic = "orders.dlq.v1") {
        auto report = manager.retry_all(topic, "ops");
        EXPECT_TRUE(report) << (report ? "" : report.error().message);
        return report.value_or(RedriveReport{});
    }
    std::size_t count(store::LetterStatus status, const std::vector<std::string>& ids) {
        return static_cast<std::size_t>(std::ranges::count_if(
            ids, [&](const std::string& id) { return letters.at(id).detail.letter.status == status; }));
    }

    FakeLetters letters;
    FakeReplayer replayer;
    RecordingLog log;
    Manager manager{quick(), letters, &replayer, log};
};

}  // namespace deliverd::deadletter
