// What goes back to the original topic, and what does not.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "deadletter/failure_headers.h"
#include "deadletter/provenance.h"
#include "deadletter/testing/any_headers.h"

namespace deliverd::deadletter {
namespace {

Record letter_with(Headers headers) {
    return {.topic = "orders.dlq.v1", .key = "k", .value = "{}", .headers = std::move(headers)};
}

Record record_of(std::optional<std::string> key, std::optional<std::string> value, Headers headers = {}) {
    return {.topic = "t", .key = std::move(key), .value = std::move(value), .headers = std::move(headers)};
}

TEST(Replay, TakesOffWhatTellsOfTheFailureAndCounts) {
    Record dead = letter_with({{"trace_id", "t"},
                               {"original_topic", "orders"},
                               {"tag", "1"},
                               {"kafka_dlt-exception-message", "m"},
                               {"tag", std::nullopt},
                               {"tag", ""},
                               {"error", "e"}});
    dead.partition = 3;
    dead.offset = 9;
    dead.timestamp_ms = 5;
    const Record replay = replay_of(dead, "orders", "fresh");
    EXPECT_EQ(replay.topic, "orders");
    EXPECT_EQ(replay.key, "k");
    EXPECT_EQ(replay.value, "{}");
    const Headers expected = {
        {"trace_id", "t"}, {"tag", "1"}, {"tag", std::nullopt}, {"tag", ""}, {"deliverd-replays", "1"}};
    EXPECT_EQ(replay.headers, expected);
}

TEST(Replay, CountsOnAndAGarbledCountIsNone) {
    const auto count = [](std::optional<std::string> present) {
        return *replay_of(letter_with({{"deliverd-replays", std::move(present)}, {"a", "b"}}), "t", "")
                    .headers.back()
                    .value;
    };
    EXPECT_EQ(count("4"), "5");
    EXPECT_EQ(count("-4"), "1");
    EXPECT_EQ(count("4x"), "1");
    EXPECT_EQ(count(""), "1");
    EXPECT_EQ(count(std::nullopt), "1");
    EXPECT_EQ(count("99999999999999999999"), "1");
    EXPECT_EQ(count("9223372036854775807"), "1000000000");
    const Record twice = replay_of(letter_with({{"deliverd-replays", "7"}, {"deliverd-replays", "2"}}), "t", "");
    EXPECT_EQ(twice.headers, (Headers{{"deliverd-replays", "3"}}));
}

TEST(Replay, AFreshKeyOnlyWhereThereWasNone) {
    EXPECT_EQ(replay_of(record_of("", "v"), "o", "fresh").key, "");
    EXPECT_EQ(replay_of(record_of(std::nullopt, "v"), "o", "fresh").key, "fresh");
    EXPECT_EQ(replay_of(record_of(std::nullopt, std::nullopt), "o", "fresh").key, std::nullopt)
        << "nothing to be had of a key";
}

TEST(Replay, BytesThatSmallRyeCouldNotReadComeBack) {
    const Record value = replay_of(record_of("k", std::nullopt, {{"deserialization-failure-data", "raw"}}), "o", "f");
    EXPECT_EQ(value.value, "raw");
    EXPECT_EQ(value.headers.size(), 1U);
    const Record key =
        replay_of(record_of(std::nullopt, "v",
                            {{"deserialization-failure-key", "true"}, {"deserialization-failure-data", "raw"}}),
                  "o", "f");
    EXPECT_EQ(key.key, "raw");
    EXPECT_EQ(key.value, "v");
}

store::LetterDetail letter_to(std::string original_topic) {
    store::LetterDetail detail;
    detail.letter.source = "kafka";
    detail.letter.topic = "orders.dlq.v1";
    detail.letter.provenance.original_topic = std::move(original_topic);
    detail.record = letter_with({});
    return detail;
}

TEST(Replay, ARowWithTheSeedsColumnsAloneSendsItsPayload) {
    store::LetterDetail inserted = letter_to("orders");
    inserted.letter.topic.reset();
    inserted.letter.payload = R"({"a":1})";
    inserted.record = {};
    const Record replay = replay_of(inserted, "fresh");
    EXPECT_EQ(replay.value, R"({"a":1})");
    EXPECT_EQ(replay.key, "fresh");
    inserted.letter.topic = "orders.dlq.v1";
    EXPECT_EQ(replay_of(inserted, "fresh").value, std::nullopt) << "a record's null value is null";
}

TEST(Refusal, NoneForARecordWithAnOrigin) {
    EXPECT_EQ(replay_refusal(letter_to("orders")), "");
}

TEST(Refusal, AnOriginThatIsForDeadLetters) {
    EXPECT_NE(replay_refusal(letter_to("orders.dlq.v1")).find("itself for dead letters"), std::string::npos);
    EXPECT_NE(replay_refusal(letter_to("x.dlq.v1")), "");
    EXPECT_EQ(replay_refusal(letter_to("orders-dlt")), "");
    EXPECT_NE(replay_refusal(letter_to("orders-dlt"), "*-dlt"), "");
    store::LetterDetail own = letter_to("odd");
    own.letter.topic = "odd";
    EXPECT_NE(replay_refusal(own), "") << "where it was read from";
    EXPECT_NE(replay_refusal(letter_to("not a topic")), "");
    EXPECT_NE(replay_refusal(letter_to("")), "");
}

TEST(Refusal, AnOrderThatItsReceiverMayHaveIsNotMadeAnewUnseen) {
    store::LetterDetail order = letter_to("orders");
    order.letter.lane_row = store::LaneRow{"orders", "orders", "1"};
    EXPECT_NE(replay_refusal(order).find("make a new order instead"), std::string::npos);
    order.letter.in_doubt = true;
    EXPECT_NE(replay_refusal(order).find("its receiver may have it; find out before"), std::string::npos);
}

TEST(Refusal, WhereThereIsNothingToSend) {
    store::LetterDetail empty = letter_to("orders");
    empty.record = {};
    empty.letter.value_bytes = 0;
    EXPECT_EQ(replay_refusal(empty), "") << "a record whose value is null";
    empty.letter.topic.reset();
    EXPECT_EQ(replay_refusal(empty), "there is nothing to send: it has neither a value nor a payload");
    empty.letter.payload_left_out = true;
    EXPECT_EQ(replay_refusal(empty), "") << "there is one, which the listing does not show";
    empty.letter.payload_left_out = false;
    empty.letter.payload = "null";
    EXPECT_EQ(replay_refusal(empty), "");
}

TEST(Refusal, WhatIsNotWholeOrNotTheMessage) {
    store::LetterDetail cut = letter_to("orders");
    cut.letter.truncated = true;
    EXPECT_NE(replay_refusal(cut).find("first"), std::string::npos);

    store::LetterDetail report = letter_to("orders");
    report.record.headers = {{"input_record_topic", "orders"}};
    EXPECT_NE(replay_refusal(report).find("report"), std::string::npos);

    // As a listing has it: without headers.
    store::LetterDetail listed = letter_to("orders");
    EXPECT_EQ(replay_refusal(listed), "");
    for (const char* producer : {"confluent-reporter", "confluent-reporter: sink-1"}) {
        listed.letter.provenance.producer = producer;
        EXPECT_NE(replay_refusal(listed).find("report"), std::string::npos) << producer;
    }
    listed.letter.provenance.producer = "confluent-reporters";
    EXPECT_EQ(replay_refusal(listed), "");

    store::LetterDetail no_copy = letter_to("orders");
    no_copy.record.headers = {{"__dlq.errors.topic", "orders"}};
    EXPECT_EQ(replay_refusal(no_copy), "") << "with a copy it can be sent";
    no_copy.record.key.reset();
    no_copy.record.value.reset();
    EXPECT_NE(replay_refusal(no_copy).find("no copy"), std::string::npos);
}

TEST(Refusal, OrdersButNotOtherLanesNorSpools) {
    store::LetterDetail lane = letter_to("memories");
    lane.letter.topic.reset();
    lane.letter.lane_row = store::LaneRow{"memories", "memory", "7"};
    EXPECT_EQ(replay_refusal(lane), "");
    lane.letter.lane_row->outbox = "orders";
    EXPECT_NE(replay_refusal(lane).find("order"), std::string::npos);
    store::LetterDetail spool = letter_to("hooks");
    spool.letter.topic.reset();
    spool.letter.source = "spool:hooks";
    EXPECT_EQ(replay_refusal(spool), "");
    EXPECT_EQ(replay_refusal(spool, ""), "") << "also without Kafka";
    spool.letter.truncated = true;
    EXPECT_NE(replay_refusal(spool), "");
}

RC_GTEST_PROP(ReplayProperty, KeepsExactlyWhatIsNotAboutTheFailure, ()) {
    const Headers headers = *any_headers();
    const Record dead = letter_with(headers);
    const Record replay = replay_of(dead, "orders", "fresh");
    Headers expected;
    std::ranges::copy_if(headers, std::back_inserter(expected), [](const RecordHeader& header) {
        return header.name != kReplaysHeader && failure_header(header.name) == nullptr;
    });
    RC_ASSERT(replay.headers.size() == expected.size() + 1);
    RC_ASSERT(std::equal(expected.begin(), expected.end(), replay.headers.begin()));
    RC_ASSERT(replay.headers.back().name == kReplaysHeader);
    RC_ASSERT(replay.key == dead.key);
    RC_ASSERT(replay.value == dead.value);
    const Record again = replay_of(replay, "orders", "fresh");
    RC_ASSERT(std::stoll(*again.headers.back().value) == std::stoll(*replay.headers.back().value) + 1);
}

}  // namespace
}  // namespace deliverd::deadletter
