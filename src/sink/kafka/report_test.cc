#include "sink/kafka/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sink/sink.h"

namespace deliverd::sink {
namespace {

using testing::HasSubstr;

constexpr auto kNot = RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
constexpr auto kMaybe = RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED;

Report report(rd_kafka_resp_err_t error, rd_kafka_msg_status_t status) {
    Report out;
    out.error = error;
    out.status = status;
    out.topic = "order.created";
    out.timeout = std::chrono::seconds(10);
    return out;
}

TEST(KafkaReport, IsAmbiguousExactlyWhenTheBrokerMayHaveIt) {
    struct Case {
        rd_kafka_resp_err_t error;
        OutcomeKind unsent;
        std::string_view code;
    };
    const Case cases[] = {
        {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, OutcomeKind::retryable, "KAFKA_TIMEOUT"},
        {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, OutcomeKind::retryable, "UNKNOWN_TOPIC"},
        {RD_KAFKA_RESP_ERR__TIMED_OUT, OutcomeKind::retryable, "KAFKA_TIMEOUT"},
        {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, OutcomeKind::retryable, "UNKNOWN_TOPIC"},
        {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, OutcomeKind::retryable, "UNKNOWN_TOPIC"},
        {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, OutcomeKind::permanent, "BAD_TOPIC"},
        {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, OutcomeKind::permanent, "MESSAGE_TOO_LARGE"},
        {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, OutcomeKind::permanent, "MESSAGE_TOO_LARGE"},
        {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, OutcomeKind::retryable, "NOT_AUTHORIZED"},
        {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, OutcomeKind::retryable, "NOT_AUTHORIZED"},
        {RD_KAFKA_RESP_ERR_INVALID_RECORD, OutcomeKind::permanent, "BROKER_REFUSED"},
        {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, OutcomeKind::permanent, "BROKER_REFUSED"},
        {RD_KAFKA_RESP_ERR__FATAL, OutcomeKind::retryable, "KAFKA_FATAL"},
        {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, OutcomeKind::retryable, "BROKER_DEGRADED"},
        {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, OutcomeKind::retryable, "BROKER_REFUSED"},
        {RD_KAFKA_RESP_ERR__TRANSPORT, OutcomeKind::retryable, "KAFKA_ERROR"},
        {RD_KAFKA_RESP_ERR__QUEUE_FULL, OutcomeKind::retryable, "QUEUE_FULL"},
        {RD_KAFKA_RESP_ERR__PURGE_QUEUE, OutcomeKind::retryable, "STOPPED"},
    };
    for (const auto& tested : cases) {
        const auto unsent = outcome_of(report(tested.error, kNot));
        EXPECT_EQ(unsent.kind, tested.unsent) << rd_kafka_err2name(tested.error);
        EXPECT_EQ(unsent.code, tested.code) << rd_kafka_err2name(tested.error);
        EXPECT_FALSE(unsent.detail.empty());
        const auto sent = outcome_of(report(tested.error, kMaybe));
        EXPECT_EQ(sent.kind, OutcomeKind::ambiguous) << rd_kafka_err2name(tested.error);
        EXPECT_FALSE(sent.not_attempted);
    }
    const auto in_flight = outcome_of(report(RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, kNot));
    EXPECT_EQ(in_flight.kind, OutcomeKind::ambiguous);
    EXPECT_EQ(in_flight.code, kStopped);
}

TEST(KafkaReport, OnlyAKnownAbsenceByTheBrokersOwnStateCostsNoAttempt) {
    for (const auto error :
         {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
          RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
          RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
          RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
          RD_KAFKA_RESP_ERR_NOT_COORDINATOR, RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE,
          RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE, RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
          RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
          RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH, RD_KAFKA_RESP_ERR__QUEUE_FULL, RD_KAFKA_RESP_ERR__FATAL}) {
        EXPECT_TRUE(outcome_of(report(error, kNot)).not_attempted) << rd_kafka_err2name(error);
        EXPECT_EQ(outcome_of(report(error, kMaybe)).kind, OutcomeKind::ambiguous) << rd_kafka_err2name(error);
        EXPECT_FALSE(outcome_of(report(error, kMaybe)).not_attempted) << rd_kafka_err2name(error);
    }
    for (const auto about_it :
         {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
          RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT,
          RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_RESP_ERR_INVALID_RECORD, RD_KAFKA_RESP_ERR__PURGE_QUEUE}) {
        EXPECT_FALSE(outcome_of(report(about_it, kNot)).not_attempted) << rd_kafka_err2name(about_it);
    }
}

TEST(KafkaReport, WhatTimedOutUnsentWhileNoBrokerWasThereSaysSo) {
    auto unsent = report(RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, kNot);
    unsent.unreachable = true;
    unsent.trouble = "Connection refused";
    const auto outcome = outcome_of(unsent);
    EXPECT_EQ(outcome.kind, OutcomeKind::retryable);
    EXPECT_TRUE(outcome.not_attempted);
    EXPECT_EQ(outcome.code, kBrokerUnreachable);
    EXPECT_THAT(outcome.detail, HasSubstr("Connection refused"));
    unsent.status = kMaybe;
    EXPECT_EQ(outcome_of(unsent).kind, OutcomeKind::ambiguous);
    EXPECT_EQ(outcome_of(unsent).code, "KAFKA_TIMEOUT");
}

TEST(KafkaReport, WhatAProducerClearedAwayWhenItGaveUpWasNotTried) {
    auto cleared = report(RD_KAFKA_RESP_ERR__PURGE_QUEUE, kNot);
    cleared.fatal = true;
    const auto outcome = outcome_of(cleared);
    EXPECT_EQ(outcome.code, "KAFKA_FATAL");
    EXPECT_TRUE(outcome.not_attempted);
    cleared.status = kMaybe;
    EXPECT_EQ(outcome_of(cleared).kind, OutcomeKind::ambiguous);
}

TEST(KafkaReport, AReceiptNamesTopicPartitionAndOffset) {
    const auto outcome = delivered("order.created", 3, 9'000'000'000);
    EXPECT_EQ(outcome.kind, OutcomeKind::delivered);
    EXPECT_EQ(outcome.receipt, "order.created[3]@9000000000");
}

TEST(KafkaReport, ATopicsNameIsWhatKafkaTakes) {
    for (const auto* name : {"a", "z", "A", "Z", "0", "9", "order.created", "a_b-c", "...", "-", "_"}) {
        EXPECT_TRUE(is_topic_name(name)) << name;
    }
    for (const auto* name : {"", ".", "..", "a b", "a/b", "a`b", "a{b", "a@b", "a[b", "a:b", "a,b", "\xc3\xa4"}) {
        EXPECT_FALSE(is_topic_name(name)) << name;
    }
    EXPECT_TRUE(is_topic_name(std::string(249, 'x')));
    EXPECT_FALSE(is_topic_name(std::string(250, 'x')));
}

}  // namespace
}  // namespace deliverd::sink
