#include "sink/reconnect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/recording_log.h"

namespace deliverd::sink {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Backoff, DoublesUpToTheLongestAndBeginsAnew) {
    Backoff backoff(300ms);
    for (const Duration pause : {50ms, 100ms, 200ms, 300ms, 300ms}) EXPECT_EQ(backoff.next(), pause);
    backoff.reset();
    EXPECT_EQ(backoff.next(), 50ms);
}

TEST(ConnectionLog, LogsALossOnceAndTheReconnectionOnce) {
    RecordingLog log;
    ConnectionLog connection(log, "nats", "host:4222");
    connection.connected();
    EXPECT_THAT(log.events(), ElementsAre());
    connection.lost("reset");
    connection.failed("refused");
    connection.failed("refused");
    connection.connected();
    connection.connected();
    connection.failed("refused");
    EXPECT_THAT(log.events(), ElementsAre("sink lost its connection", "sink connected", "sink cannot connect"));
    EXPECT_THAT(log.text(), HasSubstr("nats host:4222 reset"));
}

}  // namespace
}  // namespace deliverd::sink
