#include "wal/stream_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "base/text.h"
#include "wal/byte_reader.h"
#include "wal/testing/stream_writer.h"

namespace deliverd::wal {
namespace {

using testing::HasSubstr;

std::string log_data(std::string_view payload) {
    return StreamWriter('w').integer<Lsn>(0x10).integer<Lsn>(0x20).integer<std::int64_t>(7).bytes(payload);
}

TEST(StreamMessageTest, LogDataHasItsPositionAndPayload) {
    const std::string bytes = log_data("payload");
    const auto message = read_stream_message(bytes);
    ASSERT_TRUE(message) << message.error().message;
    const auto& data = std::get<LogData>(*message);
    EXPECT_EQ(data.start, 0x10);
    EXPECT_EQ(data.server_end, 0x20);
    EXPECT_EQ(data.payload, "payload");
    EXPECT_EQ(data.payload.data(), bytes.data() + 25) << "the payload is not copied";
}

TEST(StreamMessageTest, LogDataMayBeEmpty) {
    const std::string bytes = log_data("");
    const auto message = read_stream_message(bytes);
    ASSERT_TRUE(message);
    EXPECT_EQ(std::get<LogData>(*message).payload, "");
}

TEST(StreamMessageTest, AKeepaliveSaysWhetherItWantsAnAnswer) {
    for (const bool wanted : {false, true}) {
        const std::string bytes = StreamWriter('k').integer<Lsn>(0x20).integer<std::int64_t>(7).integer<char>(wanted);
        const auto message = read_stream_message(bytes);
        ASSERT_TRUE(message) << message.error().message;
        EXPECT_EQ(std::get<Keepalive>(*message).server_end, 0x20);
        EXPECT_EQ(std::get<Keepalive>(*message).reply_wanted, wanted);
    }
}

TEST(StreamMessageTest, EveryCutOfAHeadIsRefused) {
    const std::string head = log_data("");
    const std::string keepalive = StreamWriter('k').integer<Lsn>(1).integer<std::int64_t>(2).integer<char>(0);
    for (const std::string& whole : {head, keepalive}) {
        for (std::size_t size = 0; size < whole.size(); ++size) {
            const auto message = read_stream_message(std::string_view(whole).substr(0, size));
            ASSERT_FALSE(message) << size;
            EXPECT_EQ(message.error().code, kMalformed);
            EXPECT_EQ(message.error().error_class, ErrorClass::permanent);
        }
    }
}

TEST(StreamMessageTest, ARefusalNamesTheKind) {
    EXPECT_THAT(read_stream_message("k").error().message, HasSubstr("a keepalive ('k') of 1 bytes"));
    EXPECT_THAT(read_stream_message("w1").error().message, HasSubstr("log data ('w') of 2 bytes"));
    EXPECT_THAT(read_stream_message("\x01").error().message, HasSubstr("the unknown kind 0x01"));
    const std::string longer = StreamWriter('k').integer<Lsn>(1).integer<std::int64_t>(2).integer<char>(0).bytes("x");
    EXPECT_FALSE(read_stream_message(longer)) << "a keepalive has nothing behind it";
}

TEST(StreamMessageTest, AStatusUpdateIsAsTheProtocolWantsIt) {
    const WallTime now{std::chrono::sys_days{std::chrono::year{2000} / 1 / 1} + std::chrono::microseconds(5)};
    const std::string update = status_update(0x30, 0x20, now);
    ASSERT_EQ(update.size(), 34U);
    EXPECT_EQ(update.front(), 'r');
    ByteReader reader(std::string_view(update).substr(1));
    EXPECT_EQ(reader.integer<Lsn>(), 0x30) << "written: what was received";
    EXPECT_EQ(reader.integer<Lsn>(), 0x20) << "flushed: what the slot may forget";
    EXPECT_EQ(reader.integer<Lsn>(), 0x20) << "applied";
    EXPECT_EQ(reader.integer<std::int64_t>(), 5) << "microseconds since 2000";
    EXPECT_EQ(reader.integer<char>(), 0) << "no answer is wanted";
}

TEST(StreamMessageTest, TimesCountFrom2000) {
    EXPECT_EQ(rfc3339_millis(protocol_time(0)), "2000-01-01T00:00:00.000Z");
    EXPECT_EQ(rfc3339_millis(protocol_time(1'500'000)), "2000-01-01T00:00:01.500Z");
    static_cast<void>(protocol_time(std::numeric_limits<std::int64_t>::max()));  // under UBSan: no overflow
}

}  // namespace
}  // namespace deliverd::wal
