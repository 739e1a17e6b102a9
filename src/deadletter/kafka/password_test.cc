// A password that changes at a real broker while dead letters are read from it and sent back to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/testing/recording_log.h"
#include "deadletter/kafka/testing/records.h"
#include "sink/sink.h"

namespace deliverd::deadletter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Tries again until it is there; what failed was never sent.
void publish(Replayer& replayer, const std::vector<Record>& records) {
    const auto end = std::chrono::steady_clock::now() + sink::kBrokerPatience;
    while (true) {
        const auto outcome = replayer.publish(records).at(0);
        if (outcome.kind == OutcomeKind::delivered) return;
        ASSERT_TRUE(outcome.not_attempted) << outcome.code << ": " << outcome.detail;
        ASSERT_LT(std::chrono::steady_clock::now(), end) << outcome.detail;
    }
}

TEST(KafkaPassword, AChangedOneIsReadFromItsFileForTheNextLogin) {
    DELIVERD_NEEDS_REAL_KAFKA();
    const auto path = std::filesystem::temp_directory_path() / ("deliverd_dlq_password_" + std::to_string(::getpid()));
    const auto write = [&](std::string_view password) { std::ofstream(path, std::ios::trunc) << password << "\n"; };
    sink::OwnBroker kafka;
    const DeadLetterTopics topics(kafka.brokers());
    const auto dead = topics.make("a");
    const auto back = sink::fresh_topic();
    sink::create_topic(kafka.brokers(), back, 1);
    write("kafka-secret");
    auto options = topics.options();
    options.brokers = kafka.sasl_brokers();
    options.librdkafka = {{"security.protocol", "sasl_plaintext"},
                          {"sasl.mechanism", "PLAIN"},
                          {"sasl.username", "deliverd"},
                          {"sasl.password", "kafka-secret"}};
    options.password_file = path;
    ReplayerOptions replay;
    replay.librdkafka = options.librdkafka;
    replay.password_file = path;
    RecordingLog reading;
    RecordingLog sending;
    const auto source = DeadLetterTopics::source(options, reading);
    const auto replayer = replayer_to(options.brokers, sending, replay);
    put(kafka.brokers(), numbered(dead, 0, 2));
    EXPECT_THAT(values_of(read(*source, 2)), ElementsAre("0", "1"));
    ASSERT_TRUE(source->commit(10s));
    publish(*replayer, {plain(back, "0")});

    kafka.command("set_password sec0nd-word");
    write("sec0nd-word");
    kafka.command("stop");  // the connections it had would have lasted
    kafka.command("start");
    put(kafka.brokers(), numbered(dead, 2, 2));
    EXPECT_THAT(values_of(read(*source, 2)), ElementsAre("2", "3"));
    // A broker that was away for long has forgotten the member: what it read is then read, and committed, again.
    const auto is_committed = [&] { return source->commit(10s) && topics.committed(dead, 0) == 4; };
    poll_until(*source, [](const std::vector<Record>&) {}, is_committed);
    publish(*replayer, {plain(back, "1")});
    std::filesystem::remove(path);

    std::vector<std::string> sent;
    for (const auto& record : sink::read_topic(kafka.brokers(), back)) sent.push_back(record.value.value_or("null"));
    EXPECT_THAT(sent, ElementsAre("0", "1"));
    for (const char* word : {"kafka-secret", "sec0nd-word"}) {
        EXPECT_THAT(reading.text() + sending.text(), Not(HasSubstr(word)));
    }
}

}  // namespace
}  // namespace deliverd::deadletter
