#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "config/load.h"

namespace deliverd::config {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OrdersLaneTest : public testing::Test {
protected:
    LoadedConfig load(const std::string& settings, const ConfigRequest& request = {}) {
        const std::string yaml =
            "lanes:\n  orders:\n    outbox: orders\n    sink: { type: http, url: \"http://127.0.0.1:9000/orders\" }\n" +
            settings;
        return load_config_text(yaml, "deliverd.yaml", request,
                                [this](const std::string& name) -> std::optional<std::string> {
                                    const auto found = variables_.find(name);
                                    return found == variables_.end() ? std::nullopt : std::optional(found->second);
                                });
    }
    std::map<std::string, std::string> variables_;
};

TEST_F(OrdersLaneTest, HasDefaultsOfItsOwn) {
    const LoadedConfig loaded = load("");
    ASSERT_THAT(loaded.problems, IsEmpty());
    const LaneConfig& lane = loaded.config.lanes.at(0);
    EXPECT_EQ(lane.outbox, OutboxKind::orders);
    EXPECT_EQ(lane.options.batch_size, 32);
    EXPECT_EQ(lane.options.parallelism, 4);
    EXPECT_EQ(lane.options.lease, minutes(10));
    EXPECT_EQ(lane.options.rescue_interval, seconds(30));
    EXPECT_EQ(lane.options.idle_poll, milliseconds(200));
    EXPECT_TRUE(lane.options.throttle);
    EXPECT_FALSE(lane.options.retry.gives_up_at(8));
    EXPECT_TRUE(lane.options.retry.gives_up_at(9));
    EXPECT_EQ(lane.options.retry.wait_at(1, -1, -1), from_seconds(1.8));
    EXPECT_EQ(lane.options.retry.wait_at(8, 1, 1), from_seconds(281.6));
    ASSERT_TRUE(lane.sink.http.broker);
    EXPECT_THAT(lane.sink.http.broker->fields, ElementsAre("code", "status"));
    EXPECT_EQ(loaded.config.orders.ledger_ttl, std::chrono::hours(48));
    EXPECT_EQ(loaded.config.upkeep.ledger_purge_interval, std::chrono::hours(1));
}

TEST_F(OrdersLaneTest, TheEnvironmentWinsOverTheFile) {
    variables_ = {{"OUTBOX_BATCH_SIZE", "7"},
                  {"OUTBOX_PARALLELISM", "3"},
                  {"OUTBOX_RETRY_MAX", "2"},
                  {"OUTBOX_IDLE_SLEEP_MS", "50"},
                  {"OUTBOX_STUCK_THRESHOLD_MIN", "0.5"}};
    const LoadedConfig loaded = load(
        "    batch_size: 99\n    idle_sleep_ms: 900\n    retry: { max: 5 }\n"
        "  memories:\n    outbox: memory\n    sink: { type: console }\n");
    ASSERT_THAT(loaded.problems, IsEmpty());
    const lane::LaneOptions& options = loaded.config.find_lane("orders")->options;
    EXPECT_EQ(options.batch_size, 7);
    EXPECT_EQ(options.parallelism, 3);
    EXPECT_EQ(options.idle_poll, milliseconds(50));
    EXPECT_EQ(options.lease, seconds(30));
    EXPECT_TRUE(options.retry.gives_up_at(3));
    EXPECT_FALSE(options.retry.gives_up_at(2));
    EXPECT_EQ(loaded.config.find_lane("memories")->options.batch_size, 100) << "only lanes of orders";
}

TEST_F(OrdersLaneTest, AFlagWinsOverTheEnvironment) {
    variables_ = {{"OUTBOX_BATCH_SIZE", "7"}};
    const LoadedConfig loaded = load("", {{}, {}, {{"lanes.orders.batch_size", "9", "--batch-size"}}});
    EXPECT_EQ(loaded.config.lanes.at(0).options.batch_size, 9);
}

TEST_F(OrdersLaneTest, AWrongVariableIsNamed) {
    variables_ = {{"OUTBOX_BATCH_SIZE", "many"}};
    EXPECT_THAT(load("").problems, ElementsAre(HasSubstr("OUTBOX_BATCH_SIZE must be a whole number")));
}

TEST_F(OrdersLaneTest, SettingsOfTheOtherOutboxAreRefusedWithTheRightName) {
    EXPECT_THAT(
        load("    lease_seconds: 60\n").problems,
        ElementsAre(AllOf(HasSubstr("deliverd.yaml:5: lanes.orders.lease_seconds"), HasSubstr("stuck_threshold_min"))));
    EXPECT_THAT(load("", {{}, {}, {{"lanes.orders.loop_interval_seconds", "1", "--loop-interval"}}}).problems,
                ElementsAre(AllOf(HasSubstr("--loop-interval"), HasSubstr("idle_sleep_ms"))));
    EXPECT_THAT(load("  m:\n    outbox: memory\n    idle_sleep_ms: 5\n    sink: { type: console }\n").problems,
                ElementsAre(HasSubstr("loop_interval_seconds")));
}

TEST_F(OrdersLaneTest, WhatAConflictSaysCanBeSet) {
    const LoadedConfig loaded = load_config_text(
        "lanes:\n  orders:\n    outbox: orders\n    sink:\n      type: http\n      url: http://b/\n"
        "      processed_fields: \"reason, state\"\n      processed_value: DUPLICATE\n      processed_text: seen it\n",
        "deliverd.yaml", {}, [](const std::string&) { return std::nullopt; });
    ASSERT_THAT(loaded.problems, IsEmpty());
    const ProcessedMatch& match = *loaded.config.lanes.at(0).sink.http.broker;
    EXPECT_THAT(match.fields, ElementsAre("reason", "state"));
    EXPECT_EQ(match.value, "DUPLICATE");
    EXPECT_EQ(match.text, "seen it");
}

TEST_F(OrdersLaneTest, TheLongestPayloadIsSetByLanesOfMemoriesAlone) {
    const auto loaded = load("  memories: { outbox: memory, max_payload_bytes: 1000, sink: { type: console } }\n");
    ASSERT_THAT(loaded.problems, IsEmpty());
    EXPECT_EQ(loaded.config.database.sqlite.max_payload_bytes, 1000);
    EXPECT_EQ(load("").config.database.sqlite.max_payload_bytes, store::SqliteOptions().max_payload_bytes);
}

}  // namespace
}  // namespace deliverd::config
